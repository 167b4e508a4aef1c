"""
Small talk from our own seeded generator.
"""
