"""
Thin ParlAI worlds.
"""
