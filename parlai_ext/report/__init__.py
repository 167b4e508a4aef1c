"""
Terminal table, CSV and the page.
"""
