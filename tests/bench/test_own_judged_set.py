"""
A user's own judged set, CSV or JSON lines, from `run_bench` to `compare_metrics`.
"""

import json
import re

import pytest

from parlai_ext.bench.bench_files import read_bench, read_points
from parlai_ext.bench.compare import compare_bench
from parlai_ext.bench.tables import best_sentence
from parlai_ext.commands.compare_metrics import CompareMetrics
from parlai_ext.commands.run_bench import RunBench
from parlai_ext.data.judged.cards import find_own_files
from tests.support.user_error import user_error

SAID = 'tests.support.bench_samples:SaidNumber'
N = 24
WORDS = [f'w{k}' for k in range(N)]
# people's scores are 1, 2, … 24
HUMAN = list(range(1, N + 1))
# Said's are the same with the first two exchanged: rho = 1 - 6 (1 + 1) / (24 · 575)
SAYS = [2, 1, *range(3, N + 1)]
RHO = 1 - 12 / (N * (N * N - 1))
# lengths of 2 … 13, 13 … 2 words: rho is 0 by symmetry
LENGTHS = [*range(2, 14), *range(13, 1, -1)]
CARD = """
title: mine
source: me
licence: mine
level: turn
format: own
file: mine.csv
overall: Overall
"""


def responses(lengths=LENGTHS):
    return [
        ' '.join([str(number), *WORDS[: length - 1]])
        for number, length in zip(SAYS, lengths, strict=True)
    ]


def write_csv(folder, name='mine.csv', lengths=LENGTHS):
    lines = ['context,response,system,quality,value,annotator']
    for k, (text, value) in enumerate(zip(responses(lengths), HUMAN, strict=True)):
        lines.append(f'question {k},{text},bot,Overall,{value},ann')
    (folder / name).write_text('\n'.join(lines) + '\n')


def write_jsonl(folder, name='mine.jsonl', lengths=LENGTHS):
    rows = [
        {
            'context': [f'question {k}'],
            'response': text,
            'system': 'bot',
            'annotations': {'Overall': [value]},
        }
        for k, (text, value) in enumerate(zip(responses(lengths), HUMAN, strict=True))
    ]
    (folder / name).write_text(''.join(json.dumps(row) + '\n' for row in rows))


@pytest.fixture
def judged(tmp_path):
    (tmp_path / 'judged').mkdir()
    return tmp_path / 'judged'


def bench(judged, *sets, scorers=(SAID,), path=None):
    out = judged.parent / 'bench'
    options = {'judged_path': str(path or judged), 'out': str(out)}
    RunBench.main(**options, scorers=list(scorers), sets=list(sets), bootstraps=100)
    return out


def said(text):
    """
    Return a printed text on one line.
    """
    return re.sub(r'\s+', ' ', text)


def test_a_set_that_is_called_by_its_card_is_kept_under_its_own_name(judged, capsys):
    write_csv(judged)
    (judged / 'mine.yaml').write_text(CARD)
    out = bench(judged, str(judged / 'mine.yaml'))
    points = read_points(out, 'mine')
    assert points.scores[SAID] == SAYS
    assert points.scores['length'] == LENGTHS
    capsys.readouterr()
    CompareMetrics.main(str(out))
    printed = capsys.readouterr().out
    assert f'1. {SAID} 1.00' in printed


@pytest.mark.parametrize(
    'write, named',
    [(write_jsonl, ''), *((write_csv, how) for how in ('', 'file', 'name', 'path'))],
)
def test_a_file_in_the_documented_format_needs_no_card(judged, write, named):
    write(judged)
    [path] = judged.iterdir()
    sets = {'file': [path.name], 'name': [str(path)]}.get(named, [])
    out = bench(judged, *sets, path=path if named == 'path' else None)
    assert [one.name for one in read_bench(out).sets] == ['mine']
    assert compare_bench(out).best.spearman == pytest.approx(RHO)


def test_files_of_other_formats_are_no_sets(judged):
    (judged / 'plays.csv').write_text('title,year\nHamlet,1601\n')
    (judged / 'log.jsonl').write_text('{"messages": []}\n')
    (judged / 'broken.jsonl').write_text('{"annotations"')
    assert find_own_files(judged) == []
    with user_error(r'docs/judged_sets\.md'):
        bench(judged)


def test_two_sets_of_one_name_are_refused(judged):
    write_csv(judged)
    write_jsonl(judged)
    with user_error(r'mine.*mine\.csv.*mine\.jsonl'):
        bench(judged)


def test_what_a_bench_file_says_of_an_own_set_holds(judged, tmp_path):
    write_csv(judged)
    (judged / 'mine.yaml').write_text(CARD)
    card = judged / 'mine.yaml'
    config = tmp_path / 'own.yaml'
    config.write_text(
        f'scorers:\n  said: {{name: "{SAID}", sets: ["{card}"]}}\n'
        f'sets:\n  "{card}": {{max_items: 12}}\n'
    )
    out = tmp_path / 'bench'
    RunBench.main(
        judged_path=str(judged), out=str(out), config=str(config), bootstraps=10
    )
    assert read_bench(out).sets[0].n_drawn == 12
    assert len(read_points(out, 'mine').scores['said']) == 12


def test_the_bench_ends_with_the_scorer_for_these_data(judged, capsys):
    write_csv(judged)
    out = bench(judged)
    last = said(capsys.readouterr().out.rsplit('\n\n', 1)[1])
    row = read_bench(out).row(SAID, 'mine', 'turn').correlations['spearman']
    assert row.value == pytest.approx(RHO) and row.low < row.high
    interval = f'1.00 [{row.low:.2f}, {row.high:.2f}]'
    assert f'For these data: {SAID}, Spearman {interval}' in last
    assert 'over 24 items of mine' in last
    # length has rho 0; all words are different and nothing is repeated
    assert 'It beats length and overlap.' in last
    assert 'No correlation to beat: distinct and repetition' in last
    assert said(last).strip() in said((out / 'bench.html').read_text())
    assert (out / 'agreement.csv').exists()
    CompareMetrics.main(str(out))
    assert said(capsys.readouterr().out.rsplit('\n\n', 1)[1]).startswith(last[:60])


def test_a_trivial_scorer_that_is_not_beaten_is_named(judged):
    # each response is as long as people like it: rho of length is 1
    write_csv(judged, lengths=[k + 1 for k in HUMAN])
    result = compare_bench(bench(judged))
    [rival] = [one for one in result.best.trivial if one.scorer == 'length']
    assert rival.spearman == pytest.approx(1) and not rival.is_beaten
    assert 'does not beat length (1.00' in best_sentence(result.best)


def test_a_trivial_scorer_that_agrees_upside_down_is_named(judged):
    write_csv(judged, lengths=[N + 2 - k for k in HUMAN])
    result = compare_bench(bench(judged))
    sentence = best_sentence(result.best)
    assert 'length' in sentence.split('It beats ')[1].split('.')[0]
    assert 'Turned round, length (\u22121.00)' in sentence


def test_trivial_scorers_alone_are_never_the_scorer_to_take(judged):
    write_csv(judged)
    result = compare_bench(bench(judged, scorers=['length', SAID]))
    assert result.best.scorer == SAID
    assert 'no scorer' in best_sentence(None)


def test_over_several_sets_the_mean_counts_and_its_interval_is_narrower(judged):
    write_csv(judged, 'one.csv')
    write_csv(judged, 'two.csv')
    best = compare_bench(bench(judged)).best
    one = compare_bench(bench(judged), sets=['one']).best
    assert (best.sets, best.n) == (('one', 'two'), 2 * N)
    assert best.spearman == pytest.approx(RHO)
    # two sets of the same data: the variance of their mean is half of one's
    assert best.high - best.low < one.high - one.low
