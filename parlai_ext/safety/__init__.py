"""
What systems answer to toxic prompts: measures of answers, and systems compared.
"""
