"""
FED as a ParlAI agent.
"""
