"""
Three runs of one set of systems become Table 3 of bipartite-play.
"""

import pytest

from benchmarks.pairings import ComparePairings
from tests.support.planted_run import planted_run

pytestmark = pytest.mark.usefixtures('no_power_cuts')

WORTH = dict(zip('abcde', (5.0, 4.0, 3.0, 2.0, 1.0), strict=True))


def test_each_scheme_stands_above_its_published_row(tmp_path, capsys):
    def self_play(system, _, n):
        return WORTH['b' if system == 'e' else system] + 0.04 * n

    def plain(system, _, n):
        return WORTH[system] + 0.04 * n

    schemes = {
        'self_play': (self_play, ()),
        'all_play_all': (plain, ()),
        'bipartite': (plain, ('p', 'q')),
    }
    for scheme, (worth, partners) in schemes.items():
        about = {'partners': partners, 'pairing': scheme, 'scorer': {'name': 'fed'}}
        planted_run(tmp_path / scheme, {'fed': worth}, tuple(WORTH), **about)
    people = tmp_path / 'people.csv'
    rows = [f'{system},Overall,{value}' for system, value in WORTH.items()]
    people.write_text('\n'.join(['system,dimension,value', *rows]))
    ComparePairings.main(
        runs=[str(tmp_path / scheme) for scheme in schemes], human_scores=str(people)
    )
    table, scores = capsys.readouterr().out.split('\n\n')
    shown = [line.split()[:3] for line in table.splitlines()[2:]]
    # ranks 5, 3.5, 2, 1, 3.5 against 5, 4, 3, 2, 1: 5.5 / sqrt(9.5 * 10)
    assert shown == [
        ['self_play', '5', '0.56'],
        ['published', '11', '0.77'],
        ['all_play_all', '5', '1.00'],
        ['published', '11', '0.85'],
        ['bipartite', '5', '1.00'],
        ['published', '11', '0.85'],
    ]
    # 5 + 0.04 * 2.5; the default follow-ups have three complaints of Overall
    assert '5.10 (1.70)' in scores
