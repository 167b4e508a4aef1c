"""
Dialogues that exist already, brought into a run folder: one file a format.

`talk` has the nouns, `files` finds the files and tells their format, `settle` says
which talks can be dialogues, `run_folder` writes the run.
"""
