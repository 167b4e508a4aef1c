"""
A forecast and what was taken, compared by hand; what agents say that they have used.
"""

import json

import pytest

from parlai_ext.collect import timing
from parlai_ext.collect.timing import Forecast, SystemForecast
from parlai_ext.core.errors import UserError
from parlai_ext.systems.spending import (
    Ledger,
    add_spendings,
    spending_of,
    spending_since,
)


def spent(cost, cached=0, prompt=0, completion=0):
    return {
        'requests': 10,
        'cached': cached,
        'prompt_tokens': prompt,
        'completion_tokens': completion,
        'cost': cost,
    }


def forecast(**changes):
    systems = {
        't': SystemForecast(500, 20.0, 5.0, 3000, spent(10, 0, 15_000, 2500)),
        'p': SystemForecast(500, 20.0, 21.0, 1000),
    }
    made = {
        'protocol': 'p',
        'settings': {},
        'dialogues': 100,
        'judged': 500,
        'collect_seconds': 76.0,
        'score_seconds': 104.0,
        'peak_bytes': 9000,
        'peak_gpu_bytes': 0,
        'disk_bytes': 0,
        'systems': systems,
        'pilot_dialogues': 4,
        'pilot_seconds': 30.0,
        'pilot_cost': 0.4,
    }
    return Forecast(**{**made, **changes})


def test_a_forecast_prints_time_memory_and_money():
    lines = forecast().lines()
    assert '4 dialogues in 30 s and $0.40' in lines[0]
    # 500 replies in 20 s
    for part in ('t ', '500 replies, 25 a second', '15,000 + 2,500 tokens', '$10.00'):
        assert part in lines[1]
    assert lines[3] == 'collect    76 s for 100 dialogues, 4,737 dialogues an hour'
    assert lines[4:6] == ['score      1.7 min for 500 utterances', 'together   3.0 min']
    assert lines[6].startswith('memory     0.0 MB of weights')
    assert lines[7] == 'money      $10.00'


def test_a_forecast_without_a_judge_says_nothing_of_scoring():
    assert not any('score' in line for line in forecast(score_seconds=None).lines())


def test_a_forecast_is_read_as_it_was_saved(tmp_path):
    timing.save_forecast(tmp_path, forecast(cautions=('a caution',)))
    assert timing.read_forecast(tmp_path) == forecast(cautions=('a caution',))


def test_half_a_run_is_compared_with_half_the_forecast(tmp_path):
    timing.save_forecast(tmp_path, forecast())
    actual = {
        'collect': {'seconds': 57.0, 'dialogues': 50, 'sessions': 1},
        'score': {'seconds': 26.0, 'dialogues': 25, 'sessions': 1},
        'peak_bytes': 1_000_000,
        'peak_gpu_bytes': 0,
        'spent': {**spent(4.0)},
    }
    (tmp_path / 'timing/actual.json').write_text(json.dumps(actual))
    assert timing.comparison_lines(tmp_path) == [
        # half of 76 s, a quarter of 104 s
        'collect    forecast 38 s, actual 57 s (+50 %), timed for 50 of 100 dialogues',
        'score      forecast 26 s, actual 26 s (+0 %), timed for 25 of 100 dialogues',
        'together   forecast 64 s, actual 83 s (+30 %)',
        'memory     forecast 0.0 MB, actual 1.0 MB (+11011 %)',
        'money      forecast $5.00, actual $4.00 (-20 %)',
    ]


@pytest.mark.parametrize('text', ['{', '[]', '{}', '{"systems": 1}'])
def test_a_damaged_forecast_is_named(tmp_path, text):
    timing.save_forecast(tmp_path, forecast())
    (tmp_path / 'timing/forecast.json').write_text(text)
    with pytest.raises(UserError, match='forecast.json is .*; delete it'):
        timing.read_forecast(tmp_path)


def test_an_agent_may_count_what_it_uses_in_several_ways():
    class Plain:
        pass

    class Property:
        usage = {'requests': 3, 'prompt_tokens': None, 'cost': None}

    assert spending_of(Plain()) is None
    found = spending_of(Property())
    assert (found['requests'], found['prompt_tokens'], found['cost']) == (3, 0, None)
    assert add_spendings(found, {'requests': 1, 'cost': 2.0})['cost'] == 2.0
    assert spending_since(spent(3.0), spent(1.0))['cost'] == 2.0


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
