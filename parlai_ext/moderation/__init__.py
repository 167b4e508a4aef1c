"""
Toxic texts: detectors, what they are worth, and pairs of prompts and safe answers.
"""
