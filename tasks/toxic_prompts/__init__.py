"""
Toxic prompts with polite answers, as a ParlAI task.
"""
