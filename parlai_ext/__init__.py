"""
Automatic evaluation of open-domain dialogue systems, as an extension of ParlAI.

Importing this package imports nothing heavy: no parlai, no torch, no numpy.
"""

__version__ = '0.1.0'
