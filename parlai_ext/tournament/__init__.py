"""
Tournaments: games and their points, the ranking by a rating, and how both are shown.
"""
