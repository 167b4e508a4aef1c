"""
The arithmetic of a pilot, worked out by hand: from a sample to the whole run, and from
a forecast to what was taken.
"""

import json
from collections import Counter

import pytest

from parlai_ext.collect import amounts, timing
from parlai_ext.collect.pilot import covering
from parlai_ext.collect.rates import (
    Measured,
    Pace,
    Sample,
    Task,
    batches,
    forecast_of,
    pace,
    scaled,
    typical_width,
)
from parlai_ext.collect.sampler import halfway
from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Dialogue, Opener, Pairing, Utterance
from parlai_ext.systems.spending import Ledger, added, since, spending_of

OPENERS = [Opener.of([f'hello {i}', 'hi'], 'test') for i in range(3)]
FIRST, SECOND = (Pairing(f't-{n}', 't', n, 'bipartite') for n in ('p', 'q'))


def pair(first, second):
    return Pairing(f'{first}-{second}', first, second, 'bipartite')


@pytest.mark.parametrize(
    'narrow, wide, fixed, each',
    [
        ((4, 1.0), (64, 4.0), 0.8, 0.05),  # 3 s for 60 more; 1 - 4 * 0.05
        ((4, 1.0), None, 0.0, 0.25),
        ((4, 1.0), (64, 0.9), 0.9, 0.0),  # replies are free
        ((4, 1.0), (64, 32.0), 0.0, 0.5),  # batches are: 31/60 * 4 > 1
    ],
)
def test_the_pace_goes_through_both_measurements(narrow, wide, fixed, each):
    found = pace(narrow, wide)
    assert (found.fixed, found.each) == pytest.approx((fixed, each))


def test_batches_are_those_of_dialogues_played_side_by_side():
    rows = [(one, opener) for one in (FIRST, SECOND) for opener in OPENERS]
    # two utterances given: t, then p or q, then t; six rows in batches of four
    expected = {('t', 4): 2, ('t', 2): 2, ('p', 3): 1, ('q', 3): 1}
    assert batches(rows, 5, 4) == Counter(expected)
    # whose pair draws is never cut
    assert batches(rows, 5, None)['t', 6] == 2


def test_a_system_that_talks_to_itself_fills_one_batch():
    assert batches([(pair('t', 't'), o) for o in OPENERS], 6, 64) == {('t', 3): 4}


def test_openers_of_several_lengths_take_turns_apart():
    rows = [
        (FIRST, Opener.of(['a'], 'test')),
        (FIRST, Opener.of(['b', 'c'], 'test')),
    ]
    # p, t and t, then p
    assert batches(rows, 3, 64) == Counter({('p', 1): 1, ('t', 1): 2})


def test_the_typical_width_is_that_of_most_replies():
    load = Counter({('t', 64): 10, ('t', 16): 11, ('p', 99): 9})
    assert typical_width(load, 't') == 64


def test_few_pairs_have_every_system():
    pairs = [pair(t, p) for t in 'abc' for p in 'xy']
    found = covering(pairs, {one.id for one in pairs})
    assert [one.id for one in found] == ['a-x', 'b-y', 'c-x']
    assert [one.id for one in covering(pairs, {'c-y'})] == ['c-y']


def task(**changes):
    made = {
        'protocol': 'p',
        'n_dialogues': 100,
        'n_utterances': 1200,
        'n_judged': 500,
        'n_to_score': 100,
        'workload': Counter({('t', 50): 10, ('p', 25): 20}),
        'loads': {'t': 1, 'p': 3},
    }
    return Task(**{**made, **changes})


def spent(cost, cached=0, prompt=0, completion=0):
    return {
        'requests': 10,
        'cached': cached,
        'prompt_tokens': prompt,
        'completion_tokens': completion,
        'cost': cost,
    }


def sample(**changes):
    systems = {
        't': Measured(5.0, Pace(1.0, 0.02), 3000, 20, spent(0.4, 0, 600, 100)),
        'p': Measured(7.0, Pace(0.0, 0.04), 1000, 20),
    }
    made = {
        'systems': systems,
        'step_seconds': 0.01,
        'judge': (4.0, 0.2),
        'n_dialogues': 4,
        'seconds': 30.0,
        'peak_bytes': 9000,
        'peak_gpu_bytes': 0,
        'paid': spent(0.4),
    }
    return Sample(**{**made, **changes})


def test_a_forecast_is_the_sum_of_its_parts():
    found = forecast_of(task(), sample())
    # t: 10 batches of 1 + 50 * 0.02 s, loaded in 5 s; p: 20 of 25 * 0.04 s and three
    # times 7 s; 1000 utterances of 0.01 s
    assert found['collect_seconds'] == pytest.approx(20 + 5 + 20 + 21 + 10)
    assert found['score_seconds'] == pytest.approx(4 + 500 * 0.2)
    assert found['dialogues_per_hour'] == pytest.approx(100 * 3600 / 76)
    # 500 replies of t where 20 took $0.40, 600 and 100 tokens
    assert found['cost'] == pytest.approx(10)
    assert found['prompt_tokens'] == pytest.approx(15_000)
    assert found['completion_tokens'] == pytest.approx(2_500)
    assert found['weights_bytes'] == found['two_largest_bytes'] == 4000
    assert found['systems']['t']['replies_per_second'] == pytest.approx(25)
    assert found['systems']['p']['spent'] is None


def test_a_forecast_without_a_judge_says_nothing_of_scoring():
    found = forecast_of(task(), sample(judge=None))
    assert found['score_seconds'] is None
    assert 'score' not in amounts.in_words(found)


def test_only_paid_replies_say_what_a_reply_costs():
    # 5 of 20 replies were paid with $1, so 100 cost $20
    partly = Measured(0.0, Pace(0, 1), 0, 20, spent(1.0, cached=15))
    assert scaled(partly, 100)['cost'] == pytest.approx(20)
    wholly = Measured(0.0, Pace(0, 1), 0, 20, spent(0.0, cached=20))
    assert scaled(wholly, 100)['cost'] is None


def test_words_give_time_memory_and_money():
    lines = amounts.in_words(forecast_of(task(), sample())).split('\n')
    assert lines[0] == 'pilot of p: 4 dialogues in 30 s and $0.40; none of them is kept'
    assert ' '.join(lines[2].split()) == 't 500 50 25 5 s 0.0 MB 15k+2k $10.00'
    assert ' '.join(lines[3].split()) == 'p 500 25 25 7 s x3 0.0 MB - -'
    assert lines[4] == 'collect    76 s for 100 dialogues, 4,737 dialogues an hour'
    assert lines[5:7] == ['score      1.7 min for 500 utterances', 'together   3.0 min']
    assert lines[8] == 'money      $10.00 (t $10.00)'


def test_half_a_run_is_compared_with_half_the_forecast(tmp_path):
    forecast = forecast_of(task(), sample())
    timing.save_forecast(tmp_path, forecast)
    actual = {
        'collect': {'seconds': 57.0, 'dialogues': 50, 'sessions': 1},
        'score': {'seconds': 26.0, 'dialogues': 25, 'sessions': 1},
        'peak_bytes': 1_000_000,
        'peak_gpu_bytes': 0,
        'spent': {**spent(4.0)},
    }
    (tmp_path / 'timing/actual.json').write_text(json.dumps(actual))
    assert timing.compared(tmp_path) == [
        # half of 76 s, a quarter of 104 s
        'collect    forecast 38 s, actual 57 s (+50 %), timed for 50 of 100 dialogues',
        'score      forecast 26 s, actual 26 s (+0 %), timed for 25 of 100 dialogues',
        'together   forecast 64 s, actual 83 s (+30 %)',
        'memory     forecast 0.0 MB, actual 1.0 MB (+11011 %)',
        'money      forecast $5.00, actual $4.00 (-20 %)',
    ]


def test_a_damaged_forecast_is_named(tmp_path):
    timing.save_forecast(tmp_path, {})
    (tmp_path / 'timing/forecast.json').write_text('{')
    with pytest.raises(UserError, match='forecast.json is damaged; delete it'):
        timing.read_forecast(tmp_path)


def test_a_half_of_a_dialogue_opens_a_batch():
    said = [Utterance('t', 'a', True), Utterance('p', 'b', True)]
    said += [Utterance('t', 'c'), Utterance('p', 'd'), Utterance('t', 'e')]
    made = halfway(OPENERS[1], Dialogue('d', 'p', 'o', tuple(said)), 8)
    assert made.utterances == ('hello 1', 'hi', 'c', 'd')


def test_an_agent_may_count_what_it_uses_in_several_ways():
    class Plain:
        pass

    class Property:
        usage = {'requests': 3, 'prompt_tokens': None, 'cost': None}

    assert spending_of(Plain()) is None
    found = spending_of(Property())
    assert (found['requests'], found['prompt_tokens'], found['cost']) == (3, 0, None)
    assert added(found, {'requests': 1, 'cost': 2.0})['cost'] == 2.0
    assert since(spent(3.0), spent(1.0))['cost'] == 2.0


class Meter:
    """
    Agents that share it as their `endpoint` count together.
    """

    def __init__(self, endpoint, cost=0.0):
        self.endpoint = endpoint or self
        self.cost = cost

    def usage(self):
        return {'requests': 1, 'cost': self.endpoint.cost}


def test_money_of_a_shared_meter_is_counted_once():
    meter = Meter(None, cost=5.0)  # spent before
    one, other, ledger = Meter(meter), Meter(meter), Ledger()
    ledger.begin('one', one)
    meter.cost += 1
    ledger.begin('other', other)
    meter.cost += 2
    ledger.end('one', one)
    meter.cost += 4
    ledger.end('other', other)
    meter.cost += 8  # by nobody of these
    ledger.begin('one', one)
    meter.cost += 16
    ledger.end('one', one)
    assert sum(one['cost'] for one in ledger.spent.values()) == 1 + 2 + 4 + 16
