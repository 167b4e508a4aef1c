"""
Scores that were worked out elsewhere, as a scorer.
"""
