"""
The validity table: what each scorer may be trusted for.
"""
