"""
Who named this, and may it be used? One gate for all that stands in a record.
"""
