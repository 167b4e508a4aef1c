"""
Training of judges: data made from dialogues, and language models that learn from it.
"""
