"""
Judged sets: items with human judgements, one reader a file format, one card a set.
"""
