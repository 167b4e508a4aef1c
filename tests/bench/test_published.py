"""
The published tables: DSTC10 Track 5.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from parlai_ext.bench.bench_files import AgreementRow, SetPoints
from parlai_ext.bench.tables import (
    COEFFICIENTS,
    agreement_here,
    annotator_tables,
    average_over,
    figure_tables,
    team_tables,
)
from parlai_ext.data.judged import card_names, read_card
from parlai_ext.files import read_shipped
from parlai_ext.ranking.agreement import Correlation
from tests.support.bench_samples import bench_of

TRACK = read_shipped('published', 'dstc10').data


def averages(phase):
    """
    Return the averages of the baseline and the teams, worked out from their rows.
    """
    rows = pd.DataFrame(TRACK[phase]).to_dict('records')
    return [average_over(row, TRACK.get(f'{phase}_qualities', {})) for row in rows]


def test_the_printed_rows_of_the_baseline_give_the_printed_averages():
    assert TRACK['columns'][0] == 'baseline'
    for phase, average in (('development', 13.67), ('test', 18.38)):
        assert round(averages(phase)[0], 2) == average == TRACK[f'{phase}_average'][0]


def test_the_printed_rows_of_the_teams_give_their_averages():
    # rows and averages are rounded to two digits each; a test row is of a team's best
    # submission to that set, the average of one submission
    printed = pytest.approx(TRACK['development_average'], abs=0.011)
    assert averages('development') == printed
    for ours, printed in zip(averages('test'), TRACK['test_average'], strict=True):
        assert ours > printed - 0.011


def test_the_sets_of_the_tables_have_cards_with_as_many_qualities():
    for name, known in TRACK['agreement'].items():
        assert set(known['qualities']) <= set(read_card(name).qualities)
    assert {*TRACK['development'], *TRACK['test']} <= set(card_names())
    counts = {name: len(read_card(name).qualities) for name in TRACK['test']}
    assert counts == TRACK['test_qualities']


def bench(values):
    """
    Return a bench of one scorer with these correlations by set and quality.
    """
    rows = [
        AgreementRow(
            'mine',
            name,
            'turn',
            'Overall',
            quality,
            is_main=True,
            is_overall=False,
            n=10,
            dropped=0,
            correlations={'spearman': Correlation(value, 10)},
        )
        for name, qualities in values.items()
        for quality, value in qualities.items()
    ]
    return bench_of(['mine'], values, rows)


def test_a_scorer_is_averaged_over_qualities():
    # jsalt 0.1; topical 0.2, 0.4, 0.3, 0.3: (10 + 20 + 40 + 30 + 30) / 5 = 26
    values = {
        'jsalt': {'appropriateness': 0.1},
        'topical_dstc10': {'a': 0.2, 'b': 0.4, 'c': 0.3, 'd': 0.3},
    }
    [one] = team_tables(bench(values))
    # two of the sets are not all
    assert one.table.rows[0] == ('mine', '26.00', '')
    assert '2 sets here' in one.table.names_in_files()


def test_agreement_of_pairs_and_with_the_mean_of_all():
    # ten items; the second annotator swaps the last two: rho = 1 - 6 * 2 / 990
    first = [float(k) for k in range(10)]
    second = [*first[:8], 9.0, 8.0]
    rows = list(zip(first, second, strict=True))
    assert agreement_here(rows, 'pairs') == pytest.approx(1 - 12 / 990)
    # the means of the last two tie at 8.5: ranks 9.5 against 9 and 10, for both
    ties = (82.5 - 0.5) / np.sqrt(82.5 * 82)
    assert agreement_here(rows, 'one_and_all') == pytest.approx(ties)
    assert agreement_here(rows, 'other') is None
    assert agreement_here([(1.0,)] * 20, 'pairs') is None


def test_alpha_is_of_what_is_near_the_median():
    # without the third annotator of each item the two agree wholly
    rows = [(float(k), float(k), 5.0 - k) for k in range(4)]
    assert agreement_here(rows, 'alpha') == pytest.approx(1)
    assert agreement_here(rows, 'alpha', filtered=True) < 0.5


def test_the_agreement_of_the_paper_stands_beside_ours():
    points = SetPoints('usr_topical', 'turn', 'item', None, (), (), {}, {}, {})
    [one] = annotator_tables([points], filtered=False)
    assert [row[3] for row in one.table.rows if 'Overall' in row] == ['0.7183']
    assert not [*annotator_tables([replace(points, set_name='mine')], filtered=False)]


def test_a_bench_s_paper_stands_below_the_scorers_of_its_kind():
    made = bench({'fed_turn': {'Overall': 0.5}, 'usr_topical': {'Overall': -0.25}})
    pearson = {'pearson': Correlation(0.1, 10)}
    overall = tuple(
        replace(row, is_overall=True, correlations=row.correlations | pearson)
        for row in made.rows
    )
    paper = 'Park et al. 2024, Table 1'
    [one] = figure_tables(replace(made, rows=overall, published=paper))
    # Table 1 of the paper, and means by pencil
    rows = {row[0]: row[1:] for row in one.table.rows}
    expected = {
        'mine': ('10.0 / 50.0', '10.0 / −25.0', '10.0 / 12.5'),
        'published: FED, DialoGPT-large': ('11.9 / 9.4', '−7.1 / −6.9', '2.4 / 1.2'),
        'published: BLEU-2': ('– / –', '45.9 / 46.2', '45.9 / 46.2 (1)'),
    }
    assert expected.items() <= rows.items()
    assert len(rows) == 13
    assert not list(figure_tables(made))


def test_the_figures_of_table_1_of_paireval_give_its_averages():
    figures = read_shipped('published', 'figures').data['figures']
    checked = 0
    printed = {
        'PairEval': (58.5, 63.1),
        'DirectEval': (49.8, 61.8),
        'FED': (-1.6, -1.9),
        'USR': (38.2, 34.6),
        'CTC': (14.4, 14.0),
        'FULL': (11.3, 12.0),
        'DEnsity': (38.8, 40.7),
    }
    for figure in figures:
        averages = printed.get(figure['scorer'].split(',')[0])
        if averages and figure['source'] == 'Park et al. 2024, Table 1':
            means = [100 * np.mean(list(figure[k].values())) for k in COEFFICIENTS]
            assert means == pytest.approx(averages, abs=0.1)
            checked += 1
    assert checked >= len(printed)
