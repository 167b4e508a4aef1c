"""
Where shards of work run.
"""
