"""
Nothing of a file vanishes without a word: turns, instructions, keys, systems.
"""

import pytest
from parlai.scripts.self_chat import SelfChat

from parlai_ext.commands.import_dialogues import ImportDialogues
from parlai_ext.mini import SHIPPED
from parlai_ext.store import RunFolder
from tests.support.user_error import user_error
from tests.support.written import written


def chat(*roles):
    return [{'role': role, 'content': f'{role} {i}'} for i, role in enumerate(roles)]


def imported(folder, *paths, **options):
    return ImportDialogues.main(dialogues=[*paths], run_dir=folder / 'run', **options)


def imported_data(folder, data, name='c.jsonl', **options):
    """
    Import a new file with this content.
    """
    return imported(folder, written(folder, name, data), **options)


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
    report = imported(tmp_path, log)
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
    assert len(imported(tmp_path, log(tmp_path, 'log', **opt)).systems) == num_systems


def test_logs_of_other_partners_are_told_apart_by_file(tmp_path):
    paths = [
        log(tmp_path, name, model_file='a', partner_model_file=name) for name in 'bc'
    ]
    with user_error('--name-by-file'):
        imported(tmp_path, *paths)
    assert len(imported(tmp_path, *paths, name_by_file=True).systems) == 4


def test_a_log_that_names_no_model_is_of_no_other_model(tmp_path):
    paths = log(tmp_path, 'b', model_file='a'), log(tmp_path, 'c')
    assert imported(tmp_path, *paths).n_dialogues == 2


def test_names_by_file_need_files_of_different_names(tmp_path):
    text = 'A: hello\nB: hi\n'
    paths = [tmp_path / folder / 'log.txt' for folder in ('gpt', 'llama')]
    for path in paths:
        path.parent.mkdir()
        path.write_text(text)
    assert imported(tmp_path, tmp_path / '*' / 'log.txt').n_dialogues == 2
    files = RunFolder.existing(tmp_path / 'run').manifest.imported.files
    assert len(files) == 2
    with user_error('--name-by-file: .*gpt.*llama.*NAME@log'):
        imported(tmp_path, tmp_path / '*' / 'log.txt', name_by_file=True)
