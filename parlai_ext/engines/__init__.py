"""
Where tasks run: in this process, or on the machines of a Ray cluster.
"""
