"""
The nouns of the project, the schedule, signatures and errors; standard library only.
"""

VERSION = '0.1.0'
