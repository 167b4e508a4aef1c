"""
What a task of ParlAI gives: candidates and openers.

What a retriever may say: every label of a task, collected once, never stale.
"""

import json
from types import SimpleNamespace

import pytest
from parlai.core.params import ParlaiParser
from parlai.core.teachers import create_task_agent_from_taskname

from parlai_ext.compat import prepare_parlai
from parlai_ext.core import Opener, System
from parlai_ext.systems import task_data
from parlai_ext.systems.identity import candidates_hash, identity, resolve
from parlai_ext.systems.task_data import (
    candidates_file,
    load_openers,
    parse_spec,
    to_download,
)
from tests.support.store_samples import write_files
from tests.support.talk import loaded
from tests.support.user_error import error_line, user_error
from tests.support.written import json_in

pytestmark = pytest.mark.usefixtures('data_in_tmp_path')

TASK = 'ext:smalltalk:smalltalk_dialogues=3'
SMALLTALK = f'task:{TASK}'


@pytest.fixture
def talk(tmp_path):
    """
    Return a writer of one dialogue's lines, which returns the spec of their task.
    """
    path = tmp_path / 'talk.jsonl'

    def write(*lines):
        acts = [{'id': 'ab'[i % 2], 'text': line} for i, line in enumerate(lines)]
        turns = [acts[i : i + 2] for i in range(0, len(acts), 2)]
        path.write_text(json.dumps({'dialog': turns}) + '\n')
        return f'task:jsonfile:jsonfile_datapath={path}:label_turns=secondspeaker'

    return write


def lines_of(path):
    text = path.read_text(encoding='utf-8')
    assert text.endswith('\n')
    return text.removesuffix('\n').split('\n')


def test_candidates_are_the_labels_that_parlais_own_script_finds(tmp_path):
    from parlai.scripts.build_candidates import BuildCandidates

    prepare_parlai()
    theirs = tmp_path / 'theirs.txt'
    BuildCandidates.main(task=TASK, outfile=str(theirs))
    ours = lines_of(candidates_file(SMALLTALK))
    assert set(ours) == set(theirs.read_text(encoding='utf-8').split('\n'))
    assert ours == sorted(set(ours))


@pytest.mark.parametrize(
    'label, line',
    [('one\r\ntwo', 'one two'), ('one\u2028\u00e4 ', 'one \u00e4')],
)
def test_a_label_is_one_line(talk, label, line):
    assert lines_of(candidates_file(talk('hi', label))) == [line]


@pytest.mark.parametrize(
    'spec, task, datatype',
    [
        ('task:convai2:normalized@valid', 'convai2:normalized', 'valid'),
        *((f'task:a,b{how}', 'a,b', 'train:evalmode') for how in ('', '@train')),
    ],
)
def test_a_spec_names_task_and_datatype(spec, task, datatype):
    assert parse_spec(spec) == (task, datatype)  # which name the file


@pytest.mark.parametrize('spec', ['task:@valid', 'task:a@all', 'task:a@train:x'])
def test_a_spec_that_cannot_be_meant_is_refused(spec):
    with user_error('task:TASK'):
        parse_spec(spec)


def test_changed_data_make_another_file_and_another_system(talk):
    spec = talk('hi', 'yes')
    system = System('A', {'model': 'ir_baseline', 'fixed_candidates_path': spec})
    before = identity(system), candidates_hash(system)
    talk('hi', 'no!')
    assert lines_of(candidates_file(spec)) == ['no!']
    after = identity(system), candidates_hash(system)
    assert before[0] != after[0] and before[1] != after[1]


def test_a_task_that_reads_no_file_is_asked_anew(monkeypatch):
    before = lines_of(candidates_file(SMALLTALK))
    from parlai_ext.tasks.smalltalk import agents

    def other_talk(*about):
        return [SimpleNamespace(text=text) for text in ('hi', 'another')]

    monkeypatch.setattr(agents, 'make_dialogue', other_talk)
    assert lines_of(candidates_file(SMALLTALK)) == ['another'] != before


@pytest.mark.parametrize(
    'ending, left',
    [
        ('.txt', 'a'),
        *(('.json', note) for note in ('', '[]', '{"sha256": 3, "data": 4}', None)),
    ],
)
def test_a_file_that_is_not_whole_or_without_a_good_note_is_made_again(
    talk, ending, left
):
    spec = talk('hi', 'a', 'so?', 'yes')
    path = candidates_file(spec).with_suffix(ending)
    path.unlink() if left is None else path.write_text(left)
    if ending == '.json':
        path.with_suffix('.txt').write_text('from elsewhere\n')
    assert lines_of(candidates_file(spec)) == ['a', 'yes']


def test_data_that_is_gone_since_are_not_fetched_again(talk, tmp_path):
    spec = talk('hi', 'yes')
    made = candidates_file(spec)
    (tmp_path / 'talk.jsonl').unlink()
    assert candidates_file(spec) == made


def test_a_task_without_replies_is_refused(talk):
    spec = talk('hi', ' ')
    with user_error('has no replies'):
        candidates_file(spec)


def test_an_unknown_task_names_the_nearest():
    opt = {'model': 'ir_baseline', 'fixed_candidates_path': 'task:convai3'}
    system = System('A', opt)
    line = "fixed_candidates_path: no task 'convai3'; did you mean 'convai2'"
    assert resolve(system).reason.startswith(line)
    with user_error(f"system 'A': {line}"):
        identity(system)


@pytest.mark.usefixtures('addresses_asked')
def test_data_that_cannot_be_had_is_one_line(tmp_path):
    with user_error("data of task 'convai2' cannot be had"):
        candidates_file('task:convai2')
    assert not (tmp_path / 'parlai_ext').exists()


def test_the_data_of_the_papers_tasks_are_known_and_need_no_network(tmp_path):
    # where ParlAI's own build would have put them
    said = b'1 hi\ti like tea .\t\ti like tea .|no\n'
    files = {'train_self_original.txt': said, '.built': b'2022-01-01\nv5.0'}
    write_files(tmp_path / 'ConvAI2', files)
    task = 'task:convai2:normalized'
    assert to_download(task) == []
    path = candidates_file(task)
    assert lines_of(path) == ['I like tea.']
    # known, so that the file need not be made again
    assert json_in(path.with_suffix('.json'))['sources']


def test_a_retriever_says_what_is_in_the_file():
    opt = {
        'model_file': 'zoo:mini/retrieval/model',
        'model': 'transformer/polyencoder',
        'fixed_candidates_path': SMALLTALK,
    }
    player = loaded(**opt, no_cuda=True)
    lines = lines_of(candidates_file(SMALLTALK))
    assert player.agent.fixed_candidates == lines
    assert len(lines) < 50  # three dialogues, not the task's thousand


# ---- Openers through ParlAI: our task, ParlAI's own, and tasks that there are not.

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
