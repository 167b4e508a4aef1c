"""
The tables of Yang et al. (2022): `python -m benchmarks.chatmatch`.
"""
