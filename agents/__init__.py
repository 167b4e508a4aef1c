"""
Thin ParlAI agents, found as `-m ext:NAME`.
"""
