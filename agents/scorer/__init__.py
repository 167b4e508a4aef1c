"""
Every scorer as a ParlAI agent.
"""
