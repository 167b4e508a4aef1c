"""
Floors: deliberately bad systems, ranked and shown but no part of a claim about systems.

A planted order may name them: how a judge agrees with it is a claim about the judge.
"""

FLOOR_PREFIX = 'floor-'


def is_floor(system: str) -> bool:
    """
    True if a system's name marks it as a floor.
    """
    return system.startswith(FLOOR_PREFIX)
