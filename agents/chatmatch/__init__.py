"""
ChatMatch as a ParlAI agent.
"""
