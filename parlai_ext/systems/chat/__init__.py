"""
Conversations as the messages of chat models.
"""
