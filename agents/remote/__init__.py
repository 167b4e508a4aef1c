"""
Systems behind a URL.
"""
