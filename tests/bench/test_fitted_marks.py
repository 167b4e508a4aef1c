"""
A scorer that was fitted on human scores says so, and every table marks it.
"""

import pytest

from parlai_ext.bench.plan import BenchPlan, Variant
from parlai_ext.bench.published import team_tables
from parlai_ext.bench.run_bench import run_bench
from parlai_ext.bench.tables import bench_lines
from parlai_ext.data.judged.cards import card_names
from parlai_ext.scoring.registry import find_scorer
from tests.support.bench_samples import Counted, judged_set
from tests.support.user_error import user_error
from tests.support.written import written

COMPOSITE = find_scorer('composite')


class Fitted(Counted):
    """
    Was fitted on two sets, of which one is in the Track's tables.
    """

    name = 'fitted'
    fitted_on = ('usr_persona', 'elsewhere')


@pytest.fixture(scope='module')
def bench(tmp_path_factory):
    sets = {name: judged_set(name) for name in ('usr_persona', 'fed_turn')}
    scorers = (f'{__name__}:Fitted', 'length')
    plan = BenchPlan(tuple(Variant(name[-6:], {'name': name}) for name in scorers))
    return run_bench(plan, sets, tmp_path_factory.mktemp('bench'), bootstraps=20)[0]


def test_the_tracks_table_marks_a_fitted_scorer_and_names_its_sets(bench):
    [one] = team_tables(bench)
    assert {'Fitted †', 'length'} <= {row[0] for row in one.table.rows}
    assert one.notes[-1] == (
        '† Fitted: fitted on human scores of usr_persona, elsewhere; of the sets '
        'here: usr_persona'
    )


def test_the_benchs_table_marks_the_cells_of_those_sets(bench):
    lines = list(bench_lines(bench))
    # the columns stand side by side in the order of the sets
    row = next(line for line in lines if line.startswith('Fitted'))
    first, _, second = row.partition('†')
    assert '[' in first and '[' in second and '†' not in second
    assert '† Fitted was fitted on human scores of usr_persona, elsewhere' in lines


@pytest.mark.parametrize(
    'name, data',
    [
        ('learned', 'dstc9_interactive'),  # docs/learned_method.md
        ('usr', 'usr_topical'),  # the authors' regression
        ('bleurt', 'translations of WMT'),
    ],
)
def test_a_scorer_fitted_on_human_scores_says_on_which(name, data):
    assert data in find_scorer(name).from_section({}).fitted_on


def test_the_weights_of_composite_say_on_which_sets_they_were_fitted():
    # docs/composite.md, "How it was fitted"
    fitted_on = set(COMPOSITE.from_section({}).fitted_on)
    assert {'usr_topical', 'zhao_dailydialog', 'chanel_jsalt'} <= fitted_on
    assert not fitted_on & {'fed_turn', 'grade_convai2', 'topical_dstc10'}
    assert fitted_on <= set(card_names())


def test_weights_of_ones_own_say_it_themselves(tmp_path):
    def fitted_on(**given):
        terms = {
            name: {'centre': 0, 'spread': 1, 'weight': 1 / 3}
            for name in ('likelihood', 'relevance', 'length')
        }
        path = written(tmp_path, 'mine.yaml', {'terms': terms, **given})
        return COMPOSITE.from_section({'weights': str(path)}).fitted_on

    assert fitted_on() == ()
    assert fitted_on(fitted_on=['mine']) == ('mine',)
    with user_error('mine.yaml:1: fitted_on'):
        fitted_on(fitted_on='mine')
