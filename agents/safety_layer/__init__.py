"""
A safety layer around any system.
"""
