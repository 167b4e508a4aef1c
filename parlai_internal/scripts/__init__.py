"""
Commands that `parlai` imports at start-up.
"""
