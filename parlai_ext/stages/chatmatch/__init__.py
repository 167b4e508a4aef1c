"""
The ChatMatch paper's tables on its authors' games, and on Spot The Bot's.
"""
