"""
Tournaments: the ranking by a rating of games, and how it is shown.
"""
