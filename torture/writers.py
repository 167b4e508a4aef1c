"""
Let two or three commands write into the same folder at once.

In half of the trials they are stages of one run, in the others the same command several
times. A trial holds if each command ends well or refuses in one line, and if the folder
has, after one more command, the files of an undisturbed run.
"""

import random
import time

from torture.cases import CASES, PATIENCE, Trees, last_line, wrong_lines
from torture.figure import Figure, Settings, try_all

TRIALS = 60
# on one run; the last one finishes it in any case
STAGES = ('collect', 'score', 'rank', 'report', 'evaluate')
WHOLE = 'evaluate'


def figure(settings: Settings) -> Figure:
    """
    Start several writers at once, stages of a run and every command in turns.
    """
    names = list(CASES)
    trees = Trees(settings.folder)

    def trial(number: int, rng: random.Random) -> str:
        several = rng.choice((2, 3))
        if number % 2:
            name = names[number // 2 % len(names)]
            return write_at_once(trees, name, name, [name] * several, rng)
        writers = [rng.choice(STAGES) for _ in range(several)]
        return write_at_once(trees, rng.choice(STAGES), WHOLE, writers, rng)

    what = 'two and three commands that write into one folder'
    return try_all('writers', what, TRIALS, trial, settings)


def write_at_once(
    trees: Trees, start: str, end: str, writers: list[str], rng: random.Random
) -> str:
    """
    Return what did not hold when several commands wrote into a folder.

    :param start: the case in whose folder they begin.
    :param end: the case that finishes the folder.
    """
    label = f'{" + ".join(writers)} where {start} begins'
    for name in {*writers, end}:
        trees.prepare(name)
    trees.begin(start)
    children = []
    longest = max(trees.seconds[name] for name in writers)
    for name in writers:
        children.append(trees.start(name))
        time.sleep(rng.uniform(0, longest / 2) * rng.randrange(2))
    problems = []
    for name, child in zip(writers, children, strict=True):
        status = child.wait_or_kill(PATIENCE)
        if status not in (0, 1):
            problems.append(f'{name} ended with {status}: {last_line(child.output)}')
        elif status == 1 and (problem := wrong_lines(child.output)):
            problems.append(f'{name}: {problem}')
    problems += [problem] if (problem := trees.wrong_end(end)) else []
    return f'{label}: {"; ".join(problems)}' if problems else ''
