"""
Measurements of speed and memory, and the tables of papers; run with `python -m`.
"""
