"""
The mean of the ranks of several scorers, as a row of a bench.
"""

import pytest
from scipy import stats

from parlai_ext.bench.bench_files import read_points
from parlai_ext.bench.plan import BenchPlan, load_bench_file
from parlai_ext.bench.run_bench import run_bench
from parlai_ext.core.errors import UserError
from tests.bench.test_run_bench import variant
from tests.support.bench_samples import judged_set

pytestmark = pytest.mark.usefixtures('no_power_cuts')
FILE = """scorers:
  long: {name: length}
  new: {name: distinct}
mean_ranks:
  both: [long, MEMBER]
"""


def bench_of(folder, members, *variants):
    plan = BenchPlan(variants, mean_ranks={'together': members})
    sets = {'small': judged_set()}
    return run_bench(plan, sets, folder, bootstraps=50, progress=False)[0]


def test_its_row_is_the_correlation_of_the_mean_of_ranks(tmp_path):
    bench = bench_of(tmp_path, ('Counted', 'repetition'), variant())
    points = read_points(tmp_path, 'small')
    words, new = (points.scores[name] for name in ('Counted', 'repetition'))
    known = [i for i in range(len(words)) if None not in (words[i], new[i])]
    assert len(known) < len(words)
    # ranks of each scorer are over all that it scored
    ranks = {}
    for name, column in (('words', words), ('new', new)):
        own = [i for i, value in enumerate(column) if value is not None]
        scaled = (stats.rankdata([column[i] for i in own]) - 0.5) / len(own)
        ranks[name] = dict(zip(own, scaled, strict=True))
    means = [ranks['words'][i] + ranks['new'][i] for i in known]
    human = [points.human['Overall'][i] for i in known]
    row = bench.row('together', 'small', 'turn')
    assert row.value() == pytest.approx(stats.spearmanr(means, human).statistic)
    assert (row.n, row.dropped) == (len(known), len(words) - len(known))


def test_a_member_that_cannot_be_scored_is_the_reason(tmp_path):
    members = ('NoModel', 'length')
    bench = bench_of(tmp_path, members, variant('NoModel'), variant())
    assert 'NoModel' in bench.row('together', 'small', 'turn').reason


def test_a_mean_rank_of_a_file_names_its_members(tmp_path):
    path = tmp_path / 'bench.yaml'
    path.write_text(FILE.replace('MEMBER', 'repetition'))
    assert load_bench_file(str(path)).mean_ranks == {'both': ('long', 'repetition')}


@pytest.mark.parametrize(
    'member, place',
    [('newest', r'mean_ranks.both\[1\]'), ('long', 'mean_ranks.both')],
)
def test_a_member_that_is_not_there_is_named_by_its_line(tmp_path, member, place):
    path = tmp_path / 'bench.yaml'
    path.write_text(FILE.replace('MEMBER', member))
    with pytest.raises(UserError, match=f'bench.yaml:5: {place}'):
        load_bench_file(str(path))
