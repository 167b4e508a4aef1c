"""
Thin ParlAI tasks, found as `-t ext:NAME`.
"""
