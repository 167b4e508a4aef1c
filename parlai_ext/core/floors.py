"""
Floors: deliberately bad systems, ranked and shown but no part of any claim about order.
"""

FLOOR_PREFIX = 'floor-'


def is_floor(system: str) -> bool:
    """
    True if a system's name marks it as a floor.
    """
    return system.startswith(FLOOR_PREFIX)
