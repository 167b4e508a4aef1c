"""
Measurements of speed and memory, and the tables of papers.

`python -m benchmarks` lists them; `python -m benchmarks.NAME` runs one from a checkout.
"""
