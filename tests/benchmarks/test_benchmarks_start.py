"""
Every benchmark starts in the same way and is listed; speeds of scorers, and pairings.
"""

import runpy
import sys

import pytest

from benchmarks.__main__ import first_lines
from benchmarks.chatmatch.__main__ import OPTIONS, main
from benchmarks.pairings import ComparePairings
from benchmarks.scorer_speed import (
    Timer,
    built_scorer,
    speeds,
    timed_items,
    timed_speed,
)
from benchmarks.support.measures import start
from parlai_ext.models.handle import ModelHandle
from tests.support.bench_samples import judged_set
from tests.support.planted_run import planted_run
from tests.support.repository import ROOT
from tests.support.user_error import user_error


@pytest.mark.parametrize('name', first_lines())
def test_every_benchmark_shows_how_it_is_started(name, monkeypatch, printed):
    monkeypatch.setattr(sys, 'argv', [name, '--help'])
    # as in a new process: other tests import some of them
    for module in (f'benchmarks.{name}', f'benchmarks.{name}.__main__'):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(SystemExit) as exit:
        runpy.run_module(f'benchmarks.{name}', run_name='__main__', alter_sys=True)
    assert exit.value.code == 0
    assert f'python -m benchmarks.{name}' in printed()


def test_a_mistake_of_the_user_is_one_line(tmp_path, monkeypatch, capsys):
    folder = tmp_path / 'nothing'
    monkeypatch.setattr(sys, 'argv', ['chatmatch', '--data', str(folder)])
    with pytest.raises(SystemExit) as exit:
        start(main, None, **OPTIONS)
    assert exit.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f'error: {folder}/human_judgement.xlsx: not found')


def test_the_list_names_every_benchmark_with_a_sentence(printed):
    runpy.run_module('benchmarks', run_name='__main__')
    listing = printed()
    names = {path.stem for path in ROOT.glob('benchmarks/[!_]*.py')}
    lines = [line.split(maxsplit=1) for line in listing.split('\n')[2:] if line]
    packages = {'chatmatch', 'learned_judge', 'validity'}
    assert {name for name, _ in lines} == names | packages
    assert all(sentence.endswith('.') for _, sentence in lines)


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


WORTH = dict(zip('abcde', (5.0, 4.0, 3.0, 2.0, 1.0), strict=True))


def test_each_scheme_stands_above_its_published_row(tmp_path, printed):
    def plain(system, _, n):
        return WORTH[system] + 0.04 * n

    def self_play(system, *rest):
        return plain('b' if system == 'e' else system, *rest)

    schemes = {'self_play': self_play, 'all_play_all': plain, 'bipartite': plain}
    for scheme, worth in schemes.items():
        partners = ('p', 'q') if scheme == 'bipartite' else ()
        about = {'partners': partners, 'pairing': scheme, 'scorer': {'name': 'fed'}}
        planted_run(tmp_path / scheme, {'fed': worth}, tuple(WORTH), **about)
    people = tmp_path / 'people.csv'
    rows = [f'{system},Overall,{value}' for system, value in WORTH.items()]
    people.write_text('\n'.join(['system,dimension,value', *rows]))
    ComparePairings.main(
        runs=[str(tmp_path / scheme) for scheme in schemes], human_scores=str(people)
    )
    table, scores = printed().split('\n\n')
    shown = [' '.join(line.split()[:3]) for line in table.splitlines()[2:]]
    # ranks 5, 3.5, 2, 1, 3.5 against 5, 4, 3, 2, 1: 5.5 / sqrt(9.5 * 10)
    assert shown == [
        'self_play 5 0.56',
        'published 11 0.77',
        'all_play_all 5 1.00',
        'published 11 0.85',
        'bipartite 5 1.00',
        'published 11 0.85',
    ]
    # 5 + 0.04 * 2.5; the default follow-ups have three complaints of Overall
    assert '5.10 (1.70)' in scores
