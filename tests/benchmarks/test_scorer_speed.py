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


def test_all_are_timed_on_the_same_turns_and_the_base_is_once_itself():
    rows = speeds(['length', 'distinct'], ITEMS, {}, base='length', count=5)
    assert [row.scorer for row in rows] == ['length', 'distinct']
    assert rows[0].times_base == 1
    assert all(row.per_second > 0 for row in rows)


def test_a_scorer_of_pairs_gets_another_response_to_the_context():
    pair = scorer('llm_pair', judge_model_file='smollm2-135m-q4')
    for one in timed_items(ITEMS, pair):
        others = {item.response for item in ITEMS if item.context == one.context}
        assert one.extras['other'] in others - {one.response}


def test_what_is_given_to_all_goes_to_those_that_have_the_option():
    given = {'judge_model_file': 'mine', 'encoder': 'yours', 'comparisons': None}
    assert scorer('relevance', **given).options.encoder == 'yours'
    own = scorer('likelihood:judge_model_file=own', **given)
    assert own.options.judge_model_file == 'own'
    assert scorer('length', **given).options


def test_what_cannot_run_is_a_reason_and_too_few_turns_are_said():
    rows = speeds(['bertscore', 'length'], ITEMS, {'encoder': '/no/where'}, count=2)
    assert rows[0].reason and rows[0].per_second is None
    assert rows[1].per_second and rows[1].times_base is None
    with user_error('--turns'):
        speeds(['length'], ITEMS, {}, count=60)
