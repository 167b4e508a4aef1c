"""
The torture suite: damage, kills, hostile input, and how much of it the program holds.
"""
