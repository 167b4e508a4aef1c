"""
A figure: how many trials of one kind were made, and how many the program held.

A part of the suite gives a count and a function of a trial's number, which `try_all`
calls for every number.
"""

import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from parlai_ext.core.errors import first_line
from parlai_ext.view.progress import bar_of


@dataclass(frozen=True)
class Figure:
    """
    The result of a part.

    :param held: how many of the trials ended as they should.
    :param failures: a line for every other one, with what is needed to see it again.
    :param complete: False when a signal ended the part.
    """

    what: str
    tried: int
    held: int
    failures: tuple[str, ...] = ()
    seconds: float = 0.0
    complete: bool = True


@dataclass(frozen=True)
class Settings:
    """
    How much is tried, and where.

    :param folder: for files; it is removed after the suite.
    :param share: of the trials of each part, above 0, at most 1.
    :param seed: decides every random choice.
    :param trial: the number of the only trial to make; all when `None`.
    """

    folder: Path
    share: float = 1.0
    seed: int = 0
    trial: int | None = None
    progress: bool = True

    def numbers(self, count: int) -> list[int]:
        """
        Return the numbers of the trials to make, of a part that has ``count``.
        """
        if self.trial is not None:
            return [self.trial] if 0 <= self.trial < count else []
        size = max(1, round(count * self.share))
        return sorted(random.Random(self.seed).sample(range(count), size))

    def command(self, part: str, number: int) -> str:
        """
        Return the command that makes one trial again.
        """
        return f'python -m torture {part} --seed {self.seed} --trial {number}'


# makes one trial; returns what did not hold, or '' where all did
Trial = Callable[[int, random.Random], str]


def try_all(
    part: str, what: str, count: int, trial: Trial, settings: Settings
) -> Figure:
    """
    Make the trials of a part and count those that were held.

    An exception of a trial is a trial that was not held. After Ctrl-C the figure is
    that of the trials until then.
    """
    failures: list[str] = []
    tried, complete = 0, True
    numbers = settings.numbers(count)
    with bar_of(part, len(numbers), settings.progress, unit='trial') as bar:
        for number in numbers:
            # random numbers that depend on nothing else
            rng = random.Random(f'{settings.seed} {part} {number}')
            try:
                problem = trial(number, rng)
            except KeyboardInterrupt:
                complete = False
                break
            except Exception as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                where = f'{Path(place.filename).name}:{place.lineno}'
                problem = f'{type(error).__name__} at {where}: {first_line(error)}'
            tried += 1
            if problem:
                failures.append(f'{problem} [{settings.command(part, number)}]')
            bar.set_postfix_str(f'{len(failures)} not held', refresh=False)
            bar.update(1)
    return Figure(
        what, tried, tried - len(failures), tuple(failures), complete=complete
    )
