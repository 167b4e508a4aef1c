"""
How likely is this continuation after this context?
"""
