"""
What a scorer may ask of a model.
"""
