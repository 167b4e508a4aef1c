"""
What of the judge checks in a pack can be seen without a model: outcomes follow from
counts (in how many pairs a judge scores an original above its perturbed copy), and the
check is of the scores beside which it lies. The counts are the publisher's word, unless
the check is made again (`regenerate.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from parlai_ext.core.records import record_to_json
from parlai_ext.judge_check.marks import dimension_check, kind_result_of_counts
from parlai_ext.judge_check.record import DimensionCheck, JudgeCheck
from parlai_ext.packs.differences import json_differences
from parlai_ext.packs.options import RegenerateOptions
from parlai_ext.store import ScoreStore

MEANS = ('biases', 'human_anchor')  # what a check says besides its counts
Counts = tuple[int, int, int]  # pairs, those with the original higher, ties


def check_problems(check: JudgeCheck, store: ScoreStore) -> Iterator[str]:
    """
    Yield where a check is not that of these scores, or its outcomes do not follow from
    its counts.
    """
    if check.signature != store.signature:
        yield (
            f'it is the check of other scores: {check.signature:.80}, not '
            f'{store.signature:.80}'
        )
    if shards := store.run.dialogue_shards():
        scored = store.read(shards[0].pairing_id, shards[0].index)
        of_scores = {score.dimension for one in scored for score in one.scores}
        if {*check.dimensions} != of_scores:
            yield (
                f'it is about {", ".join(sorted(check.dimensions))}, the scores about '
                f'{", ".join(sorted(of_scores))}'
            )
    for name, own in _checks(check).items():
        kinds = [
            kind_result_of_counts(k.kind, k.source, k.n, k.n_higher, k.n_ties)
            for k in own.kinds
        ]
        derived = dimension_check(own.dimension, kinds, own.human_anchor, own.biases)
        gives = record_to_json(derived)
        for where, a, b in json_differences(record_to_json(own), gives, name):
            yield f'{where}: the pack says {a}, its counts give {b}'


def _checks(check: JudgeCheck) -> dict[str, DimensionCheck]:
    games = {} if check.tournament is None else {'tournament': check.tournament}
    return {**check.dimensions, **games}


def outcomes_text(check: JudgeCheck) -> str:
    """
    Return the outcomes of a check: ``fail on A; pass on B, C``.
    """
    by_outcome: dict[str, list[str]] = {}
    for name, own in check.dimensions.items():
        by_outcome.setdefault(own.outcome, []).append(name)
    return '; '.join(
        f'{outcome} on {", ".join(names)}' for outcome, names in by_outcome.items()
    )


def check_differences(
    says: JudgeCheck, gives: JudgeCheck, options: RegenerateOptions
) -> Iterator[str]:
    """
    Yield where a check differs from the same one made again.

    :param options: how many pairs of a kind, and how far means, may differ.
    """
    theirs, ours = _checks(says), _checks(gives)
    for name in dict.fromkeys((*theirs, *ours)):
        if name not in theirs or name not in ours:
            yield f'{name}: only one of the two checks is about it'
            continue
        counts, again = (
            {(k.kind, k.source): (k.n, k.n_higher, k.n_ties) for k in own.kinds}
            for own in (theirs[name], ours[name])
        )
        for kind in dict.fromkeys((*counts, *again)):
            one, other = counts.get(kind), again.get(kind)
            if not _are_near(one, other, options.max_different):
                yield (
                    f'{name}, {" of ".join(kind)}: the pack says {_counted(one)}, made '
                    f'again it is {_counted(other)}'
                )
        before, after = (
            {key: record_to_json(getattr(own, key)) for key in MEANS}
            for own in (theirs[name], ours[name])
        )
        for where, x, y in json_differences(before, after, name, options.tolerance):
            yield f'{where}: the pack says {x}, made again it is {y}'


def _are_near(one: Counts | None, other: Counts | None, max_different: float) -> bool:
    if one is None or other is None or one[0] != other[0]:
        return one == other
    return max(abs(one[i] - other[i]) for i in (1, 2)) <= max_different * one[0]


def _counted(counts: Counts | None) -> str:
    if counts is None:
        return 'nothing'
    n, n_higher, n_ties = counts
    return f'{n_higher} of {n} higher, {n_ties} ties'
