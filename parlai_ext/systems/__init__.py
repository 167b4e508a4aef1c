"""
The only door to ParlAI: agents and options in, nouns out.
"""
