"""
Limits that a process sets itself.
"""

import resource


def lower_limit(what: int, most: int) -> None:
    """
    Lower a limit of this process; one that is lower already, as schedulers set it,
    stays.

    :param what: a ``RLIMIT_`` of `resource`.
    """
    _, hard = resource.getrlimit(what)
    limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (limit, hard))
