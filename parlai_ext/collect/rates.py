"""
What a run will take, from what a sample of it took: arithmetic, no models, no clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parlai_ext.collect.forecast import (
    BYTES_PER_SCORED_UTTERANCE,
    BYTES_PER_UTTERANCE,
)
from parlai_ext.core.nouns import Opener, Pairing
from parlai_ext.systems.spending import Spending, added

# how many batches of how many replies each system gives: {(system, replies): batches}
Workload = Counter[tuple[str, int]]


@dataclass(frozen=True)
class Pace:
    """
    What a batch of ``n`` replies takes: ``fixed + each * n`` seconds.
    """

    fixed: float
    each: float

    def seconds(self, n: float) -> float:
        """
        Return the seconds of a batch of ``n`` replies.
        """
        return self.fixed + self.each * n


@dataclass(frozen=True)
class Measured:
    """
    What the sample says of one system.

    `spent` is what its `n_replies` used, those from a cache (`spent['cached']`)
    included, which cost nothing; `None` when it does not count.
    """

    load_seconds: float
    pace: Pace
    n_bytes: int
    n_replies: int
    spent: Spending | None = None


@dataclass(frozen=True)
class Sample:
    """
    What a pilot measured.

    `step_seconds` is what an utterance takes besides the reply itself (to be heard, to
    be kept), `judge` seconds for loading the judge and for each utterance it judges,
    `paid` what the pilot itself used.
    """

    systems: Mapping[str, Measured]
    step_seconds: float
    judge: tuple[float, float] | None
    n_dialogues: int
    seconds: float
    peak_bytes: int
    peak_gpu_bytes: int
    paid: Spending | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Task:
    """
    What a run has to do.
    """

    protocol: str
    n_dialogues: int
    n_utterances: int
    n_judged: int
    n_to_score: int
    workload: Workload
    loads: Mapping[str, int]


def pace(narrow: tuple[float, float], wide: tuple[float, float] | None) -> Pace:
    """
    Return the pace through two measurements, each (replies in a batch, its seconds).

    Neither part is below 0: a wide batch that took no longer than a narrow one says
    that replies are free, one that took more than its share that batches are.
    """
    n, seconds = narrow
    if wide is None or wide[0] <= n:
        return Pace(0.0, seconds / n)
    each = (wide[1] - seconds) / (wide[0] - n)
    if each <= 0:
        return Pace(wide[1], 0.0)
    fixed = seconds - each * n
    return Pace(fixed, each) if fixed >= 0 else Pace(0.0, wide[1] / wide[0])


def batches(
    rows: Iterable[tuple[Pairing, Opener]], num_turns: int, width: int | None
) -> Workload:
    """
    Return the batches in which dialogues played side by side are answered.

    :param width: most replies in a batch (`None`: any number).
    """
    kinds = Counter((p.first, p.second, len(o.utterances)) for p, o in rows)
    found: Workload = Counter()
    for step in range(num_turns):
        waiting: Counter[str] = Counter()
        for (first, second, given), n in kinds.items():
            if given + step < num_turns:
                waiting[second if (given + step) % 2 else first] += n
        for name, n in waiting.items():
            full, rest = divmod(n, width or n)
            found[name, width or n] += full
            if rest:
                found[name, rest] += 1
    return +found


def typical_width(workload: Workload, name: str) -> int:
    """
    Return the width of the batches that give most of a system's replies.
    """
    mine = [(n * count, n) for (who, n), count in workload.items() if who == name]
    return max(mine, default=(0, 1))[1]


def replies(workload: Workload, name: str) -> int:
    """
    Return how many replies a system gives.
    """
    return sum(n * count for (who, n), count in workload.items() if who == name)


def forecast_of(task: Task, sample: Sample) -> dict[str, Any]:
    """
    Return what the task will take, as ``RUN/timing/forecast.json`` keeps it.

    Systems that the sample could not measure are left out, and named.
    """
    systems = {
        name: _system(task, name, measured) for name, measured in sample.systems.items()
    }
    loading = sum(one['load_seconds'] * one['loads'] for one in systems.values())
    playing = sum(one['reply_seconds'] for one in systems.values())
    n_replies = sum(one['replies'] for one in systems.values())
    collecting = loading + playing + n_replies * sample.step_seconds
    load, each = sample.judge or (0.0, 0.0)
    scoring = load + each * task.n_judged if sample.judge else None
    sizes = sorted((m.n_bytes for m in sample.systems.values()), reverse=True)
    disk = task.n_utterances * BYTES_PER_UTTERANCE
    return {
        'protocol': task.protocol,
        'dialogues': task.n_dialogues,
        'dialogues_to_score': task.n_to_score,
        'replies': n_replies,
        'judged': task.n_judged,
        'collect_seconds': collecting,
        'score_seconds': scoring,
        'dialogues_per_hour': _per_hour(task.n_dialogues, collecting),
        'judged_per_second': 1 / each if each else None,
        'weights_bytes': sum(sizes),
        'two_largest_bytes': sum(sizes[:2]),
        'peak_bytes': sample.peak_bytes,
        'peak_gpu_bytes': sample.peak_gpu_bytes,
        'disk_bytes': disk + task.n_judged * BYTES_PER_SCORED_UTTERANCE,
        **_total([one['spent'] for one in systems.values()]),
        'systems': systems,
        'pilot': {
            'dialogues': sample.n_dialogues,
            'seconds': sample.seconds,
            **_total([sample.paid]),
        },
        'problems': list(sample.problems),
    }


def _system(task: Task, name: str, measured: Measured) -> dict[str, Any]:
    """
    Return one system's part of the forecast.
    """
    n = replies(task.workload, name)
    seconds = sum(
        count * measured.pace.seconds(width)
        for (who, width), count in task.workload.items()
        if who == name
    )
    return {
        'loads': task.loads.get(name, 1),
        'load_seconds': measured.load_seconds,
        'batch': typical_width(task.workload, name),
        'replies': n,
        'reply_seconds': seconds,
        'replies_per_second': n / seconds if seconds else None,
        'weights_bytes': measured.n_bytes,
        'spent': scaled(measured, n),
        'from_cache': (measured.spent or {}).get('cached') or 0,
        'measured_replies': measured.n_replies,
    }


def scaled(measured: Measured, n_replies: int) -> Spending | None:
    """
    Return what so many replies use when none is in a cache; a cost of `None` when the
    sample was from the cache throughout, or has no price.
    """
    spent = measured.spent
    if spent is None:
        return None
    asked = measured.n_replies - (spent['cached'] or 0)
    if asked <= 0:
        return {**dict.fromkeys(spent, 0), 'cost': None}
    times = n_replies / asked
    return {
        **{key: (spent[key] or 0) * times for key in spent if key != 'cost'},
        'cached': 0,
        'cost': None if spent['cost'] is None else spent['cost'] * times,
    }


def _total(spendings: Sequence[Spending | None]) -> dict[str, Any]:
    """
    Return tokens and money of all systems that count them.
    """
    total: Spending = {}
    for spent in spendings:
        total = added(total, spent) if spent is not None else total
    keys = ('prompt_tokens', 'completion_tokens', 'cost')
    return {key: total.get(key) for key in keys}


def _per_hour(n: int, seconds: float) -> float | None:
    return n / seconds * 3600 if seconds else None
