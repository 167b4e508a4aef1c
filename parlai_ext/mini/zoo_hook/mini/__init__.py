"""
The mini zoo, found by ParlAI as ``parlai.zoo.mini``.
"""
