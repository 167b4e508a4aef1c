"""
The learned judge: its data, its training, and what every try was worth.
"""
