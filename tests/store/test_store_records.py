"""
What is written can be read again, by us exactly and by ParlAI's own readers; and no
damage to a shard goes unnoticed: the message says where it is.
"""

import json
import math
import random
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parlai.tasks.jsonfile.agents import DefaultTeacher
from parlai.utils.conversations import Conversations

from parlai_ext.core import ScoredDialogue, UserError, Utterance
from parlai_ext.core.records import WrongType
from parlai_ext.report.page import command
from parlai_ext.store import RunFolder, ScorerRecord
from parlai_ext.store.disk import decode, encode
from parlai_ext.store.folder import read_signature
from tests.support.mutations import mutations
from tests.support.store_samples import (
    SIGNATURE,
    files_under,
    first_shard,
    sample_dialogue,
    sample_manifest,
    sample_run,
    sample_scores,
    save,
    whole_run,
)
from tests.support.user_error import error_line, user_error

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


# No damage to a shard goes unnoticed, and the message says where it is.

FLIPS = 400


@pytest.fixture(scope='module')
def root(module_folder):
    root = module_folder / 'run'
    whole_run(root)
    return root


@pytest.fixture(params=['dialogues', 'scores'])
def shard(request, root):
    """
    A shard's path and how it is read; it is mended afterwards.
    """
    run = RunFolder.existing(root)
    [path] = (root / request.param).rglob(f'{run.pairings[0].id}/00000.jsonl')
    intact = path.read_bytes()
    is_scores = request.param == 'scores'
    read = run.scores(SIGNATURE).read if is_scores else run.read_dialogues
    yield path, lambda: read(first_shard(run))
    path.write_bytes(intact)


def refusal(path, read, data):
    path.write_bytes(data)
    return error_line(read)


def flipped_or_cut(intact):
    """
    Yield where the bytes of a file are damaged, and the damaged bytes.
    """
    rng = random.Random(0)
    for _ in range(FLIPS):
        at, bit = rng.randrange(len(intact)), rng.randrange(8)
        flipped = bytearray(intact)
        flipped[at] ^= 1 << bit
        yield at, flipped
    for length in {*range(0, len(intact), 3), len(intact) - 1}:
        yield length, intact[:length]


def test_every_flipped_bit_and_truncation_is_found_and_its_line_is_named(shard):
    path, read = shard
    intact = path.read_bytes()
    for at, damaged in flipped_or_cut(intact):
        message = refusal(path, read, damaged)
        line = intact[:at].count(b'\n') + 1
        assert f'{path}: line {line} ' in message
        assert 'delete this file and run again' in message


def spoilt(intact):
    first, second, _ = intact.split(b'\n')
    record = {**json.loads(first), 'reason': 'another'}
    return {
        'a line gone at the end': first + b'\n',
        'a line gone at the start': second + b'\n',
        'a line twice': intact + second + b'\n',
        'a value changed by hand': json.dumps(record).encode() + b'\n' + second + b'\n',
        'windows line ends': intact.replace(b'\n', b'\r\n'),
        'zeros, as after a crash': bytes(len(intact)),
        'no record': b'[]\n',
        'deeply nested': b'[' * 100_000 + b'\n',
    }


@pytest.mark.parametrize('how', spoilt(b'{}\n{}\n'))
def test_other_damage_is_found(shard, how):
    path, read = shard
    message = refusal(path, read, spoilt(path.read_bytes())[how])
    assert re.search(rf'{re.escape(str(path))}: line [123] ', message)


def test_a_record_spelled_otherwise_is_no_line_of_ours():
    line = encode({'dialog': ['a, b: "c" \\', 5e-324, 0.5], 'end': None})
    gaps = [at for at, char in enumerate(line) if char == ' ']
    others = [line[:at] + space + line[at + 1 :] for at in gaps for space in ('', '  ')]
    others += [f'{line} ', f' {line}']
    for old, new in (('5e-', '5E-'), ('0.5', '0.50'), ('a,', r'\u0061,')):
        others.append(line.replace(old, new))
    for other in others:
        with pytest.raises(ValueError):
            decode(other.encode())


@pytest.mark.parametrize(
    'source, words',
    [
        ('{kind}/**/{first}/00001.jsonl', 'line 1 belongs to another place'),
        ('{kind}/**/{second}/00000.jsonl', '.*another pairing|.*scores of other'),
        ('{other}/**/{first}/00000.jsonl', 'line 1 is no '),
    ],
)
def test_a_shard_from_elsewhere_is_found(root, shard, source, words):
    path, read = shard
    kinds = ['dialogues', 'scores']
    kind, other = kinds if 'dialogues' in path.parts else kinds[::-1]
    first, second = (pair.id for pair in RunFolder.existing(root).pairings[:2])
    place = source.format(kind=kind, other=other, first=first, second=second)
    [elsewhere] = root.glob(place)
    message = refusal(path, read, elsewhere.read_bytes())
    assert re.search(f'{re.escape(str(path))}: ({words})', message)


@pytest.mark.parametrize(
    'data',
    [
        b'[' * 100_000,
        b'[]',
        b'{"schema": 9, "versions": []}',
        b'\xff',
        b'"seed": 1',  # for the right one
        b'"seed": [',
    ],
)
def test_a_manifest_that_is_none_or_damaged_is_one_line(tmp_path, data):
    path = sample_run(tmp_path).root / 'manifest.json'
    if data.startswith(b'"seed'):
        data = path.read_bytes().replace(b'"seed": 0', data)
    path.write_bytes(data)
    with user_error(r'manifest\.json '):
        RunFolder.existing(tmp_path)


@pytest.mark.parametrize('data', [b'[' * 100_000, b'{"a": NaN}', b'[]', b'\xff'])
def test_a_file_of_the_run_that_is_no_mapping_is_refused(root, data):
    run = RunFolder.existing(root)
    (root / 'some.json').write_bytes(data)
    with user_error(r'some\.json is damaged'):
        run.read_json('some.json')


def test_a_record_of_a_scorer_of_another_kind_is_refused(root):
    scores = RunFolder.existing(root).scores(SIGNATURE)
    scores.run.write_json(f'scores/{scores.root.name}/scorer.json', {'models': 7})
    with user_error(r'scorer\.json is damaged: models'):
        scores.about()
    (scores.root / 'scorer.json').unlink()


def test_a_missing_shard_is_named(tmp_path):
    run = sample_run(tmp_path)
    with user_error(r'00000\.jsonl is missing'):
        run.read_dialogues(first_shard(run))


def test_scores_of_changed_dialogues_are_refused(tmp_path):
    whole_run(tmp_path)
    run = RunFolder.existing(tmp_path)
    shard = first_shard(run, 1)
    path = run.dialogues_path(shard)
    record = decode(path.read_bytes().rstrip())
    record['dialog'][0][0]['text'] = 'changed, with a fitting checksum'
    path.write_text(encode(record) + '\n')
    [dialogue] = run.read_dialogues(shard)
    assert dialogue.texts[0].startswith('changed')
    with user_error('scores of other dialogues'):
        run.scores(SIGNATURE).read(shard)


def test_every_changed_byte_of_a_file_of_the_run_is_found(tmp_path):
    run = sample_run(tmp_path)
    run.write_json('some.json', {'basis': 'abc', 'n': 12, 'kinds': ['a', {'b': 0.25}]})
    path = tmp_path / 'some.json'
    intact = path.read_bytes()
    data = run.read_json('some.json')
    for at, damaged in flipped_or_cut(intact):
        path.write_bytes(damaged)
        try:
            # white space is no content
            assert run.read_json('some.json') == data and intact[at : at + 1].isspace()
        except UserError as error:
            assert f'{path} is damaged: ' in str(error) and '\n' not in str(error)


@pytest.mark.parametrize('data', [b'length|v:2\n', b'length|v:1', b'length|v:\xff\n'])
def test_a_changed_signature_is_refused_and_the_next_scores_write_it(root, data):
    scores = RunFolder.existing(root).scores(SIGNATURE)
    path = scores.root / 'signature.txt'
    intact = path.read_bytes()
    path.write_bytes(data)
    with user_error(r'signature\.txt is damaged'):
        read_signature(path)
    with user_error(r'signature\.txt is damaged'):
        scores.write_about(ScorerRecord())
    path.unlink()
    scores.write_about(ScorerRecord())
    assert path.read_bytes() == intact and read_signature(path) == SIGNATURE
    (scores.root / 'scorer.json').unlink()


def test_metadata_that_is_damaged_or_gone_is_written_anew(tmp_path):
    whole_run(tmp_path)
    intact = files_under(tmp_path)
    first, second, *_ = sorted(tmp_path.rglob('*.metadata'))
    first.write_bytes(b'{')
    second.unlink()
    RunFolder.existing(tmp_path).restore_metadata()
    assert files_under(tmp_path) == intact


def test_a_changed_manifest_is_read_or_refused_by_its_key(tmp_path):
    whole_run(tmp_path)
    n_refused = 0
    changes = list(mutations(sample_manifest().to_json()))
    for change, manifest in changes[::5]:
        save(tmp_path, manifest)
        try:
            run = RunFolder.existing(tmp_path)
            list(run.iter_dialogues())
            command(run.plan.protocol.name, run.manifest)
        except UserError as error:
            n_refused += 1
            assert '\n' not in str(error)
            if 'is damaged: ' in str(error):
                key = change.split('.')[0].split(' ')[0]
                assert key in str(error) or key in RELATED, change
    assert n_refused > 60


# systems and openers are there twice; the other place may be named
RELATED = ('targets', 'partners', 'protocol')


@pytest.mark.parametrize(
    'key, value, place',
    [
        ('shard_size', 0, 'shard_size: a larger number expected, not 0'),
        ('grown_from', [9], 'grown_from'),
        ('protocol', {'name': 'x', 'num_turns': 'x'}, 'protocol.num_turns: '),
        ('protocol', {'name': 'x', 'turns': 5}, r'protocol.turns: .* \'num_turns\'\?'),
        ('opener', [], r'opener: unknown key; did you mean \'openers\'\?'),
        ('systems', {}, 'systems.a is missing'),
        ('asked', None, 'asked: '),
        ('imported', {'format': 'csv'}, 'imported.dialogues is missing'),
        ('protocol', {'name': 'x', 'pairing': 'imported'}, 'protocol.pairing: '),
    ],
)
def test_the_key_that_does_not_fit_is_named(tmp_path, key, value, place):
    manifest = sample_manifest().to_json()
    save(tmp_path, {**manifest, key: value})
    with user_error(rf'manifest\.json is damaged: {place}'):
        RunFolder.existing(tmp_path)


def test_dialogues_over_other_openers_than_the_manifests_are_refused(tmp_path):
    whole_run(tmp_path)
    manifest = sample_manifest().to_json()
    manifest['openers'].reverse()
    save(tmp_path, manifest)
    run = RunFolder.existing(tmp_path)
    with user_error('00000.jsonl: these are dialogues over other'):
        run.read_dialogues(first_shard(run))
