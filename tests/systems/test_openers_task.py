"""
Openers through ParlAI: our task, ParlAI's own, and tasks that there are not.
"""

import pytest
from parlai.core.params import ParlaiParser
from parlai.core.teachers import create_task_agent_from_taskname

from parlai_ext.core import Opener
from parlai_ext.systems import task_data
from parlai_ext.systems.task_data import load_openers
from tests.support.user_error import error_line, user_error

pytestmark = pytest.mark.usefixtures('data_in_tmp_path')

# written for this test, in the manner of the official files: no quoting, candidates
# in a ninth cell of test rows
ROWS = """\
conv_id,utterance_idx,context,prompt,speaker_idx,utterance,selfeval,tags
hit:1_conv:2,1,proud,won,1,I won a race_comma_ the first in years,5,
hit:1_conv:2,2,proud,won,2,"Great" is too weak a word!,5,,"Great" is too weak a word!|x
hit:1_conv:2,3,proud,won,1,Thanks_comma_ I trained a lot,5,
hit:3_conv:4,1,lonely,alone,7,It is quiet here,5,
hit:5_conv:6,1,afraid,a noise,8,I heard a "bang",5,
hit:5_conv:6,2,afraid,a noise,9,What was it?,5,
"""
EXPECTED = [
    ('I won a race, the first in years', '"Great" is too weak a word!'),
    ('I heard a "bang"', 'What was it?'),
]


@pytest.fixture
def datapath(tmp_path, data_in_tmp_path):
    """
    Return the data folder, in which EmpatheticDialogues is built already.
    """
    folder = tmp_path / 'empatheticdialogues'
    (folder / 'empatheticdialogues').mkdir(parents=True)
    (folder / '.built').write_text('2022-01-01\n1.0')
    for split in ('test', 'train'):
        (folder / 'empatheticdialogues' / f'{split}.csv').write_text(ROWS)
    return str(tmp_path)


def teacher(task, **options):
    opt = ParlaiParser(True, False).parse_kwargs(task=task, **options)
    return create_task_agent_from_taskname(opt)[0]


@pytest.mark.parametrize(
    'task, split',
    [('empathetic_dialogues', 'test'), ('ext:empathetic_openers', 'train')],
)
def test_any_parlai_task_can_open_and_train_is_gone_through_once(datapath, task, split):
    assert [o.utterances for o in load_openers(task, split=split)] == EXPECTED


def test_a_file_and_the_download_give_the_same_openers(datapath, tmp_path, caplog):
    (tmp_path / 'mine.csv').write_text(ROWS)
    found = load_openers('ext:empathetic_openers', str(tmp_path / 'mine.csv'))
    assert 'hit:3_conv:4' in caplog.text  # an only utterance
    downloaded = load_openers('ext:empathetic_openers')
    assert [(o.id, o.reply) for o in found] == [(o.id, o.reply) for o in downloaded]
    name = 'ext:empathetic_openers hit:1_conv:2'
    assert found[0] == Opener.from_utterances(
        EXPECTED[0], name, 'Thanks, I trained a lot'
    )


def test_the_split_option_wins_over_the_datatype(datapath):
    found = teacher(
        'ext:empathetic_openers',
        datatype='valid',
        datapath=datapath,
        openers_split='test',
    )
    assert (found.num_episodes(), found.num_examples()) == (2, 2)
    assert found.act()['text'] == EXPECTED[0][0]


def test_the_shipped_openers_are_60_to_100_different_pairs(tmp_path):
    openers = load_openers('ext:everyday_openers')
    texts = [text for opener in openers for text in opener.utterances]
    assert 60 <= len(openers) <= 100
    assert len(set(texts)) == len(texts) == 2 * len(openers)
    assert not list(tmp_path.iterdir())  # nothing is downloaded


@pytest.mark.usefixtures('addresses_asked')
def test_offline_is_one_line_that_names_the_way_around(tmp_path):
    with user_error('--openers-file'):
        load_openers('ext:empathetic_openers')
    assert not list(tmp_path.rglob('*.tar.gz'))


@pytest.mark.parametrize(
    'task, words',
    [
        ('ext:smaltalk', "did you mean 'ext:smalltalk'?"),
        ('empathetic_dialogues:Foo', 'FooTeacher'),
        ('no_package.tasks.agents', 'no_package'),
        ('', 'the name of a task'),
        (__file__, f'--openers ext:empathetic_openers --openers-file {__file__}'),
    ],
)
def test_an_unknown_task_is_one_line(task, words):
    assert words in error_line(load_openers, task)


def test_a_file_for_a_task_that_reads_none_is_refused():
    with user_error('add --openers ext:empathetic_openers'):
        load_openers('ext:smalltalk', 'mine.csv')


def test_only_the_last_line_of_a_text_was_said(tmp_path):
    path = tmp_path / 'talk.txt'
    path.write_text(
        'text:your persona: I ski.\\nhello \tlabels:hi you\tepisode_done:True\n'
    )
    found = load_openers(f'fromfile:parlaiformat:fromfile_datapath={path}')
    assert [o.utterances for o in found] == [('hello', 'hi you')]


def test_a_task_that_goes_on_tells_what_the_first_speaker_says_next():
    found = load_openers('ext:smalltalk')[0]
    acts = teacher('ext:smalltalk', datatype='test')
    pairs = [acts.act(), acts.act()]
    assert found.utterances == (pairs[0]['text'], pairs[0]['eval_labels'][0])
    assert found.reply == pairs[1]['text']


def test_half_a_character_of_a_task_is_replaced():
    act = {'text': 'hello \ud83d', 'eval_labels': ['hi \udc00'], 'reply': 'so \ud83d'}
    [opener] = task_data._from_acts(iter([(act, None)]), 'task')
    assert opener.utterances == ('hello \ufffd', 'hi \ufffd')
    assert opener.reply == 'so \ufffd'
    assert load_openers('say:a \ud83d')[0].utterances == ('a \ufffd',)
