"""
Models of Hugging Face's library as systems: prompts, decoding, generation, training.
"""
