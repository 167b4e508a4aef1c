"""
A system that nobody trusts plays in a process of its own: what its code does there
harms nobody else, and what it says is what it would have said here.
"""

import functools
import os
import random
import signal
import socket
import sys
from ast import literal_eval
from dataclasses import replace

import numpy
import pytest
import torch

from parlai_ext.core import System, SystemFailed
from parlai_ext.engines import Machine, data_in
from parlai_ext.isolation import fork_server
from parlai_ext.isolation.fork_server import ALONE, ENVIRONMENT
from parlai_ext.systems.own_process import OwnProcess
from parlai_ext.systems.parlai_agents import (
    DistantPlayer,
    check_options_apart,
    load_on,
    load_system,
)
from parlai_ext.systems.random_numbers import (
    random_state,
    seed_all,
    set_random_state,
)
from parlai_ext.systems.spending import meter_of, spending_of
from parlai_ext.worlds.block_player import Lockstep
from tests.support.lockstep_play import row
from tests.support.strange_agents import strange_system
from tests.support.tiny_models import make_generator
from tests.support.user_error import user_error
from tests.support.waiting import comes_true, is_running

HERE = Machine(no_cuda=True, reply_timeout=60)
SAID = ('hello', 'hi')


@pytest.fixture(scope='module')
def strange(module_folder):
    """
    A system that nobody trusts, which does what it hears.
    """
    with pytest.MonkeyPatch.context() as patch:
        yield strange_system(module_folder, patch)


@pytest.fixture(scope='module')
def player(strange):
    """
    Its process, which nothing has ended.
    """
    return load_on(HERE, strange)


def reply_of(player, text='hello'):
    """
    Return what a system says to this.
    """
    participant = player.join()
    participant.hear(text, 'you')
    [reply] = player.respond([participant])
    return reply


REFUSED = {
    'the internet': 'socket.create_connection(("127.0.0.1", 9))',
    'the name of a host': 'socket.create_connection(("a.example", 80))',
    'another program': 'socket.socket(socket.AF_UNIX)',
    'files': 'open("/tmp/outside", "w")',
    'links': 'os.symlink("a", os.environ["HOME"] + "/b")',
    "the parent's environment": 'open(f"/proc/{PARENT}/environ")',
    'signals': 'os.kill(PARENT, 0)',
    'limits of another': '__import__("resource").prlimit(PARENT, 0)',
}


@pytest.mark.parametrize('what', REFUSED)
def test_code_that_nobody_trusts_may_not_do(what, player, caplog, monkeypatch):
    monkeypatch.setattr(player.process, '_warned', False)
    reply = reply_of(player, REFUSED[what].replace('PARENT', str(os.getpid())))
    assert reply.text is None and reply.reason.startswith(
        ('raised PermissionError', 'raised gaierror')
    )
    [line] = caplog.messages
    assert '--trust-model-code' in line and "'strange'" in line


def test_it_sees_no_variable_but_those_that_are_named(strange, monkeypatch):
    # so no key, whenever its server was started; libraries add their own. The server is
    # a new one: one that has served models of Hugging Face has more of torch's
    new_server = functools.cache(fork_server._server.__wrapped__)
    monkeypatch.setattr(fork_server, '_server', new_server)
    player = load_on(HERE, strange)
    named = {*ENVIRONMENT, *ALONE, 'PYTHONPATH', 'LC_CTYPE'}
    assert not any('KEY' in name for name in named)
    deed = f'{{name.split("_")[0] for name in {{*os.environ}} - {named!r}}}'
    assert literal_eval(reply_of(player, deed).text) <= {'KMP', 'PARLAI'}


def test_it_has_no_terminal_to_type_into(player):
    assert reply_of(player, 'os.getsid(0)').text != str(os.getsid(0))


def test_it_leaves_no_memory_in_the_kernel(player):
    assert reply_of(player, 'ctypes.CDLL(None).shmget(0, 1, 512)').text == '-1'


def test_it_may_write_in_its_own_folder(player):
    deed = 'open(os.environ["TMPDIR"] + "/x", "w").write("some")'
    assert reply_of(player, deed).text == '4'


# it holds the lock of its interpreter, so that nothing in Python could stop it
HANGS = 'ctypes.PyDLL(None).sleep(1000)'


@pytest.mark.parametrize(
    'deed, line',
    [
        (HANGS, r'no reply within 0.5 s'),
        ('os._exit(3)', 'its process ended with exit code 3'),
        ('os.abort()', 'its process was ended by SIGABRT'),
        ('b"x" * 10**12', 'model: out of memory with one dialogue at a time'),
        ('os.write(3, b"{}")', 'its process gives no answer'),
        (
            'os.write(3, b\'{"random": 0, "uses_gpu": 1}\\n\') and time.sleep(9)',
            'its process gives no answer',
        ),
        (
            '[os.write(3, b\'{"asks":1}\\n\') and os.read(3, 9) for _ in iter(int, 1)]',
            'its process gives no answer',
        ),
    ],
)
def test_what_would_end_or_stop_the_program_is_one_line(deed, line, strange):
    machine = replace(HERE, reply_timeout=0.5 if deed == HANGS else 60)
    player = load_on(machine, strange)
    with pytest.raises(SystemFailed, match=f"^system 'strange': {line}"):
        reply_of(player, deed)
    with user_error(line):
        reply_of(player, deed)


STARTS = '[os.getpid(), os.posix_spawn("/bin/sleep", ["sleep", "1000"], {})]'


def test_it_ends_with_all_that_it_has_started(strange):
    player = load_on(HERE, strange)
    pids = eval(reply_of(player, STARTS).text)
    assert all(map(is_running, pids))
    player.process.worker._channel.close()
    assert all(map(has_ended, pids))


def test_it_ends_with_a_program_that_is_killed(strange):
    reads, writes = os.pipe()
    if not os.fork():
        os.write(writes, reply_of(load_on(HERE, strange), STARTS).text.encode())
        signal.raise_signal(signal.SIGKILL)
    pids = eval(os.read(reads, 1000))
    os.wait()
    assert all(map(has_ended, pids))


def has_ended(pid):
    return comes_true(lambda: not is_running(pid), 20)


def test_its_module_is_imported_there_only(player):
    deed = 'sys.modules["strange_agent"].__file__'
    assert reply_of(player, deed).text.endswith('strange_agent.py')
    assert 'strange_agent' not in sys.modules


def test_what_it_prints_and_logs_is_shown_here(player, capfd, caplog):
    deed = 'print("\\x1b[2J tea") or __import__("logging").warning("rain")'
    assert reply_of(player, deed).text == 'None'
    assert '␛[2J tea' in capfd.readouterr().err
    assert 'rain' in caplog.messages


def test_a_tokenizer_that_cannot_be_had_is_one_line(
    tmp_path, monkeypatch, addresses_asked
):
    system = strange_system(tmp_path, monkeypatch, dict_tokenizer='gpt2')
    line = "^system 'strange': dict_tokenizer: http.*cannot be reached"
    with data_in(str(tmp_path)), user_error(line):
        check_options_apart(system)
    assert addresses_asked  # from here: the process of its own may not


def played(players):
    rows = [row(*sides, SAID) for sides in ('ab', 'ba', 'aa')]
    seed_all('abcdef')
    return Lockstep(rows, players, 8).play()


def test_the_dialogues_are_those_of_this_process(tmp_path):
    opt = {'inference': 'topk', 'topk': 4, 'temperature': 2.0}
    systems = [
        System(name, {'model_file': make_generator(tmp_path, name), **opt})
        for name in ('a', 'b')
    ]
    apart = {one.name: load_on(HERE, one) for one in systems}
    assert all(isinstance(player, DistantPlayer) for player in apart.values())
    here = {one.name: load_system(one, HERE) for one in systems}
    assert played(apart) == played(here)
    state = torch.get_rng_state()
    played(apart)
    assert torch.equal(torch.get_rng_state(), state)


def test_no_random_number_is_read_beside_the_state():
    state = random_state()
    state[1][2] = 625
    with pytest.raises(ValueError, match='place'):
        set_random_state(state)


def test_draws_of_every_kind_are_those_of_this_process(player):
    deed = '[random.random(), numpy.random.rand(), torch.rand(1).item()]'
    seed_all('12')
    texts = [reply_of(player, deed).text for _ in range(2)]
    seed_all('12')
    for text in texts:
        here = [random.random(), numpy.random.rand(), torch.rand(1).item()]
        assert text == str(here)
    assert texts[0] != texts[1]


def test_systems_that_share_their_weights_share_a_process(chat_folder):
    opt = {'model': 'ext:hf', 'hf_model': chat_folder}
    players = [
        load_on(HERE, System(name, {**opt, 'reply_max_tokens': n}))
        for n, name in enumerate('ab', 2)
    ]
    assert players[0].process is players[1].process
    assert reply_of(players[0]) != reply_of(players[1])
    # but not what they have used
    reply_of(players[1])
    assert [spending_of(one.agent)['requests'] for one in players] == [1, 2]
    assert meter_of(players[0].agent) is not meter_of(players[1].agent)


def test_a_server_that_the_roster_names_can_be_asked(strange):
    with socket.create_server(('127.0.0.1', 0)) as server:
        port = server.getsockname()[1]
        more = {'search_server': f'http://localhost:{port}'}
        asking = load_on(HERE, System('s', {**strange.opt, **more}))
        deed = f'socket.create_connection(("localhost", {port})).close()'
        assert reply_of(asking, deed).text == 'None'
        other = deed.replace(str(port), str(port - 1))
        assert 'PermissionError' in reply_of(asking, other).reason


def test_a_kernel_without_limits_is_said_once(player, strange, caplog, monkeypatch):
    whole = OwnProcess._answer
    lacking = {'missing': ['no network']}
    monkeypatch.setattr(OwnProcess, '_answer', lambda *given: whole(*given) | lacking)
    check_options_apart(strange, {})  # runs code of others, too
    reply_of(player)
    assert caplog.messages == ['what is not trusted: not enforced here: no network']
