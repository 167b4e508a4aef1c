"""
Each format's way to say who said what, read from hand-made files and from the published
dialogues; and every way in which dialogues can be wrong is one line that says where.
"""

import json
import math
import zipfile
from collections import Counter
from pathlib import Path

import pytest
import yaml

from parlai_ext.commands.command import one_line_errors
from parlai_ext.commands.import_dialogues import ImportDialogues
from parlai_ext.core import Dialogue, Utterance
from parlai_ext.data.chat_logs import MEDIA, SourceFile, Unread
from parlai_ext.data.imported_dialogues import (
    FORMATS,
    MARKERS,
    ImportRules,
    detect_format,
    find_files,
    read_imports,
)
from parlai_ext.store import dialogue_record, encode_shard
from tests.support.shared_data import shared
from tests.support.user_error import error_line, user_error
from tests.support.written import written, zip_of

READ_OPTIONS = ('skip_bad_rows', 'columns')


def imported(*paths, **given):
    """
    Return the imports of files, folders or patterns.

    :param given: rules, and options of `read_imports`.
    """
    options = {name: given.pop(name) for name in READ_OPTIONS if name in given}
    files = find_files([*map(str, paths)])
    return read_imports(files, None, ImportRules(**given), **options)


def told(path, **options):
    """
    Return who says what, for each dialogue of a file; it is of those who begin it.
    """
    dialogues = imported(path, **options).dialogues
    said = [[(turn.speaker, turn.text) for turn in one.turns] for one in dialogues]
    assert [one.names for one in dialogues] == [(a[0], b[0]) for a, b, *_ in said]
    return said


TALK = [('B', 'hi: there'), ('A', 'hello'), ('B', 'bye')]
LOG = 'B: hi: there\nA: hello\nB: bye\n'


def conversation(*exchanges, **more):
    acts = [[{'id': i, 'text': t} for i, t in exchange] for exchange in exchanges]
    return {'dialog': acts, 'metadata_path': 'x.metadata', **more}


def spot(turns, types=('B', 'A'), human=False, name='5eba'):
    return {
        '_id': {'$oid': name},
        'is_human0': human,
        'is_human1': human,
        'system_type0': types[0],
        'system_type1': types[1],
        'convo': [{'exchange_nr': 0, 'id': i, 'text': t} for i, t in turns],
    }


def ratings(*contexts):
    return [{'context': c, 'likeable': n} for n, c in enumerate(contexts)]


def turns_with(**second):
    """
    Return a whole dialogue as JSON, its second turn with these keys, too.
    """
    turns = [{'speaker': name, 'text': text} for name, text in TALK]
    turns[1] |= second
    return {'turns': turns}


PERSONA = [('context', 'your persona: x'), ('context', 'your persona: y')]
NOISY = [('B', 'hi . < /s ><pad><pad >'), ('A', 'i <3 you'), ('B', 'ok < /s>')]
HI, SO = 'User: hi\nSystem: yes\n', 'User: so\nSystem: \n well: i\n think\nUser: oh\n'
CSV = (
    'dialogue_id,turn,speaker,text,given,mood\n'
    'd1,1,B,hi: there,true,x\n'
    'd1,2,A,"hello, ""you""\nthere",,x\n'
    'd2,1,A,so,,x\n'
    'd2,2,B,no,,x\n'
)
ROW_KEYS = ('dialogue_id', 'speaker', 'text', 'turn')
ROWS = [dict(zip(ROW_KEYS, (7, *t, n), strict=True)) for n, t in enumerate(TALK)]
SELF = [('PL_2', 'hi'), ('PL_1', 'hello'), ('PL_2', 'bye')]
SELF_LOG = ''.join(f'{who}: {text}\n' for who, text in SELF)
# file, content, what is told of its dialogues, and options, if any
CASES = {
    # who begins is said by the lines, whatever the file is called
    'a log': ('A_B.txt', LOG, [TALK]),
    'a byte order mark': ('x.txt', '\ufeff' + LOG, [TALK]),
    'CRLF': ('x.txt', LOG.replace('\n', '\r\n'), [TALK]),
    'empty lines': ('x.txt', '\n' + LOG.replace('\n', '\n\n'), [TALK]),
    # but for the one after the colon
    'blanks of a turn stay': (
        'x.txt',
        'B:  hi \nA:yes\n',
        [[('B', ' hi '), ('A', 'yes')]],
    ),
    'the two sides of a self-chat are one system': (
        'x.txt',
        SELF_LOG,
        [[('PL', text) for _, text in SELF]],
    ),
    'sides of no self-chat': (
        'x.txt',
        SELF_LOG,
        [SELF],
        {'self_chats': False},
    ),
    'a conversation of ParlAI has no persona': (
        'x.jsonl',
        conversation(PERSONA, TALK[:2], TALK[2:]),
        [TALK],
    ),
    'Spot The Bot is verbatim': ('x.jsonl', spot(NOISY), [NOISY]),
    'markers of generation go when asked': (
        'x.jsonl',
        spot(NOISY),
        [[('B', 'hi .'), ('A', 'i <3 you'), ('B', 'ok')]],
        {'strip_markers': True},
    ),
    # an unmarked line goes on with the turn
    'neighbouring ratings of one context are one dialogue': (
        'bot7.json',
        ratings(HI, HI, HI, SO, SO),
        [
            [('User', 'hi'), ('bot7', 'yes')],
            [('User', 'so'), ('bot7', 'well: i\n think'), ('User', 'oh')],
        ],
    ),
    'rows of a CSV file': (
        'x.csv',
        CSV,
        [
            [('B', 'hi: there'), ('A', 'hello, "you"\nthere')],
            [('A', 'so'), ('B', 'no')],
        ],
    ),
    'rows as JSON lines': ('x.jsonl', ROWS, [TALK]),
    'whole dialogues': ('x.jsonl', turns_with(), [TALK]),
    'turns in a row are joined when asked': (
        'x.txt',
        'B: a\nB: b\nA: c\n',
        [[('B', 'a\nb'), ('A', 'c')]],
        {'join_turns': True},
    ),
    'names by file and new names': (
        'x.txt',
        LOG,
        [[(who.replace('A', 'Ada'), text) for who, text in TALK]],
        {'name_by_file': True, 'rename': ('A@x=Ada',), 'humans': 'B'},
    ),
    'only the line feed ends a line': (
        'x.txt',
        'B: a\u2028b\x85c\x0bd\nA: ok\n',
        [[('B', 'a\u2028b\x85c\x0bd'), ('A', 'ok')]],
    ),
}


@pytest.mark.parametrize('case', CASES)
def test_a_file_tells_who_said_what(tmp_path, case):
    name, data, dialogues, *options = CASES[case]
    assert told(written(tmp_path, name, data), **dict(*options)) == dialogues


def test_metadata_tells_a_self_chat_under_one_name(tmp_path):
    said = [('A', 'hi'), ('A', 'yes')]
    path = written(tmp_path, 'x.jsonl', conversation(said))
    written(tmp_path, 'x.metadata', {'self_chat': True})
    assert told(path) == [said]


def test_a_file_of_parlai_ext_itself_comes_back(tmp_path):
    utterances = (Utterance('B', 'hi\u2028', True), Utterance('A', 'yes'))
    record = dialogue_record(Dialogue('d', 'p', 'o', utterances), 'x')
    [one] = imported(written(tmp_path, 'x.jsonl', encode_shard([record], 0))).dialogues
    said = [(turn.text, turn.given) for turn in one.turns]
    assert (one.id, said) == ('d', [('hi\u2028', True), ('yes', False)])


def test_people_who_talk_with_people_are_counted_and_left_out(tmp_path):
    people = spot([('human', 'hi'), ('human', 'yes')], ('human', 'human'), True)
    path = written(tmp_path, 'x.jsonl', [spot(TALK, name='1'), people])
    imports = imported(path)
    assert (len(imports.dialogues), imports.n_people) == (1, 1)
    assert imported(path, judge_humans=True).names == ['A', 'B', 'human']


def test_what_people_said_is_given(tmp_path):
    [one] = imported(written(tmp_path, 'bot7.json', ratings(HI))).dialogues
    assert (one.id, one.humans) == ('bot7-1', {'User'})
    assert [turn.given for turn in one.turns] == [True, False]


def test_references_may_be_a_list(tmp_path):
    path = written(tmp_path, 'x.jsonl', turns_with(reference=['yes', ' ', 'no']))
    [one] = imported(path).dialogues
    assert [turn.references for turn in one.turns] == [(), ('yes', 'no'), ()]


@pytest.mark.parametrize('value', [7, ['yes', 7], {'a': 'yes'}, '\ud800'])
def test_a_reference_that_is_no_text_is_refused(tmp_path, value):
    with user_error(r"turn 2: 'reference'"):
        imported(written(tmp_path, 'x.jsonl', turns_with(reference=value)))


def test_references_of_a_part_are_none_of_the_joined_turn(tmp_path):
    rows = ''.join(f'd,{who},{what},{what}\n' for who, what in ('Ba', 'Bb', 'Ac'))
    path = written(tmp_path, 'x.csv', f'dialogue_id,speaker,text,reference\n{rows}')
    [one] = imported(path, join_turns=True).dialogues
    assert [turn.references for turn in one.turns] == [(), ('c',)]


def test_a_folder_is_its_data_files_by_name_each_once(tmp_path):
    for name in ('b.txt', 'a.txt', 'README.md', '.hidden.txt'):
        written(tmp_path, name, LOG)
    (tmp_path / 'deeper').mkdir()
    for given in ([str(tmp_path)], [str(tmp_path), str(tmp_path / '*.txt')]):
        assert [path.name for path in find_files(given)] == ['a.txt', 'b.txt']


# ---- chat logs as messages

MESSAGES = [
    {'role': 'system', 'content': 'Be kind.'},
    {'role': 'user', 'content': 'hi: there'},
    {'role': 'assistant', 'content': 'hello'},
    {'role': 'user', 'content': [{'type': 'text', 'text': 'bye'}]},
]
SHAREGPT = [
    {'from': 'human', 'value': 'hi: there'},
    {'from': 'gpt', 'value': 'hello'},
    {'from': 'human', 'value': 'bye'},
]
FORMS = {
    'lines': lambda records: '\n'.join(map(json.dumps, records)),
    'list': json.dumps,
    'indented': lambda records: json.dumps(records, indent=2),
}


def by(person, system):
    return [(person if name == 'B' else system, text) for name, text in TALK]


@pytest.mark.parametrize(
    'record, person, system',
    [
        ({'messages': MESSAGES, 'model': 'smol-1'}, 'user', 'smol-1'),
        ({'conversation': MESSAGES}, 'user', 'assistant'),
        ({'conversations': MESSAGES}, 'user', 'assistant'),
        ({'conversations': SHAREGPT, 'model': 'smol-1'}, 'human', 'smol-1'),
        # the name that a study gives a system goes before that of its model
        ({'messages': MESSAGES, 'system': 'rag-b', 'model': 'smol-1'}, 'user', 'rag-b'),
        ({'messages': MESSAGES, 'system': 'You are kind.'}, 'user', 'assistant'),
        # without anything about them
        (MESSAGES, 'user', 'assistant'),
        (SHAREGPT, 'human', 'gpt'),
    ],
)
@pytest.mark.parametrize('form', FORMS)
def test_a_list_of_messages_is_a_dialogue(record, person, system, form, tmp_path):
    path = written(tmp_path, 'x.json', FORMS[form]([record] * 2))
    assert told(path) == [by(person, system)] * 2
    assert imported(path).humans == {person}


def test_messages_alone_are_a_dialogue(tmp_path):
    path = written(tmp_path, 'x.json', FORMS['indented'](MESSAGES))
    assert told(path) == [by('user', 'assistant')]


@pytest.mark.parametrize('said', [turns_with(), {'messages': MESSAGES}])
def test_whole_dialogues_and_lists_of_messages_have_ids(said, tmp_path):
    records = [{'id': 7, **said}, {'conversation_id': 'x', **said}]
    path = written(tmp_path, 'x.jsonl', records)
    assert [one.id for one in imported(path).dialogues] == ['7', 'x']


@pytest.mark.parametrize('bot', ['Assistant', 'chatgpt', 'Bot'])
def test_roles_are_known_in_any_case(bot, tmp_path):
    turns = [{'from': 'Human', 'value': 'hi'}, {'from': bot, 'value': 'hello'}]
    record = {'conversations': turns, 'model': 'smol-1'}
    imports = imported(written(tmp_path, 'x.json', record))
    assert imports.names == ['Human', 'smol-1']
    assert imports.humans == {'Human'}


# ---- tables with other names, separators and encodings

CELLS = [('7', *turn) for turn in TALK]


@pytest.mark.parametrize('separator', [';', '\t'])
def test_what_parts_the_columns_is_recognised(separator, tmp_path):
    rows = [ROW_KEYS[:3], *CELLS, ('7', 'A', f'"a{separator}b"')]
    text = '\n'.join(map(separator.join, rows))
    turns = [*TALK, ('A', f'a{separator}b')]
    assert told(written(tmp_path, 'x.csv', text)) == [turns]


THEIRS = {'dialogue_id': 'conversation_id', 'speaker': 'role', 'text': 'content'}


@pytest.mark.parametrize('name', ['x.csv', 'x.jsonl'])
def test_columns_may_have_other_names(name, tmp_path):
    data = '\n'.join(map(','.join, [THEIRS.values(), *CELLS]))
    if name == 'x.jsonl':
        data = [dict(zip(THEIRS.values(), row, strict=True)) for row in CELLS]
    assert told(written(tmp_path, name, data), columns=THEIRS) == [TALK]


def test_errors_name_the_columns_of_the_file(tmp_path):
    path = written(tmp_path, 'x.csv', 'conversation_id,role,content\n1,,a\n')
    with user_error(r"x\.csv:2: the row: 'role' is missing"):
        told(path, columns=THEIRS)
    with user_error(r"x\.csv:1: column 'dialogue_id' .*--columns .* names$"):
        told(path)


@pytest.mark.parametrize(
    'encoding', ['utf-16-le', 'utf-16-be', 'utf-32-le', 'utf-32-be']
)
def test_an_encoding_is_recognised_by_its_byte_order_mark(encoding, tmp_path):
    log = '\ufeff' + LOG.replace('hello', 'grüß\u2028dich')
    [turns] = told(written(tmp_path, 'x.txt', log.encode(encoding)))
    assert [text for _, text in turns] == ['hi: there', 'grüß\u2028dich', 'bye']


@pytest.mark.parametrize(
    'data, words',
    [
        (LOG.encode('utf-16-le'), 'UTF-16 without a byte order mark'),
        (LOG.encode('utf-16')[:-1], 'damaged UTF-16'),
    ],
)
def test_another_or_a_damaged_encoding_is_named(data, words, tmp_path):
    with user_error(f'x.txt: .*{words}'):
        told(written(tmp_path, 'x.txt', data))


# ---- exports of other programs

EXPORTS = yaml.safe_load((Path(__file__).parent / 'exports.yaml').read_text('utf-8'))
HEADER = {'version': 2, 'eval': {'model': 'm'}}
CHAT = EXPORTS[0]['data']['samples'][0]['messages']
SAID = [tuple(turn) for turn in EXPORTS[0]['said'][0]]


def whatsapp(stamp):
    lines = ['Ann created group "Trip: Rome"', 'Ann: hi', 'Bo: hello\nyou']
    lines += ['Ann changed the description\nof the group']
    return ''.join(f'{stamp}{line}\n' for line in [*lines, 'Ann: bye'])


@pytest.mark.parametrize('export', EXPORTS)
def test_chats_that_other_programs_export_are_recognised(tmp_path, export):
    path = written(tmp_path, 'export.txt', export['data'])
    assert imported(path).format == export['format']
    assert told(path) == [[tuple(turn) for turn in one] for one in export['said']]


@pytest.mark.parametrize(
    'stamp',
    [
        '12/31/23, 9:15 PM - ',
        '[31.12.23, 21:15:02] ',
        '31/12/2023, 21:15 - ',
        '31/12/23, 9:15 p.\xa0m. - ',
        '31.12.2023 klo 21.15 - ',
        '[2023/12/31 下午9:15:02] ',
    ],
)
def test_a_log_of_whatsapp_in_any_language(tmp_path, stamp):
    path = written(tmp_path, 'export.txt', whatsapp(stamp))
    assert imported(path).format == 'whatsapp'
    assert told(path) == [[('Ann', 'hi'), ('Bo', 'hello\nyou'), ('Ann', 'bye')]]


@pytest.mark.parametrize('name', FORMATS)
def test_the_example_of_a_format_is_recognised_as_that_format(tmp_path, name):
    example = FORMATS[name].example
    assert len(f'  spot_the_bot  {example}') <= 88
    path = written(tmp_path, 'x', example.replace(', …', '').replace('…', 'null'))
    assert detect_format(SourceFile.from_path(path)) == name


# as phones write them in English, German, French, Spanish, Italian and Portuguese
NO_TEXTS = (
    '<Media omitted>',
    '<Medien ausgeschlossen>',
    '<Médias omis>',
    'null',
    '',
    '\u200eimage omitted',
    'image omitted',
    '\u200eimage absente',
    'GIF omitted',
    '\u200e<attached: 0012-PHOTO.jpg>',
    'IMG-1.jpg (file attached)',
    '\u200eIMG-1.jpg (Datei angehängt)',
    'a b.pdf • \u200e2 pages',
    'a b.pdf • \u200e2 pages \u200edocument omitted',
    'IMG 1.jpg (fichier joint)',
    'This message was deleted',
    'You deleted this message.',
    'Diese Nachricht wurde gelöscht.',
    'Ce message a été supprimé',
    'Se eliminó este mensaje.',
    'Questo messaggio è stato eliminato',
    'Mensagem apagada',
    'Essa mensagem foi apagada',
)
# what somebody wrote is kept
WITH_TEXT = {
    '<3': '<3',
    '<b>': '<b>',
    'null is a value': 'null is a value',
    'hi <This message was edited>': 'hi',
    'hi \u200e<Diese Nachricht wurde bearbeitet.>': 'hi',
    'look \u200e<attached: 0012-PHOTO.jpg>': 'look',
    'IMG-1.jpg (file attached)\nlook': 'look',
}


def test_messages_without_a_text_are_no_turns_and_counted():
    said = ['hi', *NO_TEXTS, *WITH_TEXT]
    log = ''.join(
        f'31/12/2023, 21:15 - {"AB"[i % 2]}: {t}\n' for i, t in enumerate(said)
    )
    [one] = FORMATS['whatsapp'].read(SourceFile('x', 'x', tuple(log.split('\n'))))
    assert [turn.text for turn in one.turns] == ['hi', *WITH_TEXT.values()]
    assert one.unread == Unread({MEDIA: len(NO_TEXTS)}, len(NO_TEXTS))


def test_telegrams_photos_and_stickers_are_counted(tmp_path):
    texts = ('', 'hi', '', 'hello', [' '])
    messages = [
        {'type': 'message', 'from': 'AB'[i % 2], 'text': text, 'photo': 'x.jpg'}
        for i, text in enumerate(texts)
    ]
    # an account that was deleted has an id and no name
    messages[1] |= {'from': None, 'from_id': 'user7'}
    chat = {'name': None, 'type': 'personal_chat', 'messages': messages}
    imports = imported(written(tmp_path, 'x.json', chat))
    assert imports.names == ['B', 'user7']
    assert imports.unread == Unread({MEDIA: 3}, 2)


def test_thoughts_of_a_model_are_no_text(tmp_path):
    parts = [{'type': 'reasoning', 'reasoning': 'a'}, {'type': 'text', 'text': 'yes'}]
    messages = [CHAT[1], {'role': 'assistant', 'content': parts}]
    path = written(tmp_path, 'x.json', messages)
    assert told(path) == [[('user', 'hi'), ('assistant', 'yes')]]
    assert imported(path).unread.keys == {'reasoning': 1}


@pytest.mark.parametrize(
    'record, words',
    [
        ({'inputs': 'hi', 'outputs': 'yes', 'extra': 'x'}, 'laid out otherwise'),
        ({'inputs': {'kwargs': 7}, 'outputs': 'yes'}, 'laid out otherwise'),
        ({'inputs': 'hi', 'outputs': None}, "'outputs': no messages in 'None'"),
        ({'inputs': 'hi', 'outputs': 'hi', 'run_type': 'tool'}, "'run_type' is 'llm'"),
        ({'inputs': [['user', 'hi']], 'outputs': 'yes'}, "'inputs': no messages"),
        ({'eval': 'x', 'samples': []}, 'laid out otherwise'),
        ({'name': 'x', 'type': 'y', 'messages': [7]}, 'laid out otherwise'),
    ],
)
def test_an_export_that_is_laid_out_otherwise_is_a_bad_row(tmp_path, record, words):
    with user_error(f'x.json:1: {words}'):
        told(written(tmp_path, 'x.json', record))


def zipped_log(folder, members, compression=zipfile.ZIP_DEFLATED):
    texts = [(name, json.dumps(value)) for name, value in members.items()]
    return written(folder, 'log.eval', zip_of(texts, compression))


SAMPLE = {'id': 1, 'epoch': 1, 'messages': CHAT, 'scores': {'f': {'value': math.nan}}}


@pytest.mark.parametrize('header', ['header.json', '_journal/start.json'])
def test_a_zipped_log_is_read_as_its_json(tmp_path, header):
    members = {
        'samples/1_epoch_1.json': SAMPLE,
        'samples/2_epoch_1.json': SAMPLE | {'id': 2, 'messages': CHAT[1:3]},
        'summaries.json': [],
        header: HEADER,
    }
    path = zipped_log(tmp_path, members)
    assert imported(path).format == 'inspect'
    assert told(path) == [SAID, SAID[:2]]


def test_a_zipped_log_as_inspect_ai_compresses_it(tmp_path):
    zstd = pytest.importorskip('zipfile_zstd')
    members = {'samples/1_epoch_1.json': SAMPLE, 'header.json': HEADER}
    path = zipped_log(tmp_path, members, zstd.ZIP_ZSTANDARD)
    assert told(path) == [SAID]


@pytest.mark.parametrize(
    'members, words',
    [
        ({'samples/1.json': SAMPLE}, "'_journal/start.json'"),
        ({'header.json': {}}, "'eval'"),
        ({'header.json': HEADER, 'samples/1.json': {}}, "'id'"),
        ({'header.json': HEADER}, 'empty'),
    ],
)
def test_another_zip_of_this_name_is_named(tmp_path, members, words):
    with user_error(f'log.eval.*: .*{words}'):
        told(zipped_log(tmp_path, members))


# The published dialogues, whole: counts are those of each PROVENANCE.md


def test_the_games_of_chatmatch():
    imports = imported(shared('chatmatch/original'))
    assert {len(one.turns) for one in imports.dialogues} == {200}
    ordered = Counter(one.names for one in imports.dialogues)
    assert len(ordered) == 7 * 6 and set(ordered.values()) == {1}


def test_the_self_chats_of_chatmatch():
    imports = imported(shared('chatmatch/selfchat'))
    assert [one.names for one in imports.dialogues] == [(n, n) for n in imports.names]
    assert len(imports.dialogues) == 7


@pytest.mark.parametrize(
    'domain, bots, dialogues',
    [('convai2', 6, 675), ('dailydialog', 4, 270), ('empathetic', 5, 450)],
)
def test_the_domains_of_spot_the_bot(domain, bots, dialogues):
    name = f'spot_the_bot/sampled-dialogues-full-{domain}.jsonl'
    imports = imported(shared(name), empty_turns='keep')
    assert (len(imports.names), len(imports.dialogues)) == (bots, dialogues)
    pairs = Counter(frozenset(one.names) for one in imports.dialogues)
    assert set(pairs.values()) == {45}
    assert imports.n_people == 300


def test_people_who_talk_with_blender_are_read():
    log = 'parlai_acute_eval/chatlog_2.7B.json'
    imports = imported(shared(log), humans='human_evaluator')
    # CHANEL's BLENDR is the same set: 108 dialogues, 1,512 utterances
    assert sum(len(one.turns) for one in imports.dialogues) == 1512
    assert len(imports.dialogues) == 108


# Every way in which dialogues can be wrong is one line that names file and line.

GOOD = 'A: hi\nB: hello\n'


def line_for(folder, name, data, **rules):
    """
    Return what is said of one file with this content.
    """
    said = error_line(imported, written(folder, name, data), **rules)
    return said.replace(f'{folder}/', '')


LOGS = [
    ('A: hi\nA: you?\n', "x.txt:1: one speaker only, 'A'"),
    ('A: a\nB: b\nC: c\n', "x.txt:3: a third speaker, 'C' after 'A'"),
    ('A: a\nB:\nA: c\n', "x.txt:2: an empty turn of 'B'"),
    ('A: hi\n', 'x.txt:1: one turn only'),
    ('', 'x.txt: the file is empty'),
    ('A: a\nB: b\nB: c\n', "x.txt:3: 'B' speaks twice in a row"),
    ('A: a\nno name here\nA: c\n', "x.txt:2: a turn is a line 'NAME: text'"),
    (b'A: a\nB: \xff\xfe\n', 'x.txt:2: not UTF-8 text'),
]


HEAD = 'dialogue_id,speaker,text\n'
CSVS = [
    (
        'dialogue_id,spkr,text\n1,A,hi\n',
        "x.csv:1: column 'speaker' is missing; did you mean 'spkr'",
    ),
    (
        'dialogue_id;speaker;text\n1;A;hi\n1;B;yes;no\n',
        'x.csv:3: 4 cells where the header has 3; a cell with semicolons',
    ),
    (
        'dialogue_id,text,speaker,text\n1,a,A,b\n',
        "x.csv:1: column 'text' is given twice",
    ),
    (HEAD + '1,A,hi\n,B,yes\n', "x.csv:3: 'dialogue_id' is missing"),
    (HEAD + '1,A,hi\n1,,yes\n', "x.csv:3: the row: 'speaker' is missing"),
    (
        HEAD + '1,A,a\n1,B,b\n2,A,a\n2,B,b\n1,A,c\n1,B,d\n',
        "x.csv:6: dialogue_id '1' began in line 2 already",
    ),
    (
        'dialogue_id,turn,speaker,text\n1,1,A,a\n1,1,B,b\n',
        'x.csv:3: turn 1 follows turn 1',
    ),
    (
        'dialogue_id,given,speaker,text\n1,maybe,A,a\n1,,B,b\n',
        "x.csv:2: the row: 'given' is true or false, not 'maybe'",
    ),
    (HEAD, 'no dialogues to import: none is in x.csv'),
]


TURN = '{"id": "A", "text": "a"}'
JSONS = [
    (
        f'{{"dialog": [[{TURN}, {TURN.replace("A", "B")}]]}}\n{{"dialog": [',
        'x.jsonl:2: not JSON',
    ),
    ('{"turns": [\n{"turns": []}\n', 'x.jsonl:1: not JSON'),
    ('{"dialog": [[{"id": "A"}]]}', "x.jsonl:1: act 1: 'text' is missing"),
    (f'{{"dialog": [{TURN}]}}', "x.jsonl:1: 'dialog' is a list of"),
    ('{"convo": []}', "x.jsonl:1: the record: 'system_type0' is missing"),
    ('{"turns": "A: a"}', "x.jsonl:1: 'turns' is a list, not 'A: a'"),
    ('{"speaker": "A", "text": "a"}', "x.jsonl:1: 'dialogue_id' is missing"),
    (
        '[{"a": 1}]',
        "x.jsonl: no dialogues in a known format; its objects have the keys 'a'",
    ),
    (
        '[[{"who": "me", "what": "hi"}]]',
        'x.jsonl: no dialogues in a known format; its messages have the keys '
        "'who, what'",
    ),
    (
        '["hi", "yes"]\n["so", "no"]',
        'x.jsonl: no dialogues in a known format; line 1: ',
    ),
    ('[{"context": 7}]', "x.jsonl:1: object 1: 'context' is a text"),
    ('[{"context": "hi"}]', 'x.jsonl:1: object 1: a context begins with'),
    (
        '[{"context": "User: hi\\nSystem: \\n"}]',
        "x.jsonl:1: object 1: an empty turn of 'x'",
    ),
    (
        '{"messages": [{"role": "user", "content": "a"}, {"content": "b"}]}',
        "x.jsonl:1: message 2: 'role' is missing",
    ),
    (
        '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", '
        '"content": "b"}, {"role": "tool", "content": "c"}]}',
        "x.jsonl:1: a third speaker, 'tool'",
    ),
    (
        '{"messages": [{"role": "assistant", "content": null}]}',
        "x.jsonl:1: message 1: 'content' is missing",
    ),
    (
        '[{"role": "user", "content": [{"type": "image_url"}]}]',
        "x.jsonl:1: message 1: 'content' has a part that is no text",
    ),
    (
        '[{"conversations": [{"from": "gpt", "value": "a"}]}, 7]',
        'x.jsonl:1: object 1: one turn only',
    ),
    (
        '[{"conversations": [\n{"from": "gpt", "value": "a"}',
        'x.jsonl: no dialogues in a known format; line 2: not JSON',
    ),
    (
        '{"dialog": [[{"id": "A", "text": "a \\ud83d"}]]}',
        "x.jsonl:1: act 1: 'text' holds half a character ('a \\ud83d')",
    ),
    (
        '{"messages": [], "messages": [{"role": "user", "content": "a"}]}',
        'x.jsonl: no dialogues in a known format; line 1: not JSON (the key '
        "'messages' is there twice)",
    ),
    (
        f'{{"dialog": [[{TURN}, {TURN.replace("A", "B")}]]}}\n'
        '{"dialog": [[{"id": "A", "text": "a", "text": "b"}]]}',
        "x.jsonl:2: not JSON (the key 'text' is there twice)",
    ),
    ('{"turns": []}', 'x.jsonl:1: no turns: the dialogue is empty'),
    (
        '{"dialogue_id": "d", "turns": [{"speaker": "A", "text": "A"}, '
        '{"speaker": "B", "text": "B"}]}\n' * 2,
        "x.jsonl:2: the id 'd' is that of the dialogue in x.jsonl:1",
    ),
    ('{"dialog": ' + '[' * 9999, 'x.jsonl: no dialogues in a known format'),
]


FILES = {'x.txt': LOGS, 'x.csv': CSVS, 'x.jsonl': JSONS}


@pytest.mark.parametrize(
    'name, data, said', [(name, *case) for name in FILES for case in FILES[name]]
)
def test_a_file_that_holds_no_dialogue(tmp_path, name, data, said):
    assert line_for(tmp_path, name, data).startswith(said)


@pytest.mark.parametrize(
    'text, nearest',
    [
        ('just some text', {'chatmatch', 'csv', 'whatsapp'}),
        ('{\n"messages": [{"content": "hi", "by": "me"}]}', {'openai'}),
        ('{"id": 1, "inputs": "hi"}', {'langsmith'}),
    ],
)
def test_the_three_nearest_formats_are_shown_each_in_a_line(
    tmp_path, capsys, text, nearest
):
    written(tmp_path, 'x', text)
    with pytest.raises(SystemExit), one_line_errors():
        imported(tmp_path / 'x')
    [wrong, *examples, hint] = capsys.readouterr().err.splitlines()
    assert wrong.startswith(f'error: {tmp_path}/x: no dialogues') and '--help' in hint
    shown = dict(line.split(maxsplit=1) for line in examples)
    assert len(shown) == 3 and nearest <= set(shown)
    assert all(shown[name] == FORMATS[name].example for name in shown)


def test_a_bot_named_twice(tmp_path):
    written(tmp_path, 'y.txt', GOOD.replace('A', 'C D'))
    written(tmp_path, 'x.txt', GOOD.replace('A', 'c d'))
    said = error_line(imported, tmp_path)
    assert said.startswith("one bot named twice? 'C D' and 'c d' differ in case")
    assert said.endswith("--rename 'c d'=NEW")


def test_two_bots_under_one_new_name(tmp_path):
    said = line_for(tmp_path, 'x.txt', GOOD, rename=('A=B',))
    assert said.startswith("x.txt:1: both speakers are called 'B' by now")


def test_files_of_two_formats(tmp_path):
    written(tmp_path, 'a.txt', GOOD)
    written(tmp_path, 'b.csv', HEAD + '1,A,a\n1,B,b\n')
    said = error_line(imported, tmp_path)
    assert 'looks like chatmatch' in said and 'like csv' in said


def test_a_file_in_no_format_is_a_bad_one_of_the_format_before(tmp_path):
    written(tmp_path, 'a.txt', GOOD)
    written(tmp_path, 'b.txt', 'no name here\n')
    assert 'b.txt:1: ' in error_line(imported, tmp_path)


def test_a_folder_without_files_of_dialogues_names_its_folders(tmp_path):
    (tmp_path / 'inside').mkdir()
    written(tmp_path, 'README.md', 'no dialogues')
    said = error_line(find_files, [str(tmp_path)])
    assert said.startswith(f'{tmp_path}: no files with dialogues')
    assert said.endswith('it has folders: inside')


OPTIONS = [
    ({'format': 'csvv'}, '--format csvv; did you mean'),
    ({'empty_turns': 'drop'}, "--empty-turns: 'drop'; "),
    ({'rename': ['A']}, '--rename A: OLD=NEW is expected'),
    ({'rename': ['A=C', 'A=D']}, "--rename: 'A' is given two names"),
    ({'rename': ['Z=C']}, '--rename Z=C: '),
    ({'humans': 'Z'}, '--humans Z: no speaker has this name'),
    ({'columns': 'speker=a'}, "--columns speker=a; did you mean 'speaker'"),
    ({'columns': 'text=a', 'format': 'chatmatch'}, '--columns: for the formats '),
    ({'dialogues': None}, '--dialogues is needed'),
]


@pytest.mark.parametrize('options, said', OPTIONS, ids=lambda one: str(one)[:20])
def test_options_that_cannot_be_meant(tmp_path, options, said):
    written(tmp_path, 'x.txt', GOOD)
    given = {'dialogues': [str(tmp_path / 'x.txt')], 'run_dir': str(tmp_path / 'run')}
    assert error_line(ImportDialogues.main, **{**given, **options}).startswith(said)
    assert not (tmp_path / 'run').exists()


def test_skipping_leaves_out_the_dialogue_of_a_bad_row_and_counts(tmp_path):
    for name, text in {'a': GOOD, 'b': 'A: a\nA: b\n', 'c': 'A: a\noh\nno\n'}.items():
        written(tmp_path, f'{name}.txt', text)
    imports = imported(tmp_path, skip_bad_rows=True)
    # b: one speaker, one problem; c: two lines without a name
    assert (len(imports.dialogues), imports.n_left_out) == (1, 2)
    assert len(imports.problems) == 3


def test_a_row_that_says_not_of_which_dialogue_spoils_both_neighbours(tmp_path):
    rows = '1,A,a\n1,B,b\n2,A,a\n2,B,b\n,A,c\n3,A,a\n3,B,b\n'
    written(tmp_path, 'x.csv', HEAD + rows)
    imports = imported(tmp_path, skip_bad_rows=True)
    assert [one.id for one in imports.dialogues] == ['1']
    assert (imports.n_left_out, len(imports.problems)) == (2, 1)


def test_nothing_is_imported_where_all_is_bad(tmp_path):
    said = line_for(tmp_path, 'x.txt', 'A: a\nA: b\n', skip_bad_rows=True)
    assert '1 cannot be read; the first bad row: x.txt:1: ' in said


def test_a_text_of_blanks_is_read_at_once():
    assert MARKERS.sub('', ' ' * 500_000)
