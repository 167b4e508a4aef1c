"""
`ext:judged`: what people said of turns and dialogues, and how a scorer agrees; in
`parlai eval_model` with folders, several tasks, batches, whole dialogues. Correlations
are ParlAI metrics: they merge, and say what scipy says. A set in a wheel is fetched.
"""

import functools
import json
import math
import operator

import numpy as np
import pytest
from parlai.core.loader import load_teacher_module
from parlai.core.metrics import aggregate_named_reports
from parlai.scripts.display_data import DisplayData
from parlai.scripts.eval_model import EvalModel

from parlai_ext.commands.run_bench import RunBench
from parlai_ext.data.judged import JudgedSet, card_names, quality_pairs, read_card
from parlai_ext.engines import DATA_FOLDER
from parlai_ext.files import Wheel
from parlai_ext.tasks.judged.agents import NUMBERS, CorrelationMetric, Point, metrics
from parlai_ext.tasks.judged.fetch import judged_place
from tests.ranking.test_ranking_agreement import SCIPY
from tests.support.judged_samples import changed_card, turn, written
from tests.support.repository import ROOT
from tests.support.shared_data import shared
from tests.support.user_error import user_error

pytest_plugins = ['tests.support.model_catalogue']
pytestmark = pytest.mark.usefixtures('registered')


def teacher_of(name, path):
    """
    Return the teacher of a judged set.
    """
    kind = load_teacher_module(f'ext:judged:{name}')
    return kind({'datatype': 'valid', 'judged_file': path})


def observed(teacher, *scores, **more):
    """
    Tell a teacher these scores of its items, and return it.
    """
    for one in scores:
        teacher.act()
        teacher.observe({'scores': one, **more})
    return teacher


@pytest.mark.parametrize('name', [n for n in card_names() if not read_card(n).wheel])
def test_every_card_is_a_task(name):
    # a task without its file names the option and the official source
    with user_error('--judged-path is needed: ') as caught:
        teacher_of(name, '')
    assert read_card(name).source in str(caught.value)
    with user_error(f"{name}x: no such set; did you mean '{name}'"):
        load_teacher_module(f'ext:judged:{name}x')


def test_a_card_of_ones_own_replaces_the_shipped(tmp_path):
    card = changed_card(tmp_path, 'fed_turn', 'level: turn', 'level: dialogue')
    raw = turn('User: a\nSystem: b', 'System: c', Wit=[1])
    del raw['response']
    kind = load_teacher_module('ext:judged:own')
    files = {'judged_file': written(tmp_path, raw), 'judged_card': card}
    assert kind({'datatype': 'valid', **files}).get(0)['text'] == 'b'


def test_an_agent_that_is_no_scorer_is_refused(tmp_path):
    path = written(tmp_path, turn('User: a', 'System: b', Wit=[1]))
    with user_error('RepeatQueryAgent is no scorer'):
        EvalModel.main(model='repeat_query', task='ext:judged', judged_file=path)


def test_items_can_be_displayed(tmp_path, printed):
    path = written(tmp_path, turn('User: a', 'System: what it said', Wit=[1]))
    DisplayData.main(task='ext:judged', judged_file=path)
    assert 'what it said' in printed()


def test_every_published_quality_is_asked():
    names = json.loads(shared('fed/followups_fed_2020.json').read_text())
    scores = dict.fromkeys([*names['turn'], *names['dialogue']], 0.0)
    for name in ('fed_turn', 'fed_dialogue'):
        judged_set = read_card(name).read(shared('fed/fed_data.json'))
        human = dict.fromkeys(judged_set.qualities, 1.0)
        pairs = quality_pairs(scores, human, judged_set)
        assert {pair.quality for pair in pairs} == set(human)


NAMES = {'fluency': 'Fluent', 'sensibleness': 'Coherent'}
SET = JudgedSet(
    'x', 'x', 'x', 'x', 'turn', (), overall='Overall', dimension_names=NAMES
)


def paired(scores, human):
    """
    Return row -> (quality, score, human value).
    """
    return {p.name: tuple(p)[1:] for p in quality_pairs(scores, human, SET)}


@pytest.mark.parametrize(
    'scores, human, rows',
    [
        # a row shows both names where they differ
        (
            {'Fluency': 1.0, 'Overall': 2.0},
            {'Fluent': 3, 'Overall': 4},
            {'Fluency ~ Fluent': ('Fluent', 1.0, 3), 'Overall': ('Overall', 2.0, 4)},
        ),
        # a quality of the same name comes before the card's other name
        (
            {'sensibleness': 0.5},
            {'Sensibleness': 1, 'Coherent': 2},
            {
                'Sensibleness': ('Sensibleness', 0.5, 1),
                'sensibleness ~ Coherent': ('Coherent', 0.5, 2),
            },
        ),
        # a missing score makes no mean; no dimension has a judged quality, so there is
        # no mean of these
        (
            {'a': 1.0, 'b': None},
            {'Overall': 4},
            {'Overall, mean of all': ('Overall', None, 4)},
        ),
    ],
)
def test_scores_are_compared_with_qualities(scores, human, rows):
    assert paired(scores, human) == rows


def test_overall_is_compared_with_means():
    rows = paired({'fluent': 1.0, 'depth': 5.0}, {'Fluent': 3, 'Overall': 4})
    assert rows['Overall, mean of all'] == ('Overall', 3.0, 4)
    assert rows['Overall, mean of level'] == ('Overall', 1.0, 4)


@pytest.mark.parametrize(
    'scores, row',
    [
        ({'Overall': 3.0, 'x': 1.0}, 'Overall ~ Wit'),
        ({'Relevance': 3.0}, 'Relevance ~ Wit'),
        ({'x': 2.0, 'y': 4.0}, 'mean of all ~ Wit'),
    ],
)
def test_the_main_score_judges_an_item_as_a_whole(scores, row):
    assert paired(scores, {'Wit': 5, 'Overall': 4})[row] == ('Wit', 3.0, 5)


def test_error_recovery_counts_what_people_said_in_words():
    teacher = teacher_of('fed_dialogue', shared('fed/fed_data.json'))
    numbers = range(teacher.num_examples())
    scores = [{'error recovery': float(i)} for i in numbers]
    report = observed(teacher, *scores).metrics.report()
    found = [report[f'Error recovery/{k}'].value() for k in ('n', 'dropped', 'strings')]
    # PROVENANCE: 154 strings, and one dialogue without any number
    assert found == [124, 1, 154]


def test_cut_contexts_are_counted_and_undefined_correlations_left_out(tmp_path):
    path = written(tmp_path, *(turn('User: a', 'System: b', Wit=[i]) for i in range(3)))
    teacher = teacher_of('fed_turn', path)
    for cut in (0, 9, 4):
        report = observed(teacher, {'Wit': 1.0}, num_truncated=cut).report()
    assert report['cut_contexts'].value() == 2
    assert 'Wit/spearman' not in report
    assert report['Wit/n'].value() == 3


def test_a_scorer_sees_references_and_no_judgements(tmp_path):
    raw = {'model': 'bot', 'context': 'hi\nyou?', 'response': 'yes', 'fact': 'x y'}
    raw |= {'reference': ['no'], 'annotations': {'Overall': [1, 5]}}
    seen = teacher_of('usr_persona', written(tmp_path, raw)).act()
    given = {'context': ['hi', 'you?'], 'text': 'yes', 'references': ['no']}
    assert {**given, 'facts': 'x y'}.items() <= seen.items()
    about = {'text', 'context', 'speaker', 'speakers', 'references', 'facts', 'persona'}
    about |= {'item', 'num_items', 'id', 'episode_done'}
    assert set(seen) <= about


def evaluated(**options):
    """
    Return the report of `eval_model` about a scorer: `length`, without a check.
    """
    given = {'scorer': 'length', 'check_sample': 0, **options}
    report = EvalModel.main(model='ext:scorer', **given)
    return {key: metric.value() for key, metric in report.items()}


@pytest.mark.parametrize('sample, n', [('200', 12), ('0', None)])
def test_the_judge_is_checked_on_the_judged_set(tmp_path, sample, n):
    items = [
        turn(f'User: a {i}', f'System: w{i} x{i} y{i} z{i}', Overall=[i % 3])
        for i in range(12)
    ]
    report = evaluated(
        task='ext:judged:fed_turn',
        judged_file=written(tmp_path, *items),
        check_sample=sample,
        batchsize=5,
    )
    row = 'Overall check, truncated (systems)'
    assert report.get(f'{row}/n') == n
    assert report.get(f'{row}/share') == (n and 1.0)


SYSTEMS = ('one', 'two', 'six')
LENGTHS = [k % 7 + 1 for k in range(30)]  # of the responses of a set
DSTC9 = 'ext:judged:dstc9_interactive'
RATINGS = [x for bot in range(1, 5) for x in (bot, 5 - bot // 2)]  # of dialogues


def item(k, **annotations):
    """
    Return the k-th response of a set in the organisers' format, k % 7 + 1 words long.
    """
    return {
        'context': f'what\nis number {k // 3} ?',
        'response': ' '.join(['word'] * (k % 7 + 1)),
        'reference': ['so'],
        'model': SYSTEMS[k % 3],
        'annotations': annotations,
    }


@pytest.fixture
def folder(tmp_path):
    """
    Return a folder with two sets and a set of dialogues in it.
    """
    deep = tmp_path / 'data' / 'deep'
    deep.mkdir(parents=True)
    usr = [item(k, Overall=[1 + k % 5], Natural=[1 + k % 3]) for k in range(30)]
    (deep / 'topical-usr_eval.json').write_text(json.dumps(usr))
    grade = [item(k, relevance=[1 + k * 3 % 5]) for k in range(30)]
    (deep.parent / 'convai2-grade_eval.json').write_text(json.dumps(grade))
    for bot in range(1, 5):
        contexts = (
            f'User: a b c\nSystem: {"w " * bot}\nUser: d\nSystem: x y\n',
            f'User: so\nSystem: {"w " * (9 - bot)}\n',
        )
        ratings = [
            {'context': context, 'human (overall)': rating}
            for context, rating in zip(contexts, (bot, 5 - bot // 2), strict=True)
        ]
        (deep / f'chatbot{bot}.json').write_text(json.dumps(ratings))
    return tmp_path / 'data'


def report_of(folder, task, **options):
    return evaluated(task=task, judged_path=folder, **options)


def correlations(report, row):
    return {name: report[f'{row}/{name}'] for name in SCIPY}


def expected(scores, human):
    return {
        name: pytest.approx(peer(scores, human).statistic, abs=1e-9)
        for name, peer in SCIPY.items()
    }


def test_batches_of_several_tasks_give_what_each_gives_alone(folder):
    tasks = ('ext:judged:usr_topical', 'ext:judged:grade_convai2')
    together = report_of(folder, ','.join(tasks), batchsize=7)
    for task, row, human in (
        (tasks[0], 'Overall', [1 + k % 5 for k in range(30)]),
        (tasks[0], 'Overall ~ Natural', [1 + k % 3 for k in range(30)]),
        (tasks[1], 'Overall ~ relevance', [1 + k * 3 % 5 for k in range(30)]),
    ):
        found = correlations(together, f'{task}/{row}')
        assert found == expected(LENGTHS, human)
        alone = report_of(folder, task)
        for number in ('spearman_low', 'spearman_high', 'n'):
            assert together[f'{task}/{row}/{number}'] == alone[f'{row}/{number}']


def test_a_scorer_of_turns_judges_a_dialogue_by_the_mean_or_its_last_turn(folder):
    report = report_of(folder, DSTC9, judged_turns='all')
    # a bot's turns: its number of words and 2; in the second dialogue 9 less it
    lengths = [x for bot in range(1, 5) for x in ((bot + 2) / 2, 9 - bot)]
    assert correlations(report, 'Overall') == expected(lengths, RATINGS)
    means = np.reshape([lengths, RATINGS], (2, 4, 2)).mean(axis=2)
    assert correlations(report, 'Overall, systems') == expected(*means)
    assert report['Overall, systems/n'] == 4
    report = report_of(folder, DSTC9, judged_turns='whole')
    lengths = [x for bot in range(1, 5) for x in (2, 9 - bot)]
    assert correlations(report, 'Overall') == expected(lengths, RATINGS)


def test_one_turn_of_a_dialogue_is_drawn(folder):
    dialogues = read_card('dstc9_interactive').read(folder).items
    drawn = [turn.response for one in dialogues for turn in one.turns(1)]
    report = report_of(folder, DSTC9, judged_turns='1', batchsize=3)
    lengths = [len(text.split()) for text in drawn]
    assert correlations(report, 'Overall') == expected(lengths, RATINGS)


def test_fed_sees_what_it_sees_in_a_bench(folder, tmp_path):
    judge = 'judge_model_file=zoo:mini/judge/model'
    report = report_of(folder, DSTC9, scorer='fed', scorer_option=[judge])
    bench = RunBench.main(
        scorers=[f'fed:{judge}'],
        turns=1,
        sets=['dstc9_interactive'],
        judged_path=folder,
        out=tmp_path / 'bench',
        bootstraps=10,
    )
    row = bench.main_rows(bench.scorers[0].label, 'dstc9_interactive', 'dialogue')[0]
    assert row.value('pearson') == pytest.approx(report['Overall/pearson'], abs=1e-4)


def test_one_file_for_several_tasks_is_refused(folder):
    tasks = 'ext:judged:usr_topical,ext:judged:grade_convai2'
    with user_error('--judged-path names a folder'):
        evaluated(task=tasks, judged_file=folder / 'convai2-grade_eval.json')


@pytest.mark.parametrize(
    'name, options, problem',
    [
        ('usr_topical', {'judged_turns': 'non'}, '--judged-turns non'),
        ('usr_persona', {}, '--judged-path .*data: .*persona-usr_eval'),
    ],
)
def test_other_words_for_turns_and_a_set_that_is_not_there_are_refused(
    folder, name, options, problem
):
    kind = load_teacher_module(f'ext:judged:{name}')
    with user_error(problem):
        kind({'datatype': 'valid', 'judged_path': folder, **options})


# --- correlations as metrics ----------------------------------------------------------

RNG = np.random.default_rng(0)


def points_of(name='set'):
    """
    Return points of three systems over ten contexts, with ties.
    """
    return [
        Point(name, k, f'bot {k % 3}', f'd{k // 6}', k // 3, score, human)
        for k, (score, human) in enumerate(RNG.integers(0, 9, (30, 2)).astype(float))
    ]


POINTS = points_of()


def total(points, number='spearman', level='item'):
    """
    Return the sum of the metrics of single points.
    """
    metrics = (CorrelationMetric(number, level, [point]) for point in points)
    return functools.reduce(operator.add, metrics)


@pytest.mark.parametrize('level', ['item', 'dialogue', 'system'])
@pytest.mark.parametrize('number', NUMBERS)
def test_the_sum_of_two_parts_is_the_metric_of_all(number, level):
    whole = CorrelationMetric(number, level, POINTS).value()
    for cut in (1, 11, 29):
        parts = (POINTS[:cut], POINTS[cut:])
        first, second = (total(part, number, level) for part in parts)
        # in both orders: batches need not come in the order of the file
        for one in (first + second, second + first):
            assert one.value() == pytest.approx(whole, abs=0, nan_ok=True)


def test_dialogues_are_compared_by_their_means():
    # (1 + 3) / 2, 5, 1 against (2 + 6) / 2, 4.5, 0
    values = [('a', 1.0, 2.0), ('b', 5.0, 4.5), ('a', 3.0, 6.0), ('c', 1.0, 0.0)]
    points = [
        Point('set', k, 'bot', name, k, *both) for k, (name, *both) in enumerate(values)
    ]
    expected = SCIPY['pearson']([2, 5, 1], [4, 4.5, 0]).statistic
    assert total(points, 'pearson', 'dialogue').value() == pytest.approx(expected)
    assert total(points, 'n', 'dialogue').value() == 3


def test_intervals_draw_contexts_not_responses():
    # two copies of each response in its context add nothing
    twice = [p._replace(item=2 * p.item + copy) for p in POINTS for copy in (0, 1)]
    ends = [
        [total(points, f'spearman_{end}').value() for end in ('low', 'high')]
        for points in (POINTS, twice)
    ]
    assert ends[0] == pytest.approx(ends[1], abs=1e-12)


def test_sets_are_averaged_not_pooled():
    sets = {'a': POINTS, 'b': points_of('other')}
    report = aggregate_named_reports({k: metrics('Wit', v, 0) for k, v in sets.items()})
    one, other = (report[f'{name}/Wit/spearman'].value() for name in sets)
    assert one != other
    assert report['Wit/spearman'].value() == pytest.approx((one + other) / 2)
    assert math.isnan(report['Wit/spearman_low'].value())
    assert report['Wit/n'].value() == 60


# A judged set in a wheel is fetched as data, by its checksum, or it is not there.

CARD = ROOT / 'zoo_configs' / 'judged' / 'chitchat.yaml'
MESSAGES = [[{'text': c, 'sender': f'person {i % 2}'}] for i, c in enumerate('abcd')]
CHATS = {'kept': {'messages': MESSAGES, 'ratings': {'witty': 7, 'upbeat': 5}}}


@pytest.fixture
def card(catalogue, tmp_path, monkeypatch):
    """
    Return the card of the chats with a wheel that the index has; no data are here yet.
    """
    monkeypatch.setenv(DATA_FOLDER, str(tmp_path / 'data'))
    members = {'chitchat_dataset/dataset.json': json.dumps(CHATS).encode()}
    entry = catalogue.wheel('tiny-chats', members)
    return shipped_card(Wheel(**entry))


def shipped_card(wheel):
    """
    Return the shipped card with another wheel, also where the catalogue of a test
    stands in its place.
    """
    return read_card(str(CARD)).model_copy(update={'wheel': wheel})


def test_the_wheel_is_the_set(card, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = judged_place(card, None)
    assert [item.id for item in card.read(path).items] == ['kept']
    assert not (tmp_path / 'imported').exists()  # the package's code did not run
    assert judged_place(card, None) == path


def test_another_wheel_is_refused(card, tmp_path):
    other = shipped_card(card.wheel.model_copy(update={'sha256': '0' * 64}))
    with user_error('chitchat is not here .*HASHES'):
        judged_place(other, None)
    assert not any((tmp_path / 'data').rglob('*.whl'))
