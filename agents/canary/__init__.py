"""
Canaries: talkers without a model that no good judge should like.
"""
