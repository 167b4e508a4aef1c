"""
One file a command; run() returns its result.
"""
