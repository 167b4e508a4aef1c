"""
Each format's way to say who said what, read from hand-made files.
"""

import json
import math
import zipfile

import pytest

from parlai_ext.data.formats import find_files
from parlai_ext.data.import_rules import ImportRules
from parlai_ext.data.imported_dialogues import read_imports
from tests.support.user_error import user_error


def imported(path, wanted=None, rules=None, **options):
    return read_imports(
        find_files([str(path)]),
        wanted,
        rules or ImportRules(),
        progress=False,
        **options,
    )


def told(path, wanted=None, rules=None, **options):
    """
    Return who begins, who answers and what is said, for each dialogue of a file.
    """
    dialogues = imported(path, wanted, rules, **options).dialogues
    return [(*d.names, [(t.speaker, t.text) for t in d.turns]) for d in dialogues]


def written(folder, name, text):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


TALK = [('B', 'hi: there'), ('A', 'hello'), ('B', 'bye')]
LOG = 'B: hi: there\nA: hello\nB: bye\n'


@pytest.mark.parametrize(
    'data',
    [
        LOG.encode(),
        b'\xef\xbb\xbf' + LOG.encode(),
        LOG.replace('\n', '\r\n').encode(),
        LOG.rstrip('\n').encode(),
        b'\n' + LOG.replace('\n', '\n\n').encode(),
    ],
    ids=['plain', 'byte order mark', 'CRLF', 'no last line feed', 'empty lines'],
)
def test_how_lines_end_is_no_part_of_a_log(tmp_path, data):
    # who begins is said by the lines, whatever the file is called
    assert told(written(tmp_path, 'A_B.txt', data)) == [('B', 'A', TALK)]


@pytest.mark.parametrize('separator', ['\u2028', '\u0085', '\x0b'])
def test_only_the_line_feed_ends_a_line(tmp_path, separator):
    log = f'B: one{separator}two\nA: ok\n'
    [(_, _, turns)] = told(written(tmp_path, 'x.txt', log))
    assert turns[0] == ('B', f'one{separator}two')


def test_blanks_of_a_turn_stay_but_for_the_one_after_the_colon(tmp_path):
    [(_, _, turns)] = told(written(tmp_path, 'x.txt', 'B:  hi \nA:yes\n'))
    assert turns == [('B', ' hi '), ('A', 'yes')]


def test_the_two_sides_of_a_self_chat_are_one_system(tmp_path):
    log = 'PL_2: hi\nPL_1: hello\nPL_2: bye\n'
    turns = [('PL', 'hi'), ('PL', 'hello'), ('PL', 'bye')]
    path = written(tmp_path, 'x.txt', log)
    assert told(path) == [('PL', 'PL', turns)]
    assert told(path, self_chats=False)[0][:2] == ('PL_2', 'PL_1')


def conversation(*exchanges, **more):
    acts = [[{'id': i, 'text': t} for i, t in exchange] for exchange in exchanges]
    return json.dumps({'dialog': acts, 'metadata_path': 'x.metadata', **more})


def test_a_conversation_of_parlai_without_its_persona(tmp_path):
    persona = [('context', 'your persona: x'), ('context', 'your persona: y')]
    line = conversation(persona, TALK[:2], TALK[2:])
    path = written(tmp_path, 'x.jsonl', line + '\n')
    assert told(path) == [('B', 'A', TALK)]


def test_metadata_tells_a_self_chat_under_one_name(tmp_path):
    path = written(tmp_path, 'x.jsonl', conversation([('A', 'hi'), ('A', 'yes')]))
    written(tmp_path, 'x.metadata', json.dumps({'self_chat': True}))
    assert told(path) == [('A', 'A', [('A', 'hi'), ('A', 'yes')])]


def test_a_file_of_parlai_ext_itself_comes_back(tmp_path):
    from parlai_ext.core.nouns import Dialogue, Utterance
    from parlai_ext.store.lines import encode_shard
    from parlai_ext.store.shards import dialogue_record

    said = (Utterance('B', 'hi\u2028', True), Utterance('A', 'yes'))
    data = encode_shard([dialogue_record(Dialogue('d', 'p', 'o', said), 'x')], 0)
    path = written(tmp_path, 'x.jsonl', data)
    imports = imported(path)
    [one] = imports.dialogues
    assert (one.id, [t.given for t in one.turns]) == ('d', [True, False])
    assert one.turns[0].text == 'hi\u2028'


def spot(turns, types=('B', 'A'), human=False, name='5eba'):
    return json.dumps(
        {
            '_id': {'$oid': name},
            'is_human0': human,
            'is_human1': human,
            'system_type0': types[0],
            'system_type1': types[1],
            'convo': [{'exchange_nr': 0, 'id': i, 'text': t} for i, t in turns],
        }
    )


NOISY = [('B', 'hi . < /s ><pad><pad >'), ('A', 'i <3 you'), ('B', 'ok < /s>')]


def test_spot_the_bot_is_verbatim_unless_asked(tmp_path):
    path = written(tmp_path, 'x.jsonl', spot(NOISY) + '\n')
    assert told(path) == [('B', 'A', NOISY)]


def test_markers_of_generation_go_when_asked(tmp_path):
    path = written(tmp_path, 'x.jsonl', spot(NOISY) + '\n')
    [(_, _, turns)] = told(path, rules=ImportRules(strip_markers=True))
    assert [text for _, text in turns] == ['hi .', 'i <3 you', 'ok']


def test_people_who_talk_with_people_are_counted_and_left_out(tmp_path):
    people = spot([('human', 'hi'), ('human', 'yes')], ('human', 'human'), True)
    path = written(tmp_path, 'x.jsonl', f'{spot(TALK, name="1")}\n{people}\n')
    imports = imported(path)
    assert (len(imports.dialogues), imports.n_people) == (1, 1)
    both = imported(path, rules=ImportRules(judge_humans=True))
    assert both.names == ['A', 'B', 'human']


def ratings(*contexts):
    return json.dumps([{'context': c, 'likeable': n} for n, c in enumerate(contexts)])


def test_neighbouring_ratings_of_one_context_are_one_dialogue(tmp_path):
    one, two = 'User: hi\nSystem: yes\n', 'User: so\nSystem: no\n'
    path = written(tmp_path, 'bot7.json', ratings(one, one, one, two, two))
    assert told(path) == [
        ('User', 'bot7', [('User', 'hi'), ('bot7', 'yes')]),
        ('User', 'bot7', [('User', 'so'), ('bot7', 'no')]),
    ]


def test_an_unmarked_line_goes_on_with_the_turn(tmp_path):
    context = 'User: hi\nSystem: \n well: i\n think\nUser: so\n'
    path = written(tmp_path, 'bot7.json', ratings(context))
    [(_, _, turns)] = told(path)
    assert turns[1] == ('bot7', 'well: i\n think')


def test_nobody_judges_the_user_of_dstc9(tmp_path):
    path = written(tmp_path, 'bot7.json', ratings('User: hi\nSystem: yes\n'))
    [one] = imported(path).dialogues
    assert one.humans == {'User'}
    assert [turn.given for turn in one.turns] == [True, False]


CSV = (
    'dialogue_id,turn,speaker,text,given,mood\n'
    'd1,1,B,hi: there,true,x\n'
    'd1,2,A,"hello, ""you""\nthere",,x\n'
    'd2,1,A,so,,x\n'
    'd2,2,B,no,,x\n'
)


def test_rows_of_a_csv_file(tmp_path):
    path = written(tmp_path, 'x.csv', CSV)
    assert told(path) == [
        ('B', 'A', [('B', 'hi: there'), ('A', 'hello, "you"\nthere')]),
        ('A', 'B', [('A', 'so'), ('B', 'no')]),
    ]
    [one, _] = imported(path).dialogues
    assert (one.id, [turn.given for turn in one.turns]) == ('d1', [True, False])


def test_rows_as_json_lines(tmp_path):
    rows = [
        {'dialogue_id': 7, 'speaker': name, 'text': text, 'turn': n}
        for n, (name, text) in enumerate(TALK)
    ]
    path = written(tmp_path, 'x.jsonl', '\n'.join(map(json.dumps, rows)))
    assert told(path) == [('B', 'A', TALK)]


def turns_with(folder, **second):
    """
    Write a whole dialogue as JSON, its second turn with these keys, too.
    """
    turns = [{'speaker': name, 'text': text} for name, text in TALK]
    turns[1] |= second
    return written(folder, 'x.jsonl', json.dumps({'turns': turns}))


def test_whole_dialogues_as_json_lines(tmp_path):
    assert told(turns_with(tmp_path)) == [('B', 'A', TALK)]


@pytest.mark.parametrize(
    ('value', 'references'),
    [(['yes', ' ', 'no'], ('yes', 'no')), ('yes\nno', ('yes', 'no')), (None, ())],
)
def test_references_are_lines_or_a_list(tmp_path, value, references):
    [one] = imported(turns_with(tmp_path, reference=value)).dialogues
    assert [turn.references for turn in one.turns] == [(), references, ()]


@pytest.mark.parametrize('value', [7, ['yes', 7], {'a': 'yes'}, '\ud800'])
def test_a_reference_that_is_no_text_is_refused(tmp_path, value):
    path = turns_with(tmp_path, reference=value)
    with user_error(r"turn 2: 'reference'"):
        imported(path)


def test_turns_in_a_row_are_joined_when_asked(tmp_path):
    path = written(tmp_path, 'x.txt', 'B: a\nB: b\nA: c\n')
    [(_, _, turns)] = told(path, rules=ImportRules(join_turns=True))
    assert turns == [('B', 'a\nb'), ('A', 'c')]


def test_references_of_a_part_are_none_of_the_joined_turn(tmp_path):
    rows = ''.join(f'd,{who},{what},{what}\n' for who, what in ('Ba', 'Bb', 'Ac'))
    path = written(tmp_path, 'x.csv', f'dialogue_id,speaker,text,reference\n{rows}')
    rules = ImportRules(join_turns=True)
    [one] = imported(path, rules=rules).dialogues
    assert [turn.references for turn in one.turns] == [(), ('c',)]


def test_an_empty_turn_is_kept_when_asked(tmp_path):
    path = written(tmp_path, 'x.txt', 'B: a\nA: \nB: c\n')
    [(_, _, turns)] = told(path, rules=ImportRules(empty_turns='keep'))
    assert turns[1] == ('A', '')


def test_names_by_file_and_new_names(tmp_path):
    path = written(tmp_path, 'x.txt', LOG)
    rules = ImportRules(
        name_by_file=True, rename={'A@x': 'Ada'}, humans=frozenset({'B'})
    )
    assert told(path, rules=rules)[0][:2] == ('B', 'Ada')


def test_a_folder_is_its_data_files_by_name(tmp_path):
    for name in ('b.txt', 'a.txt', 'README.md', '.hidden.txt'):
        written(tmp_path, name, LOG)
    (tmp_path / 'deeper').mkdir()
    assert [path.name for path in find_files([str(tmp_path)])] == ['a.txt', 'b.txt']


def test_a_pattern_and_a_folder_name_a_file_once(tmp_path):
    written(tmp_path, 'a.txt', LOG)
    given = [str(tmp_path), str(tmp_path / '*.txt')]
    assert len(find_files(given)) == 1


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


def by(person, system):
    return [(person if name == 'B' else system, text) for name, text in TALK]


@pytest.mark.parametrize(
    'record, person, system',
    [
        ({'messages': MESSAGES}, 'user', 'assistant'),
        ({'messages': MESSAGES, 'model': 'smol-1'}, 'user', 'smol-1'),
        ({'conversation': MESSAGES}, 'user', 'assistant'),
        ({'conversations': MESSAGES}, 'user', 'assistant'),
        ({'conversations': SHAREGPT}, 'human', 'gpt'),
        ({'conversations': SHAREGPT, 'model': 'smol-1'}, 'human', 'smol-1'),
    ],
)
@pytest.mark.parametrize('form', ['lines', 'list', 'indented'])
def test_a_list_of_messages_is_a_dialogue(record, person, system, form, tmp_path):
    records = [{**record, 'id': f'd{i}'} for i in range(2)]
    text = {
        'lines': '\n'.join(map(json.dumps, records)),
        'list': json.dumps(records),
        'indented': json.dumps(records, indent=2),
    }[form]
    path = written(tmp_path, 'x.json', text)
    assert told(path) == [(person, system, by(person, system))] * 2
    imports = imported(path)
    assert [d.id for d in imports.dialogues] == ['d0', 'd1']
    assert imports.humans == {person}


@pytest.mark.parametrize('value', [MESSAGES, {'messages': MESSAGES}])
def test_a_file_may_be_one_dialogue(value, tmp_path):
    path = written(tmp_path, 'x.json', json.dumps(value, indent=1))
    assert told(path) == [('user', 'assistant', by('user', 'assistant'))]


# ---- tables with other names, separators and encodings

ROWS = [('7', *turn) for turn in TALK]


@pytest.mark.parametrize('separator', [',', ';', '\t'])
def test_what_parts_the_columns_is_recognised(separator, tmp_path):
    rows = [('dialogue_id', 'speaker', 'text'), *ROWS, ('7', 'A', f'"a{separator}b"')]
    text = '\n'.join(separator.join(row) for row in rows)
    turns = [*TALK, ('A', f'a{separator}b')]
    assert told(written(tmp_path, 'x.csv', text)) == [('B', 'A', turns)]


THEIRS = {'dialogue_id': 'conversation_id', 'speaker': 'role', 'text': 'content'}


@pytest.mark.parametrize('form', ['csv', 'lines', 'list'])
def test_columns_may_have_other_names(form, tmp_path):
    rows = [dict(zip(THEIRS.values(), row, strict=True)) for row in ROWS]
    text = {
        'csv': '\n'.join(map(','.join, [THEIRS.values(), *ROWS])),
        'lines': '\n'.join(map(json.dumps, rows)),
        'list': json.dumps(rows),
    }[form]
    path = written(tmp_path, 'x.csv' if form == 'csv' else 'x.json', text)
    assert told(path, columns=THEIRS) == [('B', 'A', TALK)]


def test_errors_name_the_columns_of_the_file(tmp_path):
    path = written(tmp_path, 'x.csv', 'conversation_id,role,content\n1,,a\n')
    with user_error(r"x\.csv:2: the row: 'role' is missing"):
        told(path, columns=THEIRS)
    with user_error(r"x\.csv:1: column 'dialogue_id' .*--columns"):
        told(path)


@pytest.mark.parametrize('order', ['', '-le', '-be'])
@pytest.mark.parametrize('encoding', ['utf-16', 'utf-32'])
def test_an_encoding_is_recognised_by_its_byte_order_mark(encoding, order, tmp_path):
    mark = '\ufeff' if order else ''  # Python writes it there
    log = LOG.replace('hello', 'grüß\u2028dich')
    path = written(tmp_path, 'x.txt', f'{mark}{log}'.encode(encoding + order))
    [(_, _, turns)] = told(path)
    assert [text for _, text in turns] == ['hi: there', 'grüß\u2028dich', 'bye']


@pytest.mark.parametrize(
    'data, words',
    [
        (LOG.encode('utf-16-le'), 'UTF-16 without a byte order mark'),
        (LOG.encode('utf-16-be'), 'UTF-16 without a byte order mark'),
        (LOG.encode('utf-16')[:-1], 'damaged UTF-16'),
        (LOG.encode('utf-32') + b'\0', 'damaged UTF-32'),
    ],
)
def test_another_or_a_damaged_encoding_is_named(data, words, tmp_path):
    with user_error(f'x.txt: .*{words}'):
        told(written(tmp_path, 'x.txt', data))


SAID = [('user', 'hi'), ('m', 'hello'), ('user', 'bye'), ('m', 'see you')]
ASKED = [{'role': 'system', 'content': 'be kind'}, {'role': 'user', 'content': 'hi'}]
ASKED += [{'role': 'assistant', 'content': 'hello'}, {'role': 'user', 'content': 'bye'}]
ANSWER = {'role': 'assistant', 'content': 'see you'}
CHAT = [*ASKED, ANSWER]
PEOPLE_SAID = [('Ann', 'hi'), ('Bo', 'hello\nyou'), ('Ann', 'bye')]
# what programs write, by the format as which it is recognised
EXPORTS = {
    'inspect': {
        'version': 2,
        'eval': {'model': 'm'},
        'samples': [{'id': 1, 'epoch': 1, 'messages': CHAT}],
    },
    'langsmith': {
        'id': 'r',
        'inputs': {'messages': [ASKED]},
        'outputs': {'choices': [{'message': ANSWER}]},
        'extra': {'metadata': {'ls_model_name': 'm'}},
    },
    'langfuse': {'id': 't', 'input': ASKED, 'output': 'see you', 'model': 'm'},
    'telegram': {
        'name': 'Bo',
        'type': 'personal_chat',
        'id': 7,
        'messages': [
            {'type': 'service', 'action': 'phone_call', 'text': ''},
            {'type': 'message', 'from': 'Ann', 'text': 'hi'},
            {
                'type': 'message',
                'from': 'Bo',
                'text': ['hello\n', {'type': 'bold', 'text': 'you'}],
            },
            {'type': 'message', 'from': 'Ann', 'text': 'bye'},
        ],
    },
}


@pytest.mark.parametrize('name', EXPORTS)
def test_chats_that_other_programs_export_are_recognised(tmp_path, name):
    path = written(tmp_path, 'export.json', json.dumps(EXPORTS[name]))
    assert imported(path).format == name
    said = PEOPLE_SAID if name == 'telegram' else SAID
    assert [turns for _, _, turns in told(path)] == [said]


def zipped_log(folder, members, compression=zipfile.ZIP_DEFLATED):
    path = folder / 'log.eval'
    with zipfile.ZipFile(path, 'w', compression) as log:
        for name, value in members:
            log.writestr(name, json.dumps(value))
    return path


SAMPLE = {'id': 1, 'epoch': 1, 'messages': CHAT, 'scores': {'f': {'value': math.nan}}}
HEADER = {'version': 2, 'eval': {'model': 'm'}}


@pytest.mark.parametrize('header', ['header.json', '_journal/start.json'])
def test_a_zipped_log_is_read_as_its_json(tmp_path, header):
    second = SAMPLE | {'id': 2, 'messages': CHAT[1:3]}
    members = [
        ('samples/1_epoch_1.json', SAMPLE),
        ('samples/2_epoch_1.json', second),
        ('summaries.json', []),
        (header, HEADER),
    ]
    path = zipped_log(tmp_path, members)
    assert imported(path).format == 'inspect'
    assert [turns for _, _, turns in told(path)] == [SAID, [SAID[0], ('m', 'hello')]]


def test_a_zipped_log_as_inspect_ai_compresses_it(tmp_path):
    zstd = pytest.importorskip('zipfile_zstd')
    members = [('samples/1_epoch_1.json', SAMPLE), ('header.json', HEADER)]
    path = zipped_log(tmp_path, members, zstd.ZIP_ZSTANDARD)
    assert [turns for _, _, turns in told(path)] == [SAID]


@pytest.mark.parametrize(
    ('members', 'words'),
    [
        ([('samples/1.json', SAMPLE)], "'_journal/start.json'"),
        ([('header.json', {})], "'eval'"),
        ([('header.json', HEADER), ('samples/1.json', [])], 'list'),
        ([('header.json', HEADER), ('samples/1.json', {})], "'id'"),
        ([('header.json', HEADER)], 'empty'),
    ],
)
def test_another_zip_of_this_name_is_named(tmp_path, members, words):
    with user_error(f'log.eval.*: .*{words}'):
        told(zipped_log(tmp_path, members))


def test_a_judgement_of_mt_bench_has_two_dialogues(tmp_path):
    record = {'question_id': 81, 'model_a': 'm', 'model_b': 'n', 'judge': 'author_2'}
    record |= {'conversation_a': CHAT[1:], 'conversation_b': CHAT[1:3]}
    path = written(tmp_path, 'human.jsonl', json.dumps(record))
    assert [turns for _, _, turns in told(path)] == [SAID, [SAID[0], ('n', 'hello')]]


@pytest.mark.parametrize(
    'stamp',
    ['12/31/23, 9:15 PM - ', '[31.12.23, 21:15:02] ', '31/12/2023, 21:15 - '],
)
def test_a_chat_of_whatsapp_is_one_dialogue(tmp_path, stamp):
    lines = [f'{stamp}Messages and calls are end-to-end encrypted.']
    lines += [f'{stamp}Ann: hi', f'{stamp}Bo: hello', 'you', f'{stamp}Ann: bye']
    path = written(tmp_path, 'chat.txt', '\n'.join(lines) + '\n')
    assert imported(path).format == 'whatsapp'
    assert told(path) == [('Ann', 'Bo', PEOPLE_SAID)]
