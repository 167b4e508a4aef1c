"""
`parlai eval_model` on judged sets: folders, several tasks, batches, whole dialogues.
"""

import json
from itertools import product

import pytest
from parlai.core.loader import load_teacher_module
from parlai.scripts.eval_model import EvalModel
from scipy import stats

from parlai_ext.commands import plugin
from parlai_ext.commands.run_bench import RunBench
from tests.support.user_error import user_error

SYSTEMS = ('one', 'two', 'six')
LENGTHS = [k % 7 + 1 for k in range(30)]  # of the responses of a set
DSTC9 = 'ext:judged:dstc9_interactive'
RATINGS = [x for bot in range(1, 5) for x in (bot, 5 - bot // 2)]  # of dialogues
PEERS = {
    'pearson': stats.pearsonr,
    'spearman': stats.spearmanr,
    'kendall': stats.kendalltau,
}


@pytest.fixture(autouse=True)
def registered():
    plugin.register()


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
        ratings = [
            {
                'context': f'User: a b c\nSystem: {"w " * bot}\nUser: d\nSystem: x y\n',
                'human (overall)': rating,
            }
            for rating in (bot, 5 - bot // 2)
        ]
        ratings[1]['context'] = f'User: so\nSystem: {"w " * (9 - bot)}\n'
        (deep / f'chatbot{bot}.json').write_text(json.dumps(ratings))
    return tmp_path / 'data'


def report_of(folder, task, **options):
    report = EvalModel.main(
        model='ext:scorer',
        scorer='length',
        task=task,
        judged_path=str(folder),
        check_sample=0,
        **options,
    )
    return {key: metric.value() for key, metric in report.items()}


def correlations(report, row):
    return {name: report[f'{row}/{name}'] for name in PEERS}


def expected(scores, human):
    return {
        name: pytest.approx(peer(scores, human).statistic, abs=1e-9)
        for name, peer in PEERS.items()
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


def test_a_scorer_of_turns_judges_a_dialogue_by_the_mean(folder):
    report = report_of(folder, DSTC9, judged_turns='all')
    # a bot's turns: its number of words and 2; in the second dialogue 9 less it
    lengths = [x for bot in range(1, 5) for x in ((bot + 2) / 2, 9 - bot)]
    assert correlations(report, 'Overall') == expected(lengths, RATINGS)
    sides = (lengths, RATINGS)
    means = [[sum(s[k : k + 2]) / 2 for k in range(0, 8, 2)] for s in sides]
    assert correlations(report, 'Overall, systems') == expected(*means)
    assert report['Overall, systems/n'] == 4


def test_a_whole_dialogue_is_judged_by_its_last_turn(folder):
    report = report_of(folder, DSTC9, judged_turns='whole')
    lengths = [x for bot in range(1, 5) for x in (2, 9 - bot)]
    assert correlations(report, 'Overall') == expected(lengths, RATINGS)


def test_one_turn_of_a_dialogue_is_drawn(folder):
    report = report_of(folder, DSTC9, judged_turns='1')
    # of two turns, of so many words as the bot's number and of two, either one
    either = product(*((bot, 2) for bot in range(1, 5)))
    drawn = [
        [x for bot, first in enumerate(firsts, 1) for x in (first, 9 - bot)]
        for firsts in either
    ]
    found = correlations(report, 'Overall')
    assert found in [expected(lengths, RATINGS) for lengths in drawn]
    again = report_of(folder, DSTC9, judged_turns='1', batchsize=3)
    assert again['Overall/pearson'] == report['Overall/pearson']


def test_fed_sees_what_it_sees_in_a_bench(folder, tmp_path):
    judge = 'zoo:mini/judge/model'
    report = EvalModel.main(
        model='ext:scorer',
        scorer='fed',
        scorer_option=[f'judge_model_file={judge}'],
        task=DSTC9,
        judged_path=str(folder),
        check_sample=0,
    )
    bench = RunBench.main(
        '--scorers',
        f'fed:judge_model_file={judge}',
        '--turns',
        '1',
        '--sets',
        'dstc9_interactive',
        '--judged-path',
        str(folder),
        '--out',
        str(tmp_path / 'bench'),
        '--bootstraps',
        '10',
    )
    row = bench.main_rows(bench.scorers[0].label, 'dstc9_interactive', 'dialogue')[0]
    of_command = report['Overall/pearson'].value()
    assert row.value('pearson') == pytest.approx(of_command, abs=1e-4)


def test_one_file_for_several_tasks_is_refused(folder):
    with user_error('--judged-path names a folder'):
        EvalModel.main(
            model='ext:scorer',
            scorer='length',
            task='ext:judged:usr_topical,ext:judged:grade_convai2',
            judged_file=str(folder / 'convai2-grade_eval.json'),
        )


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
        kind({'datatype': 'valid', 'judged_path': str(folder), **options})
