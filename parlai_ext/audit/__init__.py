"""
Can a result be gamed, and does it depend on choices? Findings on a scored run.
"""
