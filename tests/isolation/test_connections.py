"""
A judge whose files are another's asks nobody, whatever code of ParlAI tries to; every
test has a listener that would hear it.
"""

import contextlib
import os
import socket
import threading
import urllib.request

import pytest
from parlai.agents.transformer.transformer import TransformerGeneratorAgent

from parlai_ext.isolation.connections import no_connections
from parlai_ext.models.parlai_likelihood import load_judge
from parlai_ext.systems.safe.load import guarded
from parlai_ext.systems.safe.model_options import named_servers
from tests.support.tiny_models import make_generator


@pytest.fixture
def listener():
    with socket.create_server(('127.0.0.1', 0)) as server:
        server.settimeout(0.3)
        yield server


def heard(listener):
    """
    True if somebody connected.
    """
    try:
        listener.accept()[0].close()
    except TimeoutError:
        return False
    return True


def by_name(port):
    socket.create_connection(('localhost', port), 1).close()


def by_thread(port):
    def ask():
        with contextlib.suppress(OSError):
            socket.create_connection(('127.0.0.1', port), 1).close()

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()


def by_url(port):
    urllib.request.urlopen(f'http://127.0.0.1:{port}', timeout=0.2)


def by_fork(port):
    process = os.fork()
    if not process:
        by_thread(port)
        os._exit(0)
    os.waitpid(process, 0)


@pytest.mark.parametrize('way', [by_name, by_thread, by_url, by_fork])
def test_no_way_leads_to_a_server(way, listener):
    port = listener.getsockname()[1]
    with contextlib.suppress(OSError), no_connections('x'):
        way(port)
    assert not heard(listener)
    with contextlib.suppress(OSError):  # the test could fail: without the limit
        way(port)
    assert heard(listener)


def test_no_datagram_goes_out_and_no_name_is_looked_up():
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client,
        no_connections('x'),
    ):
        with pytest.raises(ConnectionRefusedError):
            client.sendto(b'tea', ('127.0.0.1', 9))
        for look_up in (socket.gethostbyname, lambda name: socket.getaddrinfo(name, 1)):
            with pytest.raises(ConnectionRefusedError):
                look_up('secret-words.example.invalid')


@pytest.mark.parametrize('is_trusted', [False, True])
def test_a_judge_asks_nobody_unless_its_file_is_trusted(
    is_trusted, tmp_path, listener, monkeypatch, caplog
):
    path, port = make_generator(tmp_path), listener.getsockname()[1]
    build = TransformerGeneratorAgent.build_model

    def asking(self):
        by_thread(port)
        return build(self)

    monkeypatch.setattr(TransformerGeneratorAgent, 'build_model', asking)
    with guarded([path, f'{path}.opt'] if is_trusted else None):
        load_judge(path, no_cuda=True)
    assert heard(listener) == is_trusted
    assert is_trusted or 'no connection to 127.0.0.1' in caplog.text


@pytest.mark.parametrize(
    'server, host, port',
    [
        ('a.host:8080', 'a.host', 8080),
        ('a.host', 'a.host', None),
        ('http://A.host/x', 'a.host', 80),
        ([{'deep': 'https://a.host'}], 'a.host', 443),
        ('http://[::1]:9/', '::1', 9),
    ],
)
def test_a_server_is_named_by_host_and_port(server, host, port):
    opt = {'search_server': server, 'remote_key_env': 'home'}
    assert named_servers(opt) == [(host, port)]


@pytest.mark.parametrize('server', ['none', 'http://h:port/'])
def test_what_is_no_address_names_no_server(server):
    assert named_servers({'search_server': server}) == []
