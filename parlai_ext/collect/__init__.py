"""
From a protocol to dialogues: plan, play, and what is tried beforehand.
"""
