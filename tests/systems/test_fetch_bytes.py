"""
A small file over http: all of it in time, or one line.
"""

import socket
import threading
import time

import pytest

from parlai_ext.systems.fetch.http_file import Unreachable, fetch_bytes

BEGINNINGS = {
    'header': b'HTTP/1.1 200 OK\r\nX-Long: ',
    'body': b'HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n',
}


@pytest.fixture
def dripping(request):
    """
    The address of a server that sends a beginning, and then a byte now and then.
    """
    with socket.create_server(('127.0.0.1', 0)) as server:

        def serve():
            connection, _ = server.accept()
            with connection:
                connection.recv(9999)
                try:
                    connection.sendall(request.param)
                    for _ in range(500):
                        connection.sendall(b'a')
                        time.sleep(0.02)
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        yield f'http://127.0.0.1:{server.getsockname()[1]}/'


@pytest.mark.parametrize('dripping', BEGINNINGS.values(), ids=BEGINNINGS, indirect=True)
def test_one_deadline_is_for_all_of_the_answer(dripping):
    begun = time.monotonic()
    with pytest.raises(Unreachable, match='within 0.3 s'):
        fetch_bytes(dripping, seconds=0.3, most=9999)
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize('dripping', [BEGINNINGS['body']], indirect=True)
def test_a_file_that_is_too_large_is_not_read_to_its_end(dripping):
    with pytest.raises(Unreachable, match='more than 3 bytes'):
        fetch_bytes(dripping, seconds=30, most=3)
