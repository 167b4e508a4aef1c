"""
Runs that stop when they are settled: looks at a run, how many openers a longer run
needs, and how all of it is shown.
"""
