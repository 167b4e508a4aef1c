"""
Numbers without a pattern, for tests of what is said of scores.
"""

import numpy as np


def noise(*shape, seed=0):
    """
    Return normal numbers of this shape, the same for every call with a seed.
    """
    return np.random.default_rng(seed).normal(size=shape)
