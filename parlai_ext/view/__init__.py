"""
What is shown: tables whose columns are declared once.
"""
