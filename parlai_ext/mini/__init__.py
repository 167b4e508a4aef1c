"""
The shipped small models, their trainer and the small-talk generator.
"""
