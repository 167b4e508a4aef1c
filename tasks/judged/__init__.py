"""
What people judged, as ParlAI tasks: how well a scorer agrees with them.
"""
