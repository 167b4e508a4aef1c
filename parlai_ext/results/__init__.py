"""
From a run's scores to its ranking.
"""
