"""
HTTP servers of tests, in threads of this process.
"""

import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class QuietHandler(BaseHTTPRequestHandler):
    """
    Answers at once, and prints nothing.
    """

    protocol_version = 'HTTP/1.1'
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def drip(self, data):
        """
        Send a byte now and then.
        """
        for byte in data:
            self.wfile.write(bytes([byte]))
            time.sleep(0.02)


class Server(ThreadingHTTPServer):
    """
    One thread a request, none of which outlives the program.
    """

    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        """
        Say nothing: clients that go away are what is tested.
        """


@contextmanager
def serving(handler):
    """
    Serve on a port of this machine; yield the server, and its address as `url`.
    """
    with Server(('127.0.0.1', 0), handler) as server:
        server.url = f'http://127.0.0.1:{server.server_port}'
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()
