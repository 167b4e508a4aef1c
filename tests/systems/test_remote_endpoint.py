"""
A remote system against a real server in a process of its own.
"""

import signal
import subprocess
import sys
import time

import pytest

from parlai_ext.systems.chat.messages import ChatStyle
from parlai_ext.systems.remote.endpoint import Endpoint
from parlai_ext.systems.remote.settings import Settings
from tests.support.chat_server import words_for
from tests.support.family_remote import (
    ROOT,
    control,
    make_remote,
    most_at_once,
    received,
    running_server,
)
from tests.support.remote_samples import NO_CACHE, PINNED, chat_reply, hellos, talk

pytest_plugins = ['tests.support.remote_samples']


def test_chat_replies_come_in_the_order_of_the_conversations(endpoint):
    found = endpoint(**PINNED).replies(hellos(20))
    assert [a.text for a in found] == [chat_reply(f'hello {i}') for i in range(20)]


def test_a_plain_service_hears_the_whole_conversation(endpoint):
    found = endpoint(remote_format='plain').replies([talk('Hi.', 'Hello.', 'How?')])
    turns = [('other', 'Hi.'), ('you', 'Hello.'), ('other', 'How?')]
    assert found[0].text == words_for(turns)


def test_as_many_requests_as_allowed_are_under_way_at_once(url, endpoint):
    control(url, hold=4)
    endpoint(remote_concurrency=4, **PINNED).replies(hellos(12))
    assert most_at_once(url) == 4


def test_the_same_conversation_is_the_same_bytes(url, endpoint):
    for extra in ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}'):
        endpoint(remote_extra=extra, **NO_CACHE).replies(hellos(1))
    first, second = received(url)
    assert first['body'] == second['body']


def test_a_second_run_asks_nothing(tmp_path, url, endpoint):
    first = endpoint(**PINNED).replies(hellos(5))
    control(url)
    again = endpoint(**PINNED)
    assert again.replies(hellos(5)) == first
    assert received(url) == []
    assert (again.usage.requests, again.usage.cached) == (0, 5)


def test_equal_conversations_in_a_batch_are_asked_once(url, endpoint):
    found = endpoint(**PINNED).replies([talk('Hi.')] * 3)
    assert len(received(url)) == 1
    assert [a.text for a in found] == [chat_reply('Hi.')] * 3


def test_without_a_cache_every_conversation_is_asked(url, endpoint):
    endpoint(**NO_CACHE).replies([talk('Hi.')] * 3)
    assert len(received(url)) == 3


def test_another_seed_asks_anew(url, endpoint):
    for seed in (1, 2):
        endpoint(remote_seed=seed, **PINNED).replies(hellos(1))
    assert len(received(url)) == 2


def test_the_rate_holds_for_every_request(url, endpoint, waits):
    control(url, script=[{'status': 500}])
    system = endpoint(remote_rate=1e-6, remote_concurrency=1, **PINNED)
    system.replies(hellos(1))
    back_off, turn = waits
    # 60 seconds a minute / 1e-6 a minute, less what has passed
    assert back_off <= 1 and turn == pytest.approx(6e7, rel=1e-3)


CTRL_C = """
import sys
from parlai_ext.systems.chat.messages import Turn
from parlai_ext.systems.remote.endpoint import Endpoint
from parlai_ext.systems.remote.settings import Settings
opt = {'remote_url': sys.argv[1] + '/v1', 'remote_model': 'm', 'remote_timeout': 600,
       'remote_dated_model': 'm', 'remote_cache': 'none'}
conversations = [(Turn(False, str(i)),) for i in range(20)]
try:
    Endpoint(Settings.from_options(opt)).replies(conversations)
except KeyboardInterrupt:
    print('interrupted')
"""


def heed_ctrl_c():
    # which a shell's background jobs, the tests among them, are started to ignore
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_waits_for_no_answer():
    # the server holds its answers back for ten times as long as we are ready to wait
    command = [sys.executable, '-c', CTRL_C]
    with running_server(script=['hang'] * 20) as url:
        child = subprocess.Popen(
            [*command, url],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=heed_ctrl_c,
        )
        try:
            while most_at_once(url) < 8 and child.poll() is None:
                time.sleep(0.05)
            child.send_signal(signal.SIGINT)
            output, _ = child.communicate(timeout=15)
        finally:
            child.kill()
    assert (output, child.returncode) == ('interrupted\n', 0)


def test_a_style_of_its_own_reaches_the_endpoint(url, tmp_path):
    settings = Settings.from_options(make_remote(tmp_path, url, **PINNED).opt)
    Endpoint(settings, ChatStyle(system_prompt='Be kind.')).replies(hellos(1))
    assert '{"content":"Be kind.","role":"system"}' in received(url)[0]['body']
