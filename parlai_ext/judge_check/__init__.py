"""
The check of every judge on the run's own dialogues, before a ranking is believed.
"""
