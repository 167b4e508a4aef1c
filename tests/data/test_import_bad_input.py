"""
Nothing of a file vanishes without a word: every way in which dialogues can be wrong is
one line that names file and line, and whatever is left out is counted.
"""

import pytest
from parlai.scripts.self_chat import SelfChat

from parlai_ext.commands.command import one_line_errors
from parlai_ext.commands.import_dialogues import ImportDialogues
from parlai_ext.data.imported_dialogues import FORMATS, MARKERS, find_files
from parlai_ext.mini import SHIPPED
from parlai_ext.store import RunFolder
from tests.support.imports import imported
from tests.support.user_error import error_line, user_error
from tests.support.written import written

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


# Turns, instructions, keys and systems that are left out are counted


def chat(*roles):
    return [{'role': role, 'content': f'{role} {i}'} for i, role in enumerate(roles)]


def imported_run(folder, *paths, **options):
    return ImportDialogues.main(dialogues=[*paths], run_dir=folder / 'run', **options)


def imported_data(folder, data, name='c.jsonl', **options):
    """
    Import a new file with this content.
    """
    return imported_run(folder, written(folder, name, data), **options)


@pytest.mark.parametrize('form', [None, 'sharegpt'])
def test_messages_under_two_keys_are_refused(tmp_path, form):
    record = dict.fromkeys(('messages', 'conversations'), chat('user', 'assistant'))
    with user_error(r"c.jsonl:1: .*'messages'.*'conversations'"):
        imported_data(tmp_path, record, format=form)


def test_instructions_are_counted_those_in_the_middle_too(tmp_path, printed):
    roles = ('system', 'user', 'assistant', 'system', 'user', 'developer', 'assistant')
    both = [chat(*roles), chat('user', 'assistant')]
    report = imported_data(tmp_path, [{'messages': one} for one in both])
    # all nine messages: six turns, two of system, one of developer
    assert (report.n_utterances, report.n_no_turns) == (6, 3)
    told = printed()
    assert 'no turns, left out: developer 1, system 2 (2 after the first turn)' in told


def test_keys_of_messages_that_are_not_read_are_named_once(tmp_path, printed):
    turns = chat('user', 'assistant', 'user', 'assistant')
    turns[0]['name'] = 'Ann'
    turns[1] |= {'refusal': 'I cannot.', 'tool_calls': [], 'audio': None}
    turns[2]['name'] = 'Bob'
    imported_data(tmp_path, {'messages': turns})
    told = printed().splitlines()
    assert [line for line in told if 'not read' in line] == [
        'keys of turns that are not read: name 2, refusal 1'
    ]


def test_conversations_logged_once_a_call_are_counted(tmp_path, printed):
    roles = ('user', 'assistant') * 3
    # the second and third call hold the first; the last one is another conversation
    calls = [chat(*roles[:n]) for n in (2, 6, 4)] + [chat('user', 'assistant')[::-1]]
    imported_data(tmp_path, [{'messages': call} for call in calls])
    told = printed()
    assert 'the beginning of a longer one, whose turns are judged twice: 2 dia' in told


def test_users_who_are_judged_are_named(tmp_path, printed):
    text = 'dialogue_id,speaker,text\n1,User,hi\n1,mine,hello\n'
    imported_data(tmp_path, text, 'c.csv')
    assert 'judged as a system: User' in printed()


def test_a_name_of_nobody_is_told_beside_bad_rows(tmp_path, printed):
    text = 'dialogue_id,speaker,text\n1,Ann,hi\n1,mine,hello\n2,Bob,\n2,mine,hi\n'
    imported_data(tmp_path, text, 'c.csv', skip_bad_rows=True, humans='Amn')
    assert "--humans Amn: no speaker has this name; did you mean 'Ann'" in printed()


def test_joined_turns_are_counted(tmp_path, printed):
    turns = {'messages': chat('user', 'user', 'assistant')}
    report = imported_data(tmp_path, turns, join_turns=True)
    assert (report.n_utterances, report.n_joined) == (2, 1)
    assert 'joined with the one before: 1 turn\n' in printed()


def test_a_self_chat_of_two_models_is_of_two_systems_and_its_opener_is_given(tmp_path):
    openers, log = tmp_path / 'openers.txt', tmp_path / 'log.jsonl'
    openers.write_text('do you like tea ?')
    SelfChat.main(
        model_file=str(SHIPPED / 'step-50' / 'model'),
        partner_model_file=str(SHIPPED / 'step-1350' / 'model'),
        num_self_chats=1,
        selfchat_max_turns=3,
        outfile=log,
        display_examples=False,
        seed_messages_from_file=str(openers),
        no_cuda=True,
    )
    report = imported_run(tmp_path, log)
    names = ('TransformerGenerator_1', 'TransformerGenerator_2')
    assert report.systems == names
    # the context "Hi!", which both models read, is in the log and no turn
    assert (report.n_utterances, report.n_no_turns) == (4, 1)
    run = RunFolder.existing(tmp_path / 'run')
    assert sorted(run.manifest.targets) == list(names)
    [dialogue] = run.iter_dialogues()
    assert [turn.given for turn in dialogue.utterances] == [True, False, False, False]
    first = dialogue.utterances[0]
    assert (first.speaker, first.text) == (names[0], 'do you like tea ?')


def log(folder, name, **opt):
    """
    Write a log as ParlAI's `self_chat` does, with these options in its metadata.
    """
    acts = [[{'id': f'Generator_{k}', 'text': f'{k}'} for k in (1, 2)]]
    about = {'self_chat': True, 'opt': opt, 'speakers': [], 'version': '0.1'}
    written(folder, f'{name}.metadata', about)
    return written(folder, f'{name}.jsonl', {'dialog': acts})


@pytest.mark.parametrize(
    'opt, num_systems',
    [
        ({'model_file': 'a'}, 1),
        # one model with two sets of options is two systems
        ({'model_file': 'a', 'partner_model_file': 'a', 'partner_opt_file': 'o'}, 2),
    ],
)
def test_how_many_systems_a_self_chat_has(tmp_path, opt, num_systems):
    assert (
        len(imported_run(tmp_path, log(tmp_path, 'log', **opt)).systems) == num_systems
    )


def test_logs_of_other_partners_are_told_apart_by_file(tmp_path):
    paths = [
        log(tmp_path, name, model_file='a', partner_model_file=name) for name in 'bc'
    ]
    with user_error('--name-by-file'):
        imported_run(tmp_path, *paths)
    assert len(imported_run(tmp_path, *paths, name_by_file=True).systems) == 4


def test_a_log_that_names_no_model_is_of_no_other_model(tmp_path):
    paths = log(tmp_path, 'b', model_file='a'), log(tmp_path, 'c')
    assert imported_run(tmp_path, *paths).n_dialogues == 2


def test_names_by_file_need_files_of_different_names(tmp_path):
    text = 'A: hello\nB: hi\n'
    paths = [tmp_path / folder / 'log.txt' for folder in ('gpt', 'llama')]
    for path in paths:
        path.parent.mkdir()
        path.write_text(text)
    assert imported_run(tmp_path, tmp_path / '*' / 'log.txt').n_dialogues == 2
    files = RunFolder.existing(tmp_path / 'run').manifest.imported.files
    assert len(files) == 2
    with user_error('--name-by-file: .*gpt.*llama.*NAME@log'):
        imported_run(tmp_path, tmp_path / '*' / 'log.txt', name_by_file=True)
