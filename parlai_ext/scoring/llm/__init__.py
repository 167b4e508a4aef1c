"""
Judges that are prompted: a chat model is asked in words, and its answer is a score.
"""
