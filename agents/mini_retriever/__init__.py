"""
The retrieval model of the mini zoo.
"""
