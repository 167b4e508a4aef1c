"""
Any causal or sequence-to-sequence model of Hugging Face's library.
"""
