"""
Floors: agents that any working system should beat.
"""
