"""
The one exception for a user's mistake: one line, no traceback, exit code 1.
"""


class UserError(Exception):
    """
    What is wrong, where (file, line, key), and what would be right — in one line.
    """
