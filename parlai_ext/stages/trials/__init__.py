"""
What can be tried before a run (dry run, preflight, pilot), and what the run then took.
"""
