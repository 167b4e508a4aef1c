"""
The key goes to the endpoint, and nowhere else.
"""

import logging
import re
import traceback
from dataclasses import replace

import pytest

from parlai_ext.commands.command import fail
from parlai_ext.core import UserError, Utterance, name_secret
from parlai_ext.store import RunFolder
from parlai_ext.systems.families import Remote
from tests.support.chat_server import control, received
from tests.support.remote_samples import PINNED, hellos, make_remote
from tests.support.store_samples import first_shard, sample_dialogue, sample_manifest
from tests.support.user_error import user_error

pytest_plugins = ['tests.support.remote_samples']
KEY = 'sk-proj-Zq81xkT0rVbN5d'
KEYED = {'remote_key_env': 'TRY_REMOTE_KEY', 'remote_retries': 1, **PINNED}


@pytest.fixture(autouse=True)
def key(monkeypatch):
    """
    The key, where the options say that it is.
    """
    monkeypatch.setenv('TRY_REMOTE_KEY', KEY)


def test_without_a_variable_no_key_is_sent(url, replies_of, tmp_path, monkeypatch):
    # requests would take this one
    (tmp_path / 'netrc').write_text('machine 127.0.0.1 login me password pw\n')
    monkeypatch.setenv('NETRC', str(tmp_path / 'netrc'))
    replies_of()
    assert received(url)[0]['key'] is None


def test_a_new_key_is_taken_up_while_the_run_goes_on(url, endpoint, monkeypatch):
    system = endpoint(**KEYED)
    system.replies(hellos(1))
    monkeypatch.setenv('TRY_REMOTE_KEY', 'sk-another-one')
    system.replies(hellos(2))
    assert received(url)[1]['key'] == 'Bearer sk-another-one'


TROUBLES = {
    'whole': {'status': 401, 'body': {'error': {'message': f'wrong key: {KEY}'}}},
    'masked': {'status': 401, 'body': {'error': f'wrong key: {KEY[:7]}****5d.'}},
    'no JSON': {'status': 500, 'body': f'you sent Bearer {KEY}'},
    'another format': {'status': 200, 'body': {'you sent': KEY}},
    'in the way': {'status': 302, 'headers': {'Location': f'http://x/?key={KEY}'}},
    'reset': 'reset',
}


@pytest.mark.parametrize('trouble', TROUBLES.values(), ids=TROUBLES)
def test_no_line_about_a_failure_holds_the_key(url, replies_of, caplog, trouble):
    caplog.set_level(logging.DEBUG)
    control(url, trouble, trouble)
    with user_error() as raised:
        replies_of(**KEYED)
    words = ''.join(traceback.format_exception(raised.value)) + caplog.text
    assert KEY[:7] not in words.replace('TRY_REMOTE_KEY', '')


def test_a_server_that_says_the_key_aloud_does_not_get_it_into_the_cache(
    url, replies_of, tmp_path
):
    message = {'content': f'You are {KEY}, are you?'}
    body = {'choices': [{'message': message}], 'model': PINNED['remote_dated_model']}
    control(url, {'status': 200, 'body': body})
    [answer] = replies_of(**KEYED)
    assert answer.text == 'You are $TRY_REMOTE_KEY, are you?'
    files = [path for path in tmp_path.rglob('*') if path.is_file()]
    assert files
    assert not any(KEY.encode() in path.read_bytes() for path in files)


@pytest.mark.parametrize(
    'option, value',
    [
        ('remote_url', f'http://localhost/{KEY.replace("-", "%2D")}'),
        ('remote_model', KEY),
        ('remote_extra', {'user': [f'me {KEY}']}),
        ('remote_cache', f'/tmp/{KEY}.sqlite'),
    ],
)
def test_an_option_that_holds_the_key_is_refused(option, value, endpoint):
    with user_error(rf'^{option}: .*\$TRY_REMOTE_KEY') as raised:
        endpoint(**{**KEYED, option: value})
    assert KEY not in str(raised.value)


def in_path(url, key):
    return {'remote_url': f'{url}/hook/{key}/v1'}


@pytest.mark.parametrize('key', [KEY, 'tea', 'hunter2', 'a/b', 'x'])
def test_a_key_in_the_path_is_posted_and_shown_by_its_name(
    url, endpoint, monkeypatch, tmp_path, key
):
    # a short one is hidden where it is a whole part of the path
    monkeypatch.setenv('TRY_REMOTE_KEY', key)
    system = endpoint(**KEYED, **in_path(url, f'{key}/teas'))
    shown = f'{url}/hook/$TRY_REMOTE_KEY/teas/v1/chat/completions'
    assert system.settings.endpoint == shown
    named = endpoint(**KEYED, **in_path(url, '$TRY_REMOTE_KEY/teas'))
    assert named.settings == system.settings
    control(url, {'status': 404})
    with user_error(re.escape(f'remote_url: {shown} refuses')):
        system.replies(hellos(1))
    assert received(url)[0]['path'] == f'/hook/{key}/teas/v1/chat/completions'
    opt = {**make_remote(tmp_path, url, **KEYED).opt, **in_path(url, key)}
    assert Remote().pin(opt)['remote_url'] == f'{url}/hook/$TRY_REMOTE_KEY/v1'


@pytest.fixture
def named_secret(monkeypatch):
    """
    A secret with characters that JSON spells otherwise.
    """
    monkeypatch.setenv('ANOTHER_KEY', 'sk-"quoted"-012')
    name_secret('ANOTHER_KEY')
    return 'sk-"quoted"-012'


def test_a_named_secret_is_in_no_file_of_a_run(tmp_path, named_secret):
    hidden = 'https://x/$ANOTHER_KEY/v1'
    manifest = sample_manifest()
    manifest.systems['a'] = {'remote_url': f'https://x/{named_secret}/v1'}
    run = RunFolder.open(tmp_path, manifest)
    assert RunFolder.existing(tmp_path).manifest.systems['a']['remote_url'] == hidden
    told = Utterance('p1', f'my key is {named_secret}')
    shard = first_shard(run)
    made = [sample_dialogue(run.pairings[0], one) for one in run.openers[: shard.stop]]
    dialogues = [replace(one, utterances=(*one.utterances, told)) for one in made]
    run.write_dialogues(shard, dialogues)
    assert run.read_dialogues(shard)[0].utterances[-1].text == 'my key is $ANOTHER_KEY'
    run.write_json('some.json', {'why': [named_secret]})
    run.write_text('report.html', f'<p>{named_secret}</p>')
    for path in tmp_path.rglob('*'):
        assert path.is_dir() or b'quoted' not in path.read_bytes(), path


def test_a_named_secret_is_in_no_line(named_secret, caplog, capsys):
    assert str(UserError(f'at {named_secret}/v1')) == 'at $ANOTHER_KEY/v1'
    logging.getLogger('anybody').warning('url %s', named_secret)
    assert caplog.messages[-1] == 'url $ANOTHER_KEY'
    with pytest.raises(SystemExit):
        fail(f'it is {named_secret}')
    assert capsys.readouterr().err == 'error: it is $ANOTHER_KEY\n'


def test_a_short_key_is_a_word_like_others(endpoint, monkeypatch):
    monkeypatch.setenv('TRY_REMOTE_KEY', 'tea')  # as "EMPTY" and "ollama" are
    assert endpoint(**KEYED).settings.without_key('a cup of tea') == 'a cup of tea'
