"""
Where dialogues happen: pairing schemes, schedule, engine and ParlAI worlds.
"""
