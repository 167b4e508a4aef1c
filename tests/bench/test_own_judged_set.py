"""
A user's own judged set, CSV or JSON lines, from `run_bench` to `compare_metrics`.
"""

import re

import pytest

from parlai_ext.bench.bench_files import read_bench, read_points
from parlai_ext.bench.compare import compare_bench
from parlai_ext.bench.tables import best_sentence
from parlai_ext.commands.compare_metrics import CompareMetrics
from parlai_ext.commands.run_bench import RunBench, read_judged_sets
from tests.support.user_error import user_error
from tests.support.written import on_one_line, written

SAID = 'tests.support.bench_samples:SaidNumber'
N = 24
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
        ' '.join([str(number), *(f'w{k}' for k in range(length - 1))])
        for number, length in zip(SAYS, lengths, strict=True)
    ]


def write_csv(folder, name='mine.csv', lengths=LENGTHS, most=N, per_context=1):
    lines = ['context,response,system,quality,value,annotator']
    for text, value in list(zip(responses(lengths), HUMAN, strict=True))[:most]:
        context = (value - 1) // per_context
        lines.append(f'question {context},{text},bot,Overall,{value},ann')
    (folder / name).write_text('\n'.join(lines) + '\n')


def write_jsonl(folder):
    rows = [
        {
            **{'context': [f'question {value - 1}'], 'response': text, 'system': 'bot'},
            'annotations': {'Overall': [value]},
        }
        for text, value in zip(responses(), HUMAN, strict=True)
    ]
    written(folder, 'mine.jsonl', rows)


@pytest.fixture
def judged(tmp_path):
    (tmp_path / 'judged').mkdir()
    return tmp_path / 'judged'


def bench(judged, **options):
    out = judged.parent / 'bench'
    options = {'judged_path': str(judged), 'out': str(out), 'bootstraps': 100} | options
    RunBench.main(**options)
    return out


@pytest.mark.parametrize(
    'write, named',
    [(write_jsonl, ''), *((write_csv, how) for how in ('', 'file', 'name', 'path'))],
)
def test_a_file_in_the_documented_format_needs_no_card(judged, write, named):
    write(judged)
    [path] = judged.iterdir()
    names = {'file': [path.name], 'name': [str(path)]}.get(named, [])
    sets, _ = read_judged_sets(path if named == 'path' else judged, names)
    assert [item.human('Overall') for item in sets['mine'].items] == HUMAN


@pytest.mark.parametrize('card', [CARD.replace('overall: Overall', ''), ''])
def test_a_set_of_a_folder_is_called_by_its_own_name(judged, card):
    write_csv(judged)
    if card:
        written(judged, 'mine.yaml', card)
    sets, _ = read_judged_sets(judged, ['mine'])
    # the card, which names no overall quality, counts
    assert sets['mine'].overall == (None if card else 'Overall')
    with user_error("'mein': .*'mine'"):
        read_judged_sets(judged, ['mein'])


def test_files_of_other_formats_are_no_sets(judged):
    written(judged, 'plays.csv', 'title,year\nHamlet,1601\n')
    written(judged, 'log.jsonl', '{"messages": []}\n')
    written(judged, 'broken.jsonl', '{"annotations"')
    with user_error(r'docs/judged_sets\.md'):
        read_judged_sets(judged, [])


@pytest.mark.parametrize('other', ['.', 'older'])
def test_two_sets_of_one_name_are_refused(judged, other):
    write_csv(judged)
    (judged / other).mkdir(exist_ok=True)
    (write_csv if other == 'older' else write_jsonl)(judged / other)
    with user_error(r'mine.*mine\.csv.*mine\.'):
        read_judged_sets(judged, [])


def test_without_an_overall_quality_the_sentence_names_the_one_it_is_about(
    judged, printed
):
    write_csv(judged)
    file = judged / 'mine.csv'
    file.write_text(file.read_text().replace('Overall', 'Wit'))
    bench(judged, scorers=[SAID])
    assert 'with people by Wit over 24 items of mine' in last_paragraph(printed)


def test_what_a_bench_file_says_of_an_own_set_holds(judged, tmp_path):
    write_csv(judged)
    card = str(written(judged, 'mine.yaml', CARD))
    scorers = {'said': {'name': SAID, 'sets': [card]}}
    plan = {'scorers': scorers, 'sets': {card: {'max_items': 12}}}
    out = bench(judged, config=str(written(tmp_path, 'own.yaml', plan)))
    assert read_bench(out).sets[0].n_drawn == 12
    assert len(read_points(out, 'mine').scores['said']) == 12


def test_a_set_that_differs_from_its_card_is_warned_of(judged, printed):
    write_csv(judged)
    slips = 'counts: {items: 25}\nqualities: {Wit: [1, 5]}\n'
    text = CARD.replace('overall: Overall', 'overall: Overal')
    written(judged, 'mine.yaml', text + slips)
    read_judged_sets(judged, [str(judged / 'mine.yaml')])
    lines = printed().splitlines()
    assert [line.split(',')[0] for line in lines] == [
        'mine: it has 24 items',
        'mine: it has no Wit',
        'mine: it has no Overal',
    ]


def test_a_card_in_place_of_a_file_is_not_called_missing(judged):
    card = written(judged, 'mine.yaml', CARD)
    with user_error(r'mine\.yaml: .*\.csv or \.jsonl'):
        read_judged_sets(card, [])


def last_paragraph(printed):
    return on_one_line(printed().rsplit('\n\n', 1)[1])


def test_the_bench_ends_with_the_scorer_for_these_data(judged, printed):
    write_csv(judged)
    out = bench(judged, scorers=[SAID])
    last = last_paragraph(printed)
    row = read_bench(out).row(SAID, 'mine', 'turn').correlations['spearman']
    assert row.value == pytest.approx(RHO) and row.low < row.high
    interval = f'1.00 [{row.low:.2f}, {row.high:.2f}]'
    assert f'For these data: {SAID}, Spearman {interval}' in last
    assert 'over 24 items of mine' in last
    # length has rho 0; all words are different and nothing is repeated
    assert 'It beats length and overlap.' in last
    assert 'No correlation with people is known of distinct and repetition' in last
    assert last in on_one_line((out / 'bench.html').read_text())
    assert (out / 'agreement.csv').exists()
    CompareMetrics.main(str(out))
    assert last_paragraph(printed).startswith(last[:60])
    scores = read_points(out, 'mine').scores
    assert (scores[SAID], scores['length']) == (SAYS, LENGTHS)


@pytest.mark.parametrize(
    'lengths, rho, words',
    [
        # each response is as long as people like it, or as they do not
        ([k + 1 for k in HUMAN], 1, r'does not beat length \(1.00, p > 0.9999\)'),
        (
            [N + 2 - k for k in HUMAN],
            -1,
            r'beats [^.]*length.*Turned round, length \(\u22121.00',
        ),
    ],
)
def test_a_trivial_scorer_that_is_not_beaten_or_is_upside_down_is_named(
    judged, lengths, rho, words
):
    write_csv(judged, lengths=lengths)
    best = compare_bench(bench(judged, scorers=[SAID])).best
    [rival] = [one for one in best.trivial if one.scorer == 'length']
    assert rival.spearman == pytest.approx(rho) and rival.is_beaten == (rho < 0)
    assert re.search(words, best_sentence(best))
    assert 'no scorer' in best_sentence(None)


@pytest.mark.parametrize('contexts, said', [(12, False), (5, True)])
def test_contexts_that_are_too_few_for_any_difference_are_called_so(
    judged, contexts, said
):
    write_csv(judged, most=2 * contexts, per_context=2)
    best = compare_bench(bench(judged, scorers=[SAID])).best
    # of 5 contexts all signs are alike once in 16 times, for each of several pairs
    assert ('5 contexts are too few' in best_sentence(best)) is said


def test_over_several_sets_the_mean_counts_and_its_interval_is_narrower(judged):
    write_csv(judged, 'one.csv')
    write_csv(judged, 'two.csv')
    out = bench(judged, scorers=[SAID])
    best, one = (compare_bench(out, sets=sets).best for sets in ([], ['one']))
    assert (best.sets, best.n) == (['one', 'two'], 2 * N)
    assert best.spearman == pytest.approx(RHO)
    # two sets of the same data: the variance of their mean is half of one's
    assert best.high - best.low < one.high - one.low
