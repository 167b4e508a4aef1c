"""
The torture suite: damage, kills, hostile input, and how much of it the program holds.

`python -m torture` runs every part and prints one table, from a checkout.
"""

import random
from pathlib import Path


class Trials:
    """
    The trials of a part, which are made in a folder.

    :ivar count: how many there are.
    """

    count: int

    def __init__(self, folder: Path):
        self.folder = folder

    def trial(self, number: int, rng: random.Random) -> str:
        """
        Make the trial of a number; return what did not hold, '' if all did.
        """
        raise NotImplementedError

    def close(self) -> None:
        """
        Give back what the trials have taken.
        """
