"""
Dialogues that exist already, brought into a run folder, and human judgements of them.

`source_file` has the nouns, `imported_dialogues` finds the files, tells their format,
says which can be dialogues of a run, and checks all of them together.
"""
