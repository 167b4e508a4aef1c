"""
The version of the package, which a program has before it imports anything else.
"""

VERSION = '0.1.0'
