"""
The frame of the torture suite counts what was not held and says how to see it again.
"""

import re
import sys
from argparse import Namespace
from pkgutil import resolve_name
from types import SimpleNamespace

import pytest

from torture import __main__ as suite
from torture.__main__ import chosen_trials, try_all
from torture.trials import Trials


def chosen(share=1.0, seed=0, trial=None):
    return Namespace(share=share, seed=seed, trial=trial)


class Planted(Trials):
    """
    Trials that are made by a function.
    """

    def __init__(self, folder, count, trial):
        super().__init__(folder)
        self.count, self.trial = count, trial


@pytest.fixture
def tried(monkeypatch, tmp_path_factory):
    """
    Returns the figure of a part whose trials are made by a function.
    """

    def try_function(count, make, **more):
        module = SimpleNamespace(made=lambda folder: Planted(folder, count, make))
        monkeypatch.setitem(sys.modules, 'torture.planted', module)
        monkeypatch.setitem(suite.PARTS, 'part', ('planted:made', 'things'))
        folder = tmp_path_factory.mktemp('part')
        return try_all('part', folder, chosen(seed=7, **more))

    return try_function


def odd_fails(number, random):
    if number == 3:
        raise KeyError('three')
    return 'odd' if number % 2 else ''


def test_problems_and_exceptions_count_as_not_held(tried):
    figure = tried(6, odd_fails)
    assert (figure.tried, len(figure.failures)) == (6, 3)
    places = [re.search(r'--seed 7 --trial (\d)', line)[1] for line in figure.failures]
    assert places == ['1', '3', '5']
    assert 'KeyError' in figure.failures[1]


def test_a_trial_can_be_made_again_with_the_same_random_numbers(tried):
    draws = {}

    def draw(number, random):
        draws.setdefault(number, []).append(random.random())
        return ''

    assert tried(10, draw).tried == 10
    assert tried(10, draw, trial=4).tried == 1
    assert len(draws[4]) == 2 and len(set(draws[4])) == 1
    assert len({values[0] for values in draws.values()}) == 10


def test_a_share_makes_a_part_of_the_trials_and_all_numbers_come_up():
    numbers = chosen_trials(200, chosen(share=0.1))
    assert len(set(numbers)) == 20 and set(numbers) <= set(range(200))
    assert chosen_trials(200, chosen()) == list(range(200))
    assert len(chosen_trials(200, chosen(share=0.001))) == 1


def third_is_stopped(number, random):
    if number == 3:
        raise KeyboardInterrupt
    return odd_fails(number, random)


def test_an_interrupted_part_gives_its_figure_so_far(tried):
    figure = tried(6, third_is_stopped)
    assert (figure.tried, len(figure.failures)) == (3, 1) and not figure.complete


@pytest.fixture
def planted_parts(monkeypatch):
    """
    Parts of three trials: one that holds, one that does not, others that end early.
    """

    def part(name, trial=None, before=None):
        def prepared(folder):
            if before:
                raise before
            return Planted(folder, 1200, trial)

        module = SimpleNamespace(prepared=prepared)
        monkeypatch.setitem(sys.modules, f'torture.{name}', module)
        parts[name] = (f'{name}:prepared', f'{name} things')

    parts = {}
    part('good', lambda number, random: '')
    part('bad', lambda number, random: 'it is bad' if number == 4 else '')
    part('broken', before=FileNotFoundError('no such thing'))
    part('stopped', third_is_stopped)

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
def test_the_table_and_the_exit_code(planted_parts, printed, names, code, texts):
    assert suite.main(names) == code
    out = printed()
    assert all(text in out for text in texts)
    assert ('bad things' in out) == ('bad' in names and 'stopped' not in names)


@pytest.mark.parametrize('part', suite.PARTS)
def test_every_part_has_trials(part):
    assert issubclass(resolve_name(f'torture.{suite.PARTS[part][0]}'), Trials)
