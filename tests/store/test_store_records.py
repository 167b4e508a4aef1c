"""
What is written can be read again: by us exactly, and by ParlAI's own readers.
"""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parlai.tasks.jsonfile.agents import DefaultTeacher
from parlai.utils.conversations import Conversations

from parlai_ext.core import ScoredDialogue, Utterance
from parlai_ext.core.records import WrongType
from parlai_ext.store.lines import decode, encode
from tests.support.store_samples import (
    SIGNATURE,
    files_under,
    first_shard,
    sample_dialogue,
    sample_manifest,
    sample_run,
    sample_scores,
)

HARD_TEXTS = {
    'next line': 'a\x85b',
    'line separators': 'a\u2028b\u2029c',
    'newlines': 'a\nb\r\nc\rd\x0b\x0c\x1c\x1d\x1e',
    'nul': 'a\0b',
    'right to left': 'שלום\u202e \u200fabc',
    'emoji': '\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1e9',
    'lone high surrogate': 'a\ud83d',
    'lone low surrogate': '\ude00\ud83d b',
    'not normalised': 'e\u0301 \u00e9 \ufeff',
    'json inside': '{"text": "\\u2028\\\\n"}',
    'empty': '',
}


@pytest.fixture
def run(tmp_path):
    return sample_run(tmp_path / 'run')


def said(run, text, **changes):
    """
    Return the first shard's dialogues, their last utterance being ``text``.
    """
    pairing = run.pairings[0]
    dialogues = [sample_dialogue(pairing, opener) for opener in run.openers[:2]]
    last = Utterance(pairing.first, text)
    return [
        replace(one, utterances=one.utterances[:-1] + (last,), **changes)
        for one in dialogues
    ]


def write(run, text='fine', **changes):
    """
    Write the first shard's dialogues, and return them.
    """
    dialogues = said(run, text, **changes)
    run.write_dialogues(first_shard(run), dialogues)
    return dialogues


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_comes_back_surrogate_pairs_as_their_character(text):
    # two lone surrogates that form a pair are one character in JSON, as in UTF-16
    joined = text.encode('utf-16', 'surrogatepass').decode('utf-16', 'surrogatepass')
    assert decode(encode({'text': text}).encode()) == {'text': joined}


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_number_comes_back_bit_for_bit(value):
    assert decode(encode({'value': value}).encode())['value'].hex() == value.hex()


def test_a_score_that_is_no_number_is_refused_and_nothing_is_written(run):
    scored = [sample_scores(one) for one in write(run)]
    before = files_under(run.root)
    score = replace(scored[1].scores[0], value=math.inf)
    scored[1] = replace(scored[1], scores=(score,))
    with pytest.raises(ValueError):
        run.scores(SIGNATURE).write(first_shard(run), scored)
    assert files_under(run.root) == before


def test_scores_come_back_as_they_were(run):
    scored = [sample_scores(one) for one in write(run)]
    run.scores(SIGNATURE).write(first_shard(run), scored)
    assert run.scores(SIGNATURE).read(first_shard(run)) == scored


def test_a_shard_that_is_there_is_never_changed(run):
    write(run, 'first')
    before = files_under(run.root)
    with pytest.raises(ValueError, match='with other dialogues'):
        write(run, 'second')
    assert files_under(run.root) == before


def test_records_of_another_place_are_refused(run):
    first, dialogues = first_shard(run), said(run, 'fine')
    elsewhere = run.shard(run.pairings[1].id, 0)
    for place in ((first, dialogues[::-1]), (first, []), (elsewhere, dialogues)):
        with pytest.raises(ValueError, match='no dialogues of'):
            run.write_dialogues(*place)
    write(run)
    with pytest.raises(ValueError, match='other dialogues'):
        run.scores(SIGNATURE).write(first, [ScoredDialogue('x', ())] * 2)


@pytest.mark.parametrize('name', ['../outside', '/tmp/outside', 'a/../../b', ''])
def test_no_file_is_written_outside_the_run_folder(run, name):
    with pytest.raises(ValueError, match='within the run folder'):
        run.write_text(name, 'text')


def test_a_pairing_id_that_is_a_path_is_refused(tmp_path):
    manifest = sample_manifest()
    outside = replace(manifest.pairings[0], id='../../x')
    with pytest.raises(WrongType, match='cannot be a pairing id'):
        manifest.changed(pairings=[outside, *manifest.pairings[1:]])


def test_json_of_the_run_keeps_the_order_of_its_keys(run):
    data = {'schema': 1, 'b': [0.1], 'a': '\u2028ü'}
    run.write_json('deep/er/ranking.json', data)
    read = run.read_json('deep/er/ranking.json')
    assert list(read.items()) == list(data.items())


def test_text_of_the_run_is_utf8_even_with_lone_surrogates(run):
    run.write_text('report.html', 'ü\r\n\ud83d')
    assert (run.root / 'report.html').read_bytes() == b'\xc3\xbc\r\n\\ud83d'


# -- ParlAI's own readers


@pytest.mark.parametrize('text', HARD_TEXTS.values(), ids=HARD_TEXTS)
def test_we_and_parlai_read_hard_texts_as_they_were(run, text):
    dialogues = write(run, text, ended_by='a', reason=f'said {text}')
    assert run.read_dialogues(first_shard(run)) == dialogues
    # it sees one line a dialogue, wherever `str.splitlines` ends one
    read = Conversations(str(run.dialogues_path(first_shard(run))))
    assert [[(turn.id, turn.text) for turn in one.turns] for one in read] == [
        [(act.speaker, act.text) for act in one.utterances] for one in dialogues
    ]


def test_parlai_reads_our_metadata(run):
    write(run)
    metadata = Conversations(str(next(run.root.rglob('00000.jsonl')))).metadata
    assert metadata.speakers == ['a', 'p1']
    assert metadata.opt == run.manifest.settings()
    assert metadata.self_chat is False
    assert 'seed: 0' in metadata.read()


def test_parlais_jsonfile_task_reads_our_dialogues(run):
    write(run, 'bye\u2028')
    opt = {
        'task': 'jsonfile',
        'datatype': 'valid',
        'label_turns': 'secondspeaker',
        'jsonfile_datapath': str(next(run.root.rglob('00000.jsonl'))),
        'jsonfile_datatype_extension': False,
    }
    teacher = DefaultTeacher(opt)
    # five utterances: the second and the fourth are the second speaker's
    assert (teacher.num_episodes(), teacher.num_examples()) == (2, 4)
    opener = run.openers[0]
    assert teacher.get(0, 0)['text'] == opener.utterances[0]
    assert teacher.get(0, 1)['labels'] == [f'p1 says 1 to {opener.id}']
