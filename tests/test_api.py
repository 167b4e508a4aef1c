"""
The Python interface: `import parlai_ext` and its functions.
"""

from dataclasses import replace

import numpy
import pandas
import pytest

import parlai_ext
from parlai_ext.commands.import_dialogues import ImportDialogues
from parlai_ext.core import Dialogue, Utterance
from parlai_ext.scoring.base import ItemScore, Scorer
from tests.support.run_python import run_python
from tests.support.small_run import SMALL, small_config
from tests.support.user_error import user_error
from tests.support.written import written

JUDGE = {'judge_model_file': 'zoo:mini/judge/model', 'no_cuda': True}


class WordCount(Scorer):
    """
    The number of words of a response, and of its context.
    """

    name = 'words'
    dimensions = ('Words', 'Before')

    def score(self, items):
        return [
            ItemScore(
                {
                    'Words': len(item.response.split()),
                    'Before': sum(len(text.split()) for text in item.context) or None,
                },
                {'Before': 'no context'},
            )
            for item in items
        ]


@pytest.fixture(scope='module')
def run(module_folder):
    config = small_config(module_folder)
    return parlai_ext.evaluate(config, module_folder / 'run', no_cuda=True, **SMALL)


def test_the_import_is_light_and_every_member_is_there():
    code = 'import sys, parlai_ext; print(*sys.modules); print(*dir(parlai_ext))'
    told = run_python(code, check=True).stdout
    modules, members = map(str.split, told.strip().split('\n'))
    assert not {'torch', 'parlai', 'numpy', 'pandas', 'parlai_ext.api'} & set(modules)
    assert set(parlai_ext.__all__) <= set(members)
    assert all(getattr(parlai_ext, name).__doc__ for name in parlai_ext.__all__)


@pytest.mark.parametrize(
    'dialogues',
    [
        ['a b', 'c', 'd e f'],
        [('A', 'a b'), ('B', 'c'), ('A', 'd e f')],
        [['a b', 'c', 'd e f']],
        [{'text': 'a b'}, {'text': 'c'}, {'text': 'd e f', 'speaker': 'A'}],
        pandas.DataFrame({'text': ['a b', 'c', 'd e f'], 'speaker': ['A', 'B', None]}),
        Dialogue(
            '0',
            '',
            '',
            tuple(map(Utterance, 'ABA', ('a b', 'c', 'd e f'))),
        ),
    ],
)
def test_every_form_of_a_dialogue_has_the_same_scores(dialogues):
    frame = parlai_ext.score(dialogues, WordCount)
    assert list(frame.dialogue_id) == ['0', '0', '0']
    assert list(frame.utterance_index) == [0, 1, 2]
    assert list(frame.speaker) == ['A', 'B', 'A']
    assert list(frame.Words) == [2, 1, 3]
    assert list(frame.Before.fillna(-1)) == [-1, 2, 3]
    assert frame.reason[0] == 'no context' and frame.reason.isna()[1]


REFERENCES = ['no', 'no, it is warm']


@pytest.mark.parametrize(
    'none, references',
    # the second as files of parquet hold them
    [({}, REFERENCES), ({'reference': None}, numpy.array(REFERENCES))],
)
def test_references_of_turns_reach_the_scorer(none, references):
    turns = [
        {'text': 'hi', 'given': True, **none},
        {'text': 'it is warm', 'reference': references},
    ]
    # 3 words of 4: precision 1, recall 3/4
    for dialogue in (turns, pandas.DataFrame(turns)):
        [value] = parlai_ext.score(dialogue, 'rouge_l')['Overall']
        assert value == pytest.approx(6 / 7)
    turns[1]['reference'] = 7
    with user_error(r'dialogues\[1\]: reference'):
        parlai_ext.score(turns, 'rouge_l')


def test_a_speaker_may_be_a_number_or_unnamed():
    turns = [(1, 'hi'), (2, 'hello'), {'speaker': None, 'text': 'well'}]
    for speakers in (2, [2], '2', numpy.array([2])):
        assert list(parlai_ext.score(turns, WordCount, speakers=speakers).text) == [
            'hello'
        ]
    assert list(parlai_ext.score(turns, WordCount).speaker) == ['1', '2', 'A']


def test_given_turns_and_other_speakers_are_context_only():
    turns = [{'text': 'a b', 'given': True}, {'text': 'c'}, {'text': 'd e'}, 'f']
    frame = parlai_ext.score(turns, WordCount, speakers=['B'])
    assert list(frame.utterance_index) == [1, 3]
    assert list(frame.Before) == [2, 5]


CHAT = [
    {'role': role, 'content': text}
    for role, text in (
        ('system', 'be kind'),
        ('user', 'a b'),
        ('assistant', [{'type': 'text', 'text': 'c d e'}]),
    )
]


def test_of_a_chat_the_assistant_is_judged_unless_others_are_named():
    # that it is judged is below
    frame = parlai_ext.score(CHAT, WordCount, speakers=['user', 'assistant'])
    assert list(frame.speaker) == ['user', 'assistant']
    assert list(frame.Words)[-1] == 3 and list(frame.Before)[-1] == 2


@pytest.mark.parametrize('person', ['user', 'Human'])
def test_a_chat_is_judged_as_its_import_is(person, tmp_path):
    chat = [CHAT[0], {**CHAT[1], 'role': person}, CHAT[2]]
    log = written(tmp_path, 'c.jsonl', {'messages': chat})
    ImportDialogues.main(dialogues=[log], run_dir=tmp_path / 'run')
    [dialogue] = parlai_ext.load_run(tmp_path / 'run').dialogues
    frames = [parlai_ext.score(one, WordCount) for one in (chat, dialogue)]
    assert [list(frame.text) for frame in frames] == [['c d e']] * 2


def test_a_speaker_who_is_not_there_is_named():
    with user_error("speakers: .*'asistant'; did you mean 'assistant'"):
        parlai_ext.score(CHAT, WordCount, speakers=['asistant'])
    frame = parlai_ext.score([], WordCount, speakers=['assistant'])
    assert len(frame) == 0 and 'Words' in frame.columns


@pytest.mark.parametrize(
    'scorer, options, problem',
    [
        (WordCount, {'batchsize': -3}, 'batchsize: '),
        (3, {}, 'scorer: .*not 3'),
        (object.__new__(WordCount), {}, '__init__'),  # which did not call super's
    ],
)
def test_a_wrong_scorer_or_machine_is_named(scorer, options, problem):
    with user_error(problem):
        parlai_ext.score(CHAT, scorer, **options)


@pytest.mark.parametrize(
    'given',
    [{'skip_missing': 'false'}, {'check_sample': -1}, {'add_target': 'mine=model'}],
)
def test_an_option_of_the_wrong_kind_is_named(given, tmp_path):
    [name] = given
    with user_error(f'--{name.replace("_", "-")}: '):
        parlai_ext.evaluate('demo', tmp_path, **given)


def test_a_list_of_paths_is_one_of_texts(tmp_path):
    (path := tmp_path / 'mine.yaml').write_text(
        'name: mine\nopt: {model_file: nowhere}\n'
    )
    with user_error('no file nowhere'):
        parlai_ext.evaluate('demo', tmp_path / 'run', add_target=[path])


@pytest.mark.parametrize(
    'dialogues, place',
    [
        ('hello', 'dialogues'),
        ([['a', 'b'], ['c', 3]], r'dialogues\[1\]\[1\]'),
        ([['a', 'b'], 'c'], r'dialogues\[1\]'),
        (pandas.DataFrame({'txt': ['a']}), "'txt'"),
        ([{'role': 'user', 'content': None}], r"dialogues\[0\]: 'content'"),
        ([{'rol': 'user', 'content': 'a'}], r'dialogues\[0\]: `role` is missing'),
        ([{'text': 'a', 'given': 'False'}, 'b'], r"\[0\]: given: .*'False'"),
        (pandas.DataFrame({'dialogue_id': [0, None], 'text': ['a', 'b']}), 'empty'),
        (pandas.DataFrame({'text': ['a']}, pandas.Index([0], name='speaker')), 'index'),
        ([{'text': 'a', 'Speaker': 'bot'}], "'Speaker'; did you mean 'speaker'"),
        (pandas.DataFrame({'text': ['a'], 'dialog_id': ['0']}), "mean 'dialogue_id'"),
    ],
)
def test_a_turn_that_cannot_be_read_is_named(dialogues, place):
    with user_error(place):
        parlai_ext.score(dialogues, WordCount)


def test_other_keys_of_a_turn_are_passed_over():
    turn = {'text': 'a b', 'speaker': 'bot', 'speaker_id': 7, 'emotion': 'joy'}
    for given in ([turn], pandas.DataFrame([turn])):
        assert list(parlai_ext.score(given, WordCount).Words) == [2]
    parlai_ext.score([{'role': 'bot', 'content': 'a', 'refusal': None}], WordCount)


@pytest.mark.parametrize(
    'function, arguments, nearest',
    [
        ('evaluate', {'config': 'demo', 'run_dir': 'x', 'dry_run': 1}, 'dry_run'),
        ('rank', {'run': 'x', 'bootstrap': 1}, "'bootstraps'"),
        ('load_run', {'pat': 'x'}, "'path'"),
        ('score', {'dialogues': [], 'judge_model': 1}, "'judge_model_file'"),
    ],
)
def test_a_wrong_argument_gets_the_nearest_right_one(function, arguments, nearest):
    with pytest.raises(TypeError, match=nearest):
        getattr(parlai_ext, function)(**arguments)


def test_nothing_is_printed_unless_asked(run, capfd):
    parlai_ext.evaluate(run.path.parent / 'small.yaml', run.path, **SMALL)
    parlai_ext.score(['hi'], 'fed', **JUDGE)
    assert capfd.readouterr() == ('', '')
    parlai_ext.rank(run, bootstraps=50, verbose=True)
    assert 'Overall' in capfd.readouterr().out


def test_scores_of_a_runs_dialogues_are_those_of_the_run(run):
    targets = list(run.to_pandas('ranking').system.unique())
    frame = parlai_ext.score(run.dialogues, 'fed', **JUDGE, speakers=targets)
    pandas.testing.assert_frame_equal(frame, run.scores, check_dtype=False, rtol=1e-5)


def test_the_table_of_dialogues_can_be_scored_again(run):
    table = run.to_pandas('dialogues')
    assert len(table) == sum(len(one.utterances) for one in run.dialogues)
    scores = parlai_ext.score(table, WordCount)
    assert len(scores) == (~table.given).sum()


def test_rank_returns_what_the_run_then_holds(run):
    ranking = parlai_ext.rank(run.path, bootstraps=numpy.int64(60))
    assert ranking == run.ranking == parlai_ext.load_run(run.path).ranking


def test_an_unknown_table_gets_the_nearest_name(run):
    with user_error("'scores'"):
        run.to_pandas('score')
    with user_error('table: None; known: dialogues, '):
        run.to_pandas(None)


def test_a_plot_is_that_of_the_runs_ranking(run):
    (axes,) = parlai_ext.plot(run).axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    leaders = run.to_pandas().query('dimension == "Overall"')
    assert names == list(leaders.system)


def test_a_plot_of_a_folder_is_refused(run):
    with user_error('plot: a ranking or a run'):
        parlai_ext.plot(run.path)


def test_a_plot_takes_any_name_as_plain_text(run):
    [first, *others] = run.ranking.standings['Overall']
    odd = replace(first, system='$\\x$' + 40 * 'y')
    ranking = replace(run.ranking, standings={'Overall': (odd, *others)})
    figure = parlai_ext.plot(ranking)
    figure.canvas.draw()  # would read \x as a formula
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert '$\\x$' + 29 * 'y' + '…' in names


def test_a_scorer_is_checked_on_dialogues_without_a_run():
    # eight dialogues of a plain bot: the length of a reply is blind for word order
    talks = [
        [('man', f'tell me of {n}'), ('bot', f'well {n} is a thing that I like {n}')]
        for n in ('tea', 'rain', 'bread', 'trams', 'moths', 'chess', 'glue', 'jazz')
    ] * 2
    check = parlai_ext.check_judge(talks, WordCount, speakers=['bot'])
    kinds = {kind.kind: kind.share for kind in check.dimensions['Words'].kinds}
    assert check.n_responses == 16
    assert (kinds['shuffled_words'], kinds['truncated']) == (0.5, 1.0)


@pytest.mark.parametrize('sample', [0, '12'])
def test_a_check_of_no_responses_is_refused(sample):
    with user_error('sample: a whole number from 1'):
        parlai_ext.check_judge(CHAT, WordCount, sample=sample)
