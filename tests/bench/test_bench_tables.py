"""
What is read out of a bench. Comparing its scorers: planted scorers come out as planted.
The published tables beside it: DSTC10 Track 5.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from parlai_ext.bench.bench_files import AgreementRow, SetPoints, write_bench
from parlai_ext.bench.compare import ALL_SETS, EACH, compare_bench
from parlai_ext.bench.tables import (
    COEFFICIENTS,
    agreement_here,
    annotator_tables,
    average_over,
    correlation_figure,
    figure_tables,
    render_comparison_page,
    team_tables,
)
from parlai_ext.commands.compare_metrics import CompareMetrics
from parlai_ext.data.judged import card_names, read_card
from parlai_ext.files import read_shipped
from parlai_ext.ranking.agreement import Correlation
from parlai_ext.ranking.comparison import holm
from parlai_ext.view import number
from tests.support.bench_samples import bench_of
from tests.support.user_error import user_error
from tests.support.written import json_in

NOISE = {'good': 0.3, 'twin': 0.3, 'bad': 30.0}


def set_points(name, unit='context', seed=0):
    """
    Return a set of which ``good`` and ``twin`` measure what people say, each with its
    own error, and ``bad`` nothing.
    """
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=120)
    human = truth + rng.normal(scale=0.6, size=120)
    scores = {k: (truth + s * rng.normal(size=120)).tolist() for k, s in NOISE.items()}
    size = 2 if unit == 'context' else 1
    groups = [place // size for place in range(120)]
    human = {'Overall': human.tolist()}
    about = (name, 'turn', unit, 'Overall', groups, ['a'] * 120)
    return SetPoints(*about, human, annotators={}, scores=scores)


def written(folder, *points, labels=tuple(NOISE)):
    """
    Write a bench with these points.
    """
    qualities = {one.set_name: ['Overall'] for one in points}
    write_bench(folder, bench_of(labels, qualities), points)
    return folder


@pytest.fixture
def compared(tmp_path):
    """
    Return a function that compares the scorers of a bench with these points.
    """

    def compare(*points, **options):
        return compare_bench(written(tmp_path, *points), permutations=500, **options)

    return compare


def of_set(result, name, field):
    """
    Return a field of each scorer's place on a set.
    """
    places = [place for place in result.places if place.set_name == name]
    return {place.scorer: getattr(place, field) for place in places}


def difference(result, first, second, set_name, quality=None):
    rows = [r for r in rows_of(result, first, second) if r.set_name == set_name]
    [row] = [row for row in rows if quality in (None, row.quality)]
    return row


def rows_of(result, *pair):
    return [row for row in result.differences if (row.first, row.second) == pair]


def with_quality(one, name):
    """
    Return the points of a set with one more quality, on which ``bad`` is good.
    """
    rng = np.random.default_rng(9)
    human = np.array(one.scores['bad']) + rng.normal(size=len(one.groups))
    return replace(one, human={**one.human, name: human.tolist()})


def test_planted_scorers_are_told_apart_or_not(compared):
    result = compared(set_points('one'), set_points('two'))
    for set_name in ('one', 'two', ALL_SETS):
        clusters = of_set(result, set_name, 'cluster')
        assert clusters == {'good': 1, 'twin': 1, 'bad': 2}


def test_williams_test_is_for_independent_items_only(compared):
    points = set_points('alike'), set_points('single', unit='item')
    result = compared(*points)
    alike, single = (difference(result, 'good', 'bad', one.set_name) for one in points)
    assert alike.williams_t is None and 'context' in alike.williams_reason
    assert single.williams_p < 0.001


def test_only_common_items_are_compared(compared):
    one = set_points('one')
    gappy = [None if k < 20 else value for k, value in enumerate(one.scores['good'])]
    one = replace(one, scores={**one.scores, 'good': gappy})
    result = compared(one)
    assert difference(result, 'good', 'bad', 'one').n == 100
    assert difference(result, 'twin', 'bad', 'one').n == 120


def test_redundancy_is_the_mean_over_sets(compared):
    points = [set_points(name, seed=k) for k, name in enumerate(('one', 'two'))]
    result = compared(*points)
    rho = [stats.spearmanr(o.scores['good'], o.scores['twin'])[0] for o in points]
    assert result.redundancy['good', 'twin'] == (pytest.approx(np.mean(rho)), 2)


def test_a_quality_by_its_name_leaves_out_sets_without_it(compared):
    points = [with_quality(set_points('one'), 'Fluent'), set_points('two')]
    result = compared(*points, quality='fluent')
    assert {row.set_name for row in result.differences} == {'one', ALL_SETS}
    clusters = of_set(result, 'one', 'cluster')
    assert clusters['bad'] == 1 and clusters['good'] > 1
    with user_error(r"--quality Fluet.*'Fluent'"):
        compared(*points, quality='Fluet')


def test_each_quality_is_compared_and_their_mean_over_all_sets(compared):
    one = with_quality(set_points('one'), 'Fluent')
    result = compared(one, quality=EACH)
    rows = [difference(result, 'good', 'bad', ALL_SETS)]
    gaps = []
    for quality, human in one.human.items():
        good, bad = (stats.spearmanr(one.scores[k], human)[0] for k in ('good', 'bad'))
        gaps.append(good - bad)
        rows.append(difference(result, 'good', 'bad', 'one', quality))
    expected = pytest.approx([np.mean(gaps), *gaps])
    assert [row.difference for row in rows] == expected
    # not once for each quality
    assert {(row.n, row.n_groups) for row in rows} == {(120, 60)}


def test_a_copy_of_a_quality_changes_no_p_value_over_all_sets(compared):
    # contexts are swapped in all qualities together, so a copy is no new evidence
    one = set_points('one')
    twice = replace(one, human={**one.human, 'Copy': one.human['Overall']})
    results = (compared(points, quality=EACH) for points in (one, twice))
    first, other = (difference(r, 'good', 'twin', ALL_SETS).p for r in results)
    assert first == pytest.approx(other)


def test_p_values_are_adjusted_over_sets_and_qualities(compared):
    points = [with_quality(set_points(n, seed=k), 'Q') for k, n in enumerate('ab')]
    result = compared(*points, quality=EACH)
    rows = [r for r in rows_of(result, 'good', 'twin') if r.set_name != ALL_SETS]
    assert len(rows) == 4
    assert [row.p_holm for row in rows] == holm([row.p for row in rows])


def test_a_scorer_with_a_dimension_for_a_quality_is_compared_by_it(compared):
    one = with_quality(set_points('one'), 'Fluent')
    own = {'Fluent': {'good': one.human['Fluent']}}
    result = compared(replace(one, own_scores=own), quality=EACH)
    spearman = {(p.scorer, p.quality): p.spearman for p in result.places}
    assert spearman['good', 'Fluent'] == pytest.approx(1)
    assert spearman['good', 'Overall'] == pytest.approx(
        stats.spearmanr(one.scores['good'], one.human['Overall'])[0]
    )


def test_a_set_that_few_scorers_judge_is_in_no_mean_over_sets(compared):
    one, two = set_points('one'), set_points('two', seed=1)
    scores = {'good': two.scores['good']}
    result = compared(one, replace(two, scores=scores))
    of_all, of_one = (of_set(result, name, 'spearman') for name in (ALL_SETS, 'one'))
    assert of_all == pytest.approx(of_one) and len(of_one) == 3


def test_only_the_sets_that_are_named_are_compared(compared):
    points = set_points('one'), set_points('two')
    result = compared(*points, sets=['two'])
    assert {row.set_name for row in result.differences} == {'two', ALL_SETS}
    with user_error(r"--sets tow.*'two'"):
        compared(*points, sets=['tow'])


def test_the_page_shows_every_number_and_labels_as_text(tmp_path):
    points = [set_points('alike'), set_points('single', unit='item')]
    for one in points:
        one.scores['<b>'] = one.scores.pop('twin')
        bad = one.scores['bad']
        one.annotators['Overall'] = [[v, v + i % 3] for i, v in enumerate(bad)]
    result = compare_bench(written(tmp_path, *points, labels=points[0].scores))
    page = render_comparison_page(result)
    row = difference(result, 'good', 'bad', 'single')
    shown = [row.difference, row.williams_t, result.ceilings['alike', 'Overall'].single]
    shown += [rho for rho, _ in result.redundancy.values()]
    for value in shown:
        assert f'>{number(value)}<' in page
    assert f'>{number(row.p_holm, 4)}<' in page
    assert 'the test needs independent ones' in page  # of the set alike
    assert 'src=' not in page and 'http://' not in page
    assert '&lt;b&gt;' in page and '<b>' not in page


def test_the_command_writes_what_it_prints(tmp_path, printed):
    points = [set_points('one'), set_points('two', seed=1)]
    folder, figure = written(tmp_path, *points), tmp_path / 'pairs.png'
    CompareMetrics.main(str(folder), '--figure', str(figure))
    assert figure.read_bytes().startswith(b'\x89PNG')
    assert '1. good' in printed()
    data = json_in(tmp_path / 'comparisons.json')
    assert {place['scorer'] for place in data['places']} == set(NOISE)
    assert (tmp_path / 'comparisons.csv').read_text().startswith('first,second')
    assert 'Which scorers differ' in (tmp_path / 'comparisons.html').read_text()


def test_the_figure_is_of_the_items_of_all_sets_together():
    points = [set_points('one'), set_points('two', seed=1)]
    points[1].scores['bad'][:5] = [None] * 5
    axes = correlation_figure(points).axes[0]
    texts = [text.get_text() for text in axes.texts]
    good, bad = (sum((p.scores[k] for p in points), []) for k in ('good', 'bad'))
    rho = stats.spearmanr(good[:120] + good[125:], bad[:120] + bad[125:]).statistic
    assert len(texts) == 9
    assert texts[::2][:2] == [number(1.0), number(rho)]


def test_a_figure_of_another_kind_is_refused(tmp_path):
    with user_error(r'--figure .*\.png'):
        CompareMetrics.main(str(tmp_path), '--figure', 'figure.doc')


# === The published tables =============================================================

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
