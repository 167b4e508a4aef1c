"""
Toxic texts: detectors and what they are worth.
"""
