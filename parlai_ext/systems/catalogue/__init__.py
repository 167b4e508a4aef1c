"""
Models of the catalogue: fetched, checked, converted once, whole or not there.
"""
