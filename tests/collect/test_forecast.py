"""
A forecast and what was taken, compared by hand.
"""

import json

import pytest

from parlai_ext.collect.forecast import (
    Forecast,
    SystemForecast,
    forecast_comparison_lines,
    forecast_settings,
    read_forecast,
    save_forecast,
)
from parlai_ext.core.nouns import Opener, Roster, System
from tests.support.plans import open_run
from tests.support.user_error import user_error


def spent(cost, prompt=0, completion=0):
    counts = {'requests': 10, 'cached': 0, 'prompt_tokens': prompt}
    return {**counts, 'completion_tokens': completion, 'cost': cost}


def forecast(**changes):
    made = {
        'protocol': 'p',
        'settings': {},
        'dialogues': 100,
        'utterances': 1200,
        'judged': 500,
        'score_seconds': 104.0,
        'peak_bytes': 500_000,
        'peak_gpu_bytes': 0,
        'systems': {
            't': SystemForecast(500, 20.0, 5.0, 3000, spent(10, 15_000, 2500)),
            'p': SystemForecast(500, 30.0, 21.0, 1000),
        },
        'pilot_dialogues': 4,
        'pilot_seconds': 30.0,
        'pilot_cost': 0.4,
    }
    return Forecast(**{**made, **changes})


def test_a_forecast_prints_time_memory_and_money():
    lines = forecast().lines()
    assert '4 dialogues in 30 s and $0.40' in lines[0]
    # 500 replies in 20 s
    for part in ('t ', '500 replies, 0.04 s each', '15,000 + 2,500 tokens', '$10.00'):
        assert part in lines[1]
    # two systems: 5 + 20 + 21 + 30 s
    assert lines[3] == 'collect    76 s for 100 dialogues'
    assert lines[4:6] == ['score      1.7 min for 500 utterances', 'together   3.0 min']
    assert lines[6] == 'memory     0.0 MB of weights; at most 0.5 MB'
    # 200 bytes an utterance and 700 more if it is judged
    assert lines[7:] == ['money      $10.00', 'disk       about 0.6 MB']


def test_a_forecast_without_a_judge_is_read_as_it_was_saved(tmp_path):
    made = forecast(score_seconds=None, cautions=('a caution',))
    save_forecast(tmp_path, made)
    assert read_forecast(tmp_path) == made
    assert not any('score' in line for line in made.lines())


def test_half_a_run_is_compared_with_half_the_forecast(tmp_path):
    roster = Roster((System('t', {}),), (System('p', {}),))
    openers = [Opener.from_utterances(('Hi.', 'Hello.'), 'here')]
    run = open_run(tmp_path, roster, openers, 1)
    settings = forecast_settings(run.manifest.protocol)
    save_forecast(tmp_path, forecast(settings=settings))
    actual = {
        'collect': {'seconds': 57.0, 'dialogues': 50},
        'score': {'seconds': 26.0, 'dialogues': 25},
        'peak_bytes': 1_000_000,
        'peak_gpu_bytes': 0,
        'spent': spent(4.0),
    }
    (tmp_path / 'timing/actual.json').write_text(json.dumps(actual))
    assert forecast_comparison_lines(run) == [
        # half of 76 s, a quarter of 104 s
        'collect    forecast 38 s, actual 57 s (+50 %)',
        'score      forecast 26 s, actual 26 s (+0 %)',
        'together   forecast 64 s, actual 83 s (+30 %)',
        'memory     forecast 0.5 MB, actual 1.0 MB (+100 %)',
        'money      forecast $5.00, actual $4.00 (-20 %)',
        'timed were 50 dialogues collected and 25 scored of 100',
    ]


@pytest.mark.parametrize('text', ['{', '[]', '{}', '{"systems": 1}'])
def test_a_damaged_forecast_is_named(tmp_path, text):
    save_forecast(tmp_path, forecast())
    (tmp_path / 'timing/forecast.json').write_text(text)
    with user_error('forecast.json: .*; delete the file'):
        read_forecast(tmp_path)
