"""
A system whose files are another's asks no server that the user did not name, whatever
code of ParlAI tries to; every test has a listener that would hear it.
"""

import asyncio
import contextlib
import os
import socket
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
from parlai.agents.transformer.transformer import TransformerGeneratorAgent
from parlai.core.agents import register_agent

from parlai_ext.core.nouns import System
from parlai_ext.isolation import connections
from parlai_ext.isolation.connections import Limit, Server, limited
from parlai_ext.systems.parlai_agents import load_system
from parlai_ext.systems.remote.event_loop import run_in_loop
from parlai_ext.systems.safe.load import guarded
from parlai_ext.systems.safe.model_options import named_servers
from tests.support.tiny_models import make_generator


@register_agent('users_own_generator')
class OwnAgent(TransformerGeneratorAgent):
    """
    An agent that the user brings.
    """


@pytest.fixture
def listener():
    with socket.create_server(('127.0.0.1', 0)) as server:
        server.settimeout(0.3)
        yield server


def port_of(listener):
    return listener.getsockname()[1]


def heard(listener):
    """
    True if somebody connected.
    """
    try:
        listener.accept()[0].close()
    except TimeoutError:
        return False
    return True


def by_socket(port):
    socket.create_connection(('127.0.0.1', port), 1).close()


def by_name(port):
    socket.create_connection(('localhost', port), 1).close()


def by_thread(port):
    thread = threading.Thread(target=lambda: by_pool(port))
    thread.start()
    thread.join()


def by_pool(port):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(by_socket, port).exception()


def by_task(port):
    async def ask():
        _, writer = await asyncio.open_connection('127.0.0.1', port)
        writer.close()

    asyncio.run(ask())


def by_url(port):
    urllib.request.urlopen(f'http://127.0.0.1:{port}', timeout=0.2)


def by_fork(port):
    process = os.fork()
    if not process:
        with contextlib.suppress(OSError):
            by_socket(port)
        os._exit(0)
    os.waitpid(process, 0)


WAYS = [by_socket, by_name, by_thread, by_pool, by_task, by_url, by_fork]


@pytest.mark.parametrize('way', WAYS)
def test_no_way_leads_to_a_server_that_nobody_named(way, listener):
    port = port_of(listener)
    with contextlib.suppress(OSError), limited(Limit('x')):
        way(port)
    assert not heard(listener)
    with contextlib.suppress(OSError):  # the test could fail: without the limit
        way(port)
    assert heard(listener)


def test_no_datagram_goes_to_a_server_that_nobody_named():
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client,
    ):
        server.bind(('127.0.0.1', 0))
        server.settimeout(0.3)
        with pytest.raises(ConnectionRefusedError), limited(Limit('x')):
            client.sendto(b'tea', server.getsockname())
        with pytest.raises(TimeoutError):
            server.recv(9)
        client.sendto(b'tea', server.getsockname())
        assert server.recv(9) == b'tea'


def test_a_name_that_nobody_named_is_not_looked_up(monkeypatch):
    # a look-up alone tells the stranger's name server what the name says
    for look_up in (socket.gethostbyname, lambda name: socket.getaddrinfo(name, 80)):
        with pytest.raises(ConnectionRefusedError), limited(Limit('x')):
            look_up('secret-words.example.invalid')


def player_of(path, **opt):
    return load_system(System('x', {'model_file': path, **opt}), no_cuda=True)


def replies(player, port, monkeypatch):
    """
    Return what a system says whose agent asks the listener at every step.
    """
    step = TransformerGeneratorAgent.batch_act

    def asking(self, observations):
        by_socket(port)
        return step(self, observations)

    monkeypatch.setattr(TransformerGeneratorAgent, 'batch_act', asking)
    participant = player.join()
    participant.hear('tea', 'you')
    return player.respond([participant])[0]


def test_a_system_asks_no_server_while_it_plays(tmp_path, listener, monkeypatch):
    player = player_of(make_generator(tmp_path))
    reply = replies(player, port_of(listener), monkeypatch)
    assert not heard(listener)
    assert f"system 'x': no connection to 127.0.0.1:{port_of(listener)}" in reply.reason


def test_a_system_asks_no_server_while_it_is_loaded(tmp_path, listener, monkeypatch):
    path = make_generator(tmp_path)
    build = TransformerGeneratorAgent.build_model

    def asking(self):
        with contextlib.suppress(OSError):
            by_socket(port_of(listener))
        return build(self)

    monkeypatch.setattr(TransformerGeneratorAgent, 'build_model', asking)
    player_of(path)
    assert not heard(listener)


def test_what_the_roster_names_is_asked(tmp_path, listener, monkeypatch):
    port = port_of(listener)
    named = f'http://127.0.0.1:{port}/search'
    player = player_of(make_generator(tmp_path))
    player.limit = Limit('x', tuple(named_servers({'search_server': named})))
    assert replies(player, port, monkeypatch).text
    assert heard(listener)


@pytest.mark.parametrize('trust', ['file', 'agent'])
def test_the_users_own_agents_and_trusted_files_ask_whom_they_like(
    trust, tmp_path, listener, monkeypatch
):
    path, opt = make_generator(tmp_path), {}
    if trust == 'agent':
        opt = {'model': 'users_own_generator'}
    with guarded([path, f'{path}.opt'] if trust == 'file' else None):
        player = player_of(path, **opt)
    assert replies(player, port_of(listener), monkeypatch).text
    assert heard(listener)


def test_our_own_requests_go_out_whoever_they_are_made_for(listener):
    async def ask():
        _, writer = await asyncio.open_connection('127.0.0.1', port_of(listener))
        writer.close()

    connections_before = connections.current_limit()
    with limited(Limit('x')):
        run_in_loop(ask())
    assert connections_before is None and heard(listener)


@pytest.mark.parametrize(
    'server, host, port, asked',
    [
        ('a.host:8080', 'a.host', 8080, True),
        ('a.host:8080', 'a.host', 22, False),
        ('a.host', 'a.host', 22, True),
        ('http://A.host/x', 'a.host', 80, True),
        ('http://a.host/x', 'a.host', 443, False),
        ([{'deep': 'https://a.host'}], 'a.host', 443, True),
        ('a.host', 'b.a.host', 80, False),
        ('a.host', 'xa.host', 80, False),
        ('none', 'none', 80, False),
        ('http://h:port/', 'h', 80, False),
        ('http://[::1]:9/', '::1', 9, True),
    ],
)
def test_a_server_is_named_by_host_and_port(server, host, port, asked):
    opt = {'search_server': server, 'remote_key_env': 'home'}
    limit = Limit('x', tuple(named_servers(opt)))
    refused = pytest.raises(ConnectionRefusedError)
    with contextlib.nullcontext() if asked else refused:
        limit.check(host, port)
    with refused:
        limit.check('home', 80)


def test_a_name_stands_for_the_addresses_that_it_has():
    limit = Limit('x', (Server('localhost', 80),))
    limit.check('localhost', None)
    limit.check('127.0.0.1', 80)
    for place in (('127.0.0.1', 81), ('127.0.0.2', 80)):
        with pytest.raises(ConnectionRefusedError):
            limit.check(*place)


def test_the_hub_is_all_of_its_names():
    limit = Limit('x', (Server('.hf.co'),))
    assert limit.servers[0].covers('cdn.hf.co', 443)
    assert not limit.servers[0].covers('cdnhf.co', 443)
