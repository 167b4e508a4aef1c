"""
The nouns of the project, the schedule, signatures and errors; standard library only.
"""
