"""
Scorers on judged data: agreement with people.
"""
