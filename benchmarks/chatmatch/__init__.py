"""
Print the tables of the ChatMatch paper: published and measured side by side.
"""
