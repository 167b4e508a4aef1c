"""
Scorers against what people said.
"""
