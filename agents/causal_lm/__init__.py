"""
Any causal language model of Hugging Face as a ParlAI generator, which can be trained.
"""
