"""
Files that a user writes, read into nouns; every mistake is told with its place.
"""
