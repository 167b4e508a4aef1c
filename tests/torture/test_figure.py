"""
The frame of the torture suite counts what was not held and says how to see it again.
"""

import re
import sys
from importlib import import_module
from types import SimpleNamespace

import pytest

from torture import Trials
from torture import __main__ as suite
from torture.__main__ import Settings, try_all


class Planted(Trials):
    """
    Trials that are made by a function.
    """

    def __init__(self, count, trial):
        self.count, self.trial = count, trial


@pytest.fixture
def settings(tmp_path):
    return Settings(tmp_path, seed=7)


def odd_fails(number, random):
    if number == 3:
        raise KeyError('three')
    return 'odd' if number % 2 else ''


def test_problems_and_exceptions_count_as_not_held(settings):
    figure = try_all('part', Planted(6, odd_fails), settings)
    assert (figure.tried, len(figure.failures)) == (6, 3)
    places = [re.search(r'--seed 7 --trial (\d)', line)[1] for line in figure.failures]
    assert places == ['1', '3', '5']
    assert 'KeyError' in figure.failures[1]


def test_a_trial_can_be_made_again_with_the_same_random_numbers(settings, tmp_path):
    draws = {}

    def draw(number, random):
        draws.setdefault(number, []).append(random.random())
        return ''

    try_all('part', Planted(10, draw), settings)
    again = Settings(tmp_path, seed=7, trial=4)
    assert try_all('part', Planted(10, draw), again).tried == 1
    assert len(draws[4]) == 2 and len(set(draws[4])) == 1
    assert len({values[0] for values in draws.values()}) == 10


def test_a_share_makes_a_part_of_the_trials_and_all_numbers_come_up(tmp_path):
    numbers = Settings(tmp_path, share=0.1).numbers(200)
    assert len(set(numbers)) == 20 and set(numbers) <= set(range(200))
    assert Settings(tmp_path).numbers(200) == list(range(200))
    assert len(Settings(tmp_path, share=0.001).numbers(200)) == 1


def test_an_interrupted_part_gives_its_figure_so_far(settings):
    def third_is_stopped(number, random):
        if number == 3:
            raise KeyboardInterrupt
        return odd_fails(number, random)

    figure = try_all('part', Planted(6, third_is_stopped), settings)
    assert (figure.tried, len(figure.failures)) == (3, 1) and not figure.complete


@pytest.fixture
def planted_parts(monkeypatch):
    """
    Parts of three trials: one that holds, one that does not, others that end early.
    """

    def raises(error):
        def trial(number, random):
            raise error

        return trial

    def part(name, trial=None, before=None):
        def prepared(folder):
            if before:
                raise before
            return Planted(1200, trial)

        module = SimpleNamespace(prepared=prepared)
        monkeypatch.setitem(sys.modules, f'torture.{name}', module)
        parts[name] = suite.Part(f'{name} things', f'{name}:prepared', 1)

    parts = {}
    part('good', lambda number, random: '')
    part('bad', lambda number, random: 'it is bad' if number == 4 else '')
    part('broken', before=FileNotFoundError('no such thing'))
    part('stopped', raises(KeyboardInterrupt()))

    monkeypatch.setattr(suite, 'PARTS', parts)


@pytest.mark.parametrize(
    'names, code, texts',
    [
        (['good'], 0, ['good things', '1,200  1,200']),
        (['good', 'bad'], 1, ['not held: bad: bad things', '--trial 4]']),
        (['broken', 'good'], 1, ['FileNotFoundError', 'good things']),
        (['good', 'stopped', 'bad'], 130, ['good things', 'stopped', 'there: bad\n']),
    ],
)
def test_the_table_and_the_exit_code(planted_parts, capsys, names, code, texts):
    assert suite.main(names) == code
    out = capsys.readouterr().out
    assert all(text in out for text in texts)
    assert ('bad things' in out) == ('bad' in names and 'stopped' not in names)


@pytest.mark.parametrize('part', suite.PARTS.values())
def test_every_part_has_trials(part):
    module, _, name = part.trials.partition(':')
    trials = getattr(import_module(f'torture.{module}'), name)
    assert issubclass(trials, Trials) and trials.count > 0
