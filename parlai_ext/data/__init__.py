"""
Dialogues that exist already, brought into a run folder, and human judgements of them.

`source_file` has the nouns, `formats` finds the files and tells their format,
`import_rules` says which can be dialogues of a run, `imported_dialogues` checks all of
them together.
"""
