"""
One file a method: functions over dialogues.
"""
