"""
What people are asked about dialogues, what they answer, and what follows from that.
"""
