"""
Scorers timed side by side: what each is given, and what the numbers are.
"""

from benchmarks.scorer_speed import (
    Timer,
    built_scorer,
    speeds,
    timed_items,
    timed_speed,
)
from parlai_ext.models.handle import ModelHandle
from tests.support.bench_samples import judged_set
from tests.support.user_error import user_error

ITEMS = judged_set().items


def scorer(spec, **given):
    return built_scorer(spec, given, ModelHandle())


def test_numbers_are_medians_and_ratios_those_of_rounds():
    timer = Timer(scorer('length'), timed_items(ITEMS, scorer('length')), 'cpu', 1)
    timer.rounds = [2.0, 8.0, 4.0]
    speed = timed_speed('length', timer, [1.0, 1.0, 4.0])
    assert (speed.per_second, speed.times_base) == (1 / 4, 2.0)


def test_what_cannot_run_is_a_reason_and_too_few_turns_are_said():
    rows = speeds(['bertscore', 'length'], ITEMS, {'encoder': '/no/where'}, count=2)
    assert rows[0].reason and rows[0].per_second is None
    assert rows[1].per_second and rows[1].times_base is None
    with user_error('--turns'):
        speeds(['length'], ITEMS, {}, count=60)
