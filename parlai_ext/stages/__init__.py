"""
The stages of a run: plan, collect, score, rank, report.
"""
