"""
Systems that are reached over HTTP: chat endpoints and plain POST services.

A request is a pure function of the conversation and of the options, so that the same
conversation is the same bytes, one key of the cache, and one reply.
"""
