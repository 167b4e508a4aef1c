"""
The first two utterances of each EmpatheticDialogues dialogue.
"""
