"""
The judged utterances of a run, as a ParlAI task.
"""
