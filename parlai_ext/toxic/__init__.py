"""
Toxic texts: detectors and what they are worth, pairs of prompts and safe answers, and
what systems answer to toxic prompts.
"""
