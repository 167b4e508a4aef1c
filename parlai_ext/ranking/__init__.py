"""
Aggregation, correlations, intervals: arrays in, arrays out.
"""
