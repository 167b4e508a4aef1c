"""
The generator with a long context of the MSC models.
"""
