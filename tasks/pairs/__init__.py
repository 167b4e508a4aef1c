"""
The systems of a roster talk with each other.
"""
