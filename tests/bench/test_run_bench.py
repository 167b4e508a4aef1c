"""
The bench: what is scored, kept and drawn, and which rows come of it. A user's own
judged set, CSV or JSON lines, from `run_bench` to `compare_metrics`.
"""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from parlai_ext.bench.bench_files import SetPoints, read_bench, read_points
from parlai_ext.bench.compare import compare_bench
from parlai_ext.bench.run_bench import (
    TRIVIAL,
    BenchPlan,
    SetChoice,
    Variant,
    bench_plan,
    drawn_set,
    run_bench,
)
from parlai_ext.bench.tables import (
    bench_lines,
    best_sentence,
    disputed_item,
    render_bench_page,
    scatters,
    team_tables,
)
from parlai_ext.commands.compare_metrics import CompareMetrics
from parlai_ext.commands.run_bench import RunBench, read_judged_sets
from parlai_ext.data.judged import Annotation
from parlai_ext.scoring.likelihood import Fed
from parlai_ext.store import locked
from tests.support.bench_samples import Counted, judged_dialogue, judged_set
from tests.support.interrupted import interrupted
from tests.support.judged_samples import turn
from tests.support.judged_samples import written as written_set
from tests.support.user_error import user_error
from tests.support.written import changed_json, on_one_line, written


def variant(name='Counted', **options):
    section = {'name': f'tests.support.bench_samples:{name}', **options}
    return Variant(name + str(options or ''), section)


def bench_of(folder, *variants, sets=None, plan=None, max_items=None, **more):
    plan = plan or BenchPlan(variants=variants or (variant(),), max_items=max_items)
    more = {'bootstraps': 50, **more}
    return run_bench(plan, sets or {'small': judged_set()}, folder, **more)[0]


def row_of(bench, label, level='turn'):
    return bench.row(label, 'small', level)


def plan_of(folder, text, sets=(), **more):
    """
    Return the plan that a bench file with this text says.
    """
    path = folder / 'mine.yaml'
    path.write_text(text)
    return bench_plan([], sets, str(path), **more)


@pytest.fixture(autouse=True)
def nothing_seen():
    Counted.seen = []


def test_annotations_far_from_the_others_of_their_item_are_left_out(tmp_path):
    spoilt = judged_set()
    for item in spoilt.items:
        item.annotations['Overall'] += (Annotation('far', 100.0),)
    left = bench_of(tmp_path, sets={'small': spoilt}, outlier_deviations=1)
    assert left.rows == bench_of(tmp_path / 'plain').rows
    assert left.sets[0].n_outliers == 100
    assert read_bench(tmp_path) == left
    assert read_points(tmp_path, 'small').annotators['Overall'][1] == [2.5, 2.5]
    assert any('left out: 100 of small' in line for line in bench_lines(left))


def test_what_was_scored_is_not_scored_again(tmp_path):
    bench_of(tmp_path, max_items=30)
    assert len(Counted.seen) == 30
    first = bench_of(tmp_path)
    assert bench_of(tmp_path) == first
    assert len(Counted.seen) == 100
    # no text is stored
    text = ''.join(p.read_text() for p in (tmp_path / 'scores').glob('*.jsonl'))
    assert 'question' not in text and 'thanks' not in text
    # an option that is signed makes other scores
    bench = bench_of(tmp_path, variant(factor=-1.0))
    assert len(Counted.seen) == 200
    assert bench.row(bench.scorers[0].label, 'small', 'turn').value() < 0


def test_a_killed_bench_loses_one_batch_at_most(tmp_path):
    with interrupted(Counted, 'score', 2):
        bench_of(tmp_path)
    assert 0 < len(Counted.seen) < 100
    bench_of(tmp_path)
    assert len(Counted.seen) == 100


@pytest.mark.parametrize(
    'name, reason',
    [
        ('NeedsReferences', 'references'),
        ('NoModel', 'the model is not there'),
        ('Defect', 'ZeroDivisionError'),
        ('Refuses', '^0 items have a score.*; 100: it is too long$'),
    ],
)
def test_a_missing_score_is_a_reason_and_does_not_stop_the_rest(tmp_path, name, reason):
    bench = bench_of(tmp_path, variant(name), variant())
    assert read_bench(tmp_path) == bench
    row = row_of(bench, name)
    assert re.search(reason, row.reason)
    assert (row.n, row.value()) == (0, None)
    assert row_of(bench, 'Counted').value() is not None


def test_an_item_without_a_reference_is_dropped_and_counted(tmp_path):
    whole = judged_set()
    items = [replace(i, references=('well',)) for i in whole.items[:90]]
    some = replace(whole, items=(*items, *whole.items[90:]))
    bench = bench_of(tmp_path, variant('NeedsReferences'), sets={'small': some})
    row = row_of(bench, 'NeedsReferences')
    assert (row.n, row.dropped) == (90, 10)


def test_rows_are_correlations_of_items_and_of_system_means(tmp_path):
    bench = bench_of(tmp_path)
    rows = [(len(i.response.split()), i.human('Overall')) for i in judged_set().items]
    # the items of each context are those of the five systems
    means = np.reshape(rows, (20, 5, 2)).mean(axis=0)
    for level, points in (('turn', rows), ('system', means)):
        found = row_of(bench, 'Counted', level).value()
        assert found == pytest.approx(stats.spearmanr(points).statistic)


def test_trivial_scorers_stand_beside_and_the_main_score_meets_every_quality(tmp_path):
    bench = bench_of(tmp_path)
    trivial = [scorer.label for scorer in bench.scorers if scorer.is_trivial]
    assert trivial == ['length', 'distinct', 'repetition', 'overlap']
    # the number of words is what `Counted` counts
    assert row_of(bench, 'length').value() == row_of(bench, 'Counted').value()
    rows = bench.main_rows('Counted', 'small', 'turn')
    assert [row.quality for row in rows] == ['Overall', 'Relevant']


def test_items_of_a_context_are_drawn_together():
    drawn = drawn_set(judged_set(), 33, seed=1)
    contexts = [item.context for item in drawn.items]
    assert len(contexts) == 30
    assert all(contexts.count(context) == 5 for context in contexts)


def test_systems_with_their_own_contexts_get_equal_shares():
    both = judged_set(systems=tuple('ab'))
    items = [replace(item, context=(item.id,)) for item in both.items]
    drawn = drawn_set(replace(both, items=tuple(items)), 10, seed=0)
    assert sorted(item.system for item in drawn.items) == [*'aaaaabbbbb']


@pytest.mark.parametrize(
    'name, change',
    [
        ('bench.json', {'rows': [{}]}),
        ('points/small.json', {'systems': ['a']}),
        ('points/small.json', {'human': {'Overall': ['x']}}),
    ],
)
def test_values_of_another_kind_are_one_line(tmp_path, name, change):
    bench_of(tmp_path, variant('NoModel'))
    path = tmp_path / name
    changed_json(path, **change)
    with user_error(f'{path.name}: cannot be read'):
        read_bench(tmp_path)
        read_points(tmp_path, 'small')


def test_values_may_hold_commas_and_colons():
    model = 'hf:org/lm,hf_dtype=bfloat16'
    spec = f'likelihood:judge_model_file={model}:less=no_context'
    [one] = bench_plan([spec], []).variants
    given = {'judge_model_file': model, 'less': 'no_context'}
    assert one.section == {'name': 'likelihood', **given}


@pytest.mark.parametrize(
    'spec, hint',
    [
        ('likelihod', "did you mean 'likelihood'"),
        ('likelihood:les=nothing', "did you mean 'less'"),
        ('likelihood:less=something', 'less=something'),
    ],
)
def test_a_wrong_scorer_is_named(spec, hint):
    with user_error(re.escape(hint)):
        bench_plan([spec], [])


MEMBERS = """scorers:
  long: {name: length}
  new: {name: distinct}
mean_ranks:
  both: [long, MEMBER]
"""


@pytest.mark.parametrize(
    'text, place',
    [
        (
            'scorers:\n  a:\n    name: likelihood\n    les: nothing\n',
            r'4: scorers\.a\.les',
        ),
        (
            'scorers:\n  a: {name: length, max_items: none}\n',
            r'2: scorers\.a\.max_items',
        ),
        (
            'sets:\n  fed_turn: {scorers: [lenth]}\n',
            r"sets\.fed_turn\.scorers.*'length'",
        ),
        (
            'scorers:\n  a: {name: holistic, dimension: Fluency, sets: [els]}\n'
            'sets:\n  esl: {}\n',
            r"scorers\.a\.sets.*'esl'",
        ),
        ('published: Park et al. 2024\n', '1: published: .*Table 1'),
        (MEMBERS.replace('MEMBER', 'newest'), r'5: mean_ranks.both\[1\]'),
        (MEMBERS.replace('MEMBER', 'long'), '5: mean_ranks.both'),
    ],
)
def test_a_bench_file_names_its_mistakes(tmp_path, text, place):
    with user_error(rf'mine\.yaml.*{place}'):
        plan_of(tmp_path, text)


def test_the_command_line_replaces_only_what_it_says_of_a_set(tmp_path):
    text = 'scorers: {length: {name: length}}\nsets: {some: {max_items: 9, turns: 1}}\n'
    fewer = plan_of(tmp_path, text, max_items=5).choice('some')
    assert (fewer.max_items, fewer.turns) == (5, 1)
    more = plan_of(tmp_path, text, ['some'], turns=3).choice('some')
    assert (more.max_items, more.turns) == (9, 3)


def noted_calls(monkeypatch, scorer):
    """
    Return a list that grows by the number of items of each call of a scorer.
    """
    calls, score = [], scorer.score

    def noted(self, items):
        calls.append(len(items))
        return score(self, items)

    monkeypatch.setattr(scorer, 'score', noted)
    return calls


def test_follow_ups_are_asked_once_for_all_polarities(tmp_path, monkeypatch):
    asked = noted_calls(monkeypatch, Fed)
    sets = {'small': judged_set(n_contexts=2)}
    section = {'name': 'fed', 'judge_model_file': 'zoo:mini/judge/model'}
    polarities = ('negative', 'positive', 'both')
    three = [Variant(p, {**section, 'polarity': p}) for p in polarities]
    folders = tmp_path / 'together', tmp_path / 'alone'
    together = bench_of(folders[0], *three, sets=sets)
    assert sum(asked) == 10
    alone = bench_of(folders[1], three[2], sets=sets)
    assert alone.scorers[0] == together.scorers[2]
    first, other = (read_points(one, 'small').scores['both'] for one in folders)
    assert first == pytest.approx(other, abs=1e-5)


def test_scores_of_turns_do_not_pass_for_those_of_whole_dialogues(tmp_path):
    items = tuple(
        judged_dialogue(
            k, 'so', 'yes ' * (1 + k % 7), 'no', 'well ' * (k % 3), overall=k
        )
        for k in range(12)
    )
    whole = judged_set('dialogues', level='dialogue', unit='item')
    dialogues = replace(whole, items=items)
    human = items[0].annotations
    turns = (replace(turn, annotations=human) for one in items for turn in one.turns())
    apart = replace(dialogues, name='turns', level='turn', items=tuple(turns))
    bench_of(tmp_path, variant('Whole'), sets={'turns': apart})  # keeps all scores
    # a number of turns is for scorers that need turns
    plan = BenchPlan(variants=(variant(), variant('Whole')), turns=1)
    bench_of(tmp_path, plan=plan, sets={'dialogues': dialogues})
    scores = read_points(tmp_path, 'dialogues').scores
    for k, item in enumerate(items):
        lengths = [len(text.split()) for text in item.utterances]
        assert scores['Whole'][k] == sum(lengths)
        assert scores['Counted'][k] in lengths[1::2]


def test_how_often_a_choice_changes_with_the_order_is_kept_and_printed(tmp_path):
    for _ in range(2):  # the second time from what is stored
        bench = bench_of(tmp_path, variant('Flipping'), variant())
        assert bench.flips['Flipping'] == {'small': (100, 400)}
    assert read_bench(tmp_path) == bench
    assert '25 % of 400 on small' in on_one_line(' '.join(bench_lines(bench)))


def test_every_table_marks_a_scorer_that_was_fitted_on_its_sets(tmp_path):
    # one of the two sets of `Fitted` is here, and in the Track's tables
    sets = {name: judged_set(name) for name in ('usr_persona', 'fed_turn')}
    bench = bench_of(tmp_path, variant('Fitted'), sets=sets)
    [one] = team_tables(bench)
    assert {'Fitted †', 'length'} <= {row[0] for row in one.table.rows}
    assert one.notes[-1] == (
        '† Fitted: fitted on human scores of usr_persona, elsewhere; of the sets '
        'here: usr_persona'
    )
    lines = list(bench_lines(bench))
    # the columns stand side by side in the order of the sets
    row = next(line for line in lines if line.startswith('Fitted'))
    first, _, second = row.partition('†')
    assert '[' in first and '[' in second and '†' not in second
    assert '† Fitted was fitted on human scores of usr_persona, elsewhere' in lines


def test_items_that_were_too_long_are_counted(tmp_path):
    for _ in range(2):  # the second time from what is stored
        plan = BenchPlan(variants=(variant('Cutting'), variant()))
        _, results, _ = run_bench(plan, {'small': judged_set()}, tmp_path)
        cut, counted, *_ = (one.of_sets(lambda scores: scores.n_cut) for one in results)
        num_long = sum(len(item.response.split()) > 3 for item in judged_set().items)
        assert cut == {'small': num_long} and not counted


def test_the_folder_of_the_judged_sets_may_stand_in_options():
    plan = bench_plan([], [], 'paireval_2024').in_folder('sets')
    assert plan.variants[0].section['comparisons'] == 'sets/dailydialog'


def points(people, **scores):
    n = len(people)
    about = ('small', 'turn', 'item', 'Overall', range(n), ['a'] * n)
    return SetPoints(*about, {'Overall': people}, annotators={}, scores=scores)


def test_a_scatter_has_a_dot_for_each_item_with_both_scores():
    drawn = scatters(points(people=[1.0, 3.0, 2.0, None], good=[10, 20, None, 5]))
    # upwards is less y: the best of people's at the top
    assert drawn == [('good', 'M0 100h0M100 0h0')]


def test_the_item_of_the_page_is_that_with_the_most_different_ranks():
    one = points(people=[1.0, 2.0, 3.0], same=[1, 2, 3], other=[9, 2, None])
    # a set without an overall quality: the first one stands for it
    one = replace(one, overall=None)
    place, table = disputed_item(one)
    assert place == 0
    # of three, three and two
    ranks = {label: rank for label, _, rank in table.rows}
    assert ranks == {'people': '3 of 3', 'same': '3 of 3', 'other': '1 of 2'}


def test_the_page_has_dots_and_texts_of_items_and_escapes_them(tmp_path):
    bench = bench_of(tmp_path, replace(variant(), label='<script>alert(1)</script>'))
    texts = {'small': [['<b>hello</b>']] * 100}
    page = render_bench_page(bench, (), '', [read_points(tmp_path, 'small')], texts)
    assert '&lt;b&gt;hello&lt;/b&gt;' in page and page.count('<path d="M') == 5
    assert '<script>alert' not in page
    assert "default-src 'none'" in page and 'http' not in page.split('</style>')[1]


def test_a_set_that_is_not_there_is_said(tmp_path):
    written_set(tmp_path, turn('User: hi', 'System: hi', Overall=[1]))
    with user_error(r'usr-persona|persona-usr_eval\.json'):
        read_judged_sets(tmp_path, ['usr_persona'])


def test_scores_that_depend_on_other_items_are_made_in_one_call(tmp_path, monkeypatch):
    calls = noted_calls(monkeypatch, Counted)
    monkeypatch.setattr(Counted, 'compares_items', True)
    for most in (40, 40, 100):
        bench_of(tmp_path, max_items=most)
    # another company is another score
    assert calls == [40, 100]


def test_a_scorer_that_another_process_has_is_a_reason(tmp_path):
    bench_of(tmp_path)
    stored = (tmp_path / 'scores').glob('*.jsonl')
    [path] = [path for path in stored if 'counted' in path.open().readline()]
    with locked(path.with_suffix('.lock')):
        bench = bench_of(tmp_path)
    assert 'in use' in row_of(bench, 'Counted').reason
    assert row_of(bench, 'length').value() is not None


def test_a_slow_scorer_scores_fewer_items_and_its_cell_says_so(tmp_path):
    slow = replace(variant(factor=2.0), label='slow', max_items=20)
    bench = bench_of(tmp_path, variant(), slow, max_items=50)
    assert len(Counted.seen) == 50 + 20
    turns, systems = (row_of(bench, 'slow', level) for level in ('turn', 'system'))
    assert (turns.n, turns.dropped) == (20, 0)
    assert (systems.n, systems.n_items) == (5, 20)
    assert not bench.reasons['slow']
    lines = list(bench_lines(bench))
    assert '50 of 100 turns' in lines[2] and 'seed 0' in lines[-1]
    of_turns, of_systems = (x for x in lines if x.startswith('slow'))
    assert of_turns.endswith(' n 20') and of_systems.endswith(' 20 items')
    # they are some of those that others score
    scores = read_points(tmp_path, 'small').scores
    both = zip(scores['Counted'], scores['slow'], strict=True)
    known = [(one, other) for one, other in both if other is not None]
    assert len(known) == 20 and all(other == 2 * one for one, other in known)


def test_a_bench_file_says_what_each_scorer_scores(tmp_path):
    text = 'scorers: {few: {name: relevance, max_items: 7}}\n'
    plan = plan_of(tmp_path, text + 'sets: {fed_turn: {scorers: [few, length]}}\n')
    assert plan.variants[0].section == {'name': 'relevance'}
    assert plan.variants[0].max_items == 7
    assert plan.choice('fed_turn').scorers == ('few', 'length')
    ranks = plan_of(tmp_path, MEMBERS.replace('MEMBER', 'repetition')).mean_ranks
    assert ranks == {'both': ('long', 'repetition')}
    section = '{name: holistic, dimension: Fluency, sets: [esl]}'
    text = f'scorers:\n  fluency: {section}\nsets:\n  esl: {{}}\n'
    [one] = plan_of(tmp_path, text).variants
    assert (one.section, one.dimension) == ({'name': 'holistic'}, 'Fluency')
    assert one.sets == ('esl',)


def test_a_set_may_be_for_some_scorers_only_and_a_scorer_for_some_sets(tmp_path):
    sets = {'small': judged_set(), 'other': judged_set('other')}
    of_other = replace(variant(factor=2.0), label='of_other', sets=('other',))
    choice = SetChoice(scorers=('Counted', 'of_other'))
    plan = BenchPlan(variants=(variant(), of_other), sets={'small': choice})
    bench = bench_of(tmp_path, plan=plan, sets=sets)
    assert 'other sets only' in row_of(bench, 'of_other').reason
    assert 'other scorers only' in row_of(bench, 'distinct').reason


def test_a_row_may_be_about_one_dimension_of_a_scorer(tmp_path):
    names, both = ('Long', 'Short'), variant('TwoSided')
    rows = (replace(both, label=name, dimension=name) for name in names)
    bench = bench_of(tmp_path, *rows)
    n_short = sum(len(item.response.split()) == 1 for item in judged_set().items)
    long, short = (row_of(bench, name) for name in names)
    assert (long.n, short.n) == (100, 100 - n_short)
    assert long.dimension == 'Long' and long.value() > 0 > short.value()
    assert bench.reasons['Long'] == {}
    assert bench.reasons['Short'] == {'small': {'one word': n_short}}
    assert len(list((tmp_path / 'scores').glob('*.jsonl'))) == 1 + len(TRIVIAL)


def test_an_unknown_dimension_is_named_in_the_table(tmp_path):
    bench = bench_of(tmp_path, replace(variant('TwoSided'), dimension='Shrt'))
    assert "'Shrt'" in bench.scorers[0].failure and 'Short' in bench.scorers[0].failure


# ------------------------------------------------ the mean of the ranks of scorers


def together(members, *variants):
    return BenchPlan(variants=variants, mean_ranks={'together': members})


def test_its_row_is_the_correlation_of_the_mean_of_ranks(tmp_path):
    members = ('Counted', 'repetition')
    row = row_of(bench_of(tmp_path, plan=together(members, variant())), 'together')
    points = read_points(tmp_path, 'small')
    table = pd.DataFrame(points.scores, columns=members, dtype=float)
    # ranks of each scorer are over all that it scored
    means = ((table.rank() - 0.5) / table.count()).mean(axis=1, skipna=False)
    rho = stats.spearmanr(means, points.human['Overall'], nan_policy='omit').statistic
    assert row.value() == pytest.approx(rho)
    assert row.n == means.count() and row.dropped == means.isna().sum() > 0


def test_a_member_that_cannot_be_scored_is_the_reason(tmp_path):
    plan = together(('NoModel', 'length'), variant('NoModel'), variant())
    bench = bench_of(tmp_path, plan=plan)
    assert 'NoModel' in row_of(bench, 'together').reason


# === A user's own judged set ==========================================================

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
