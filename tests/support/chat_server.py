"""
A chat endpoint that misbehaves on request.

Replies depend on the conversation alone.
"""

import hashlib
import json
import socket
import struct
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.http_server import QuietHandler, serving

WORDS = ('tea', 'rain', 'book', 'song', 'hill', 'boat', 'bread', 'garden', 'winter')
PATIENCE = 150  # seconds that a request waits for others, or hangs


@dataclass
class State:
    """
    How the server behaves, and what it has seen.

    `script`: misbehaviours, one for each of the next requests. `hold`: answer only when
    so many requests are here. `usage`: tell the numbers of tokens. `echo`: reply with
    the messages.
    """

    script: list
    model: str | None = 'tiny-2024-05-13'
    hold: int = 1
    usage: bool = True
    echo: bool = False
    log: list = field(default_factory=list)
    here: int = 0
    most: int = 0


class Handler(QuietHandler):
    """
    Speaks both formats.
    """

    def do_GET(self):
        self.server.state.log.append({'path': self.path})
        self.send({})

    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        server, state = self.server, self.server.state
        with server.changed:
            seen = {'path': self.path, 'body': body.decode()}
            seen['key'] = self.headers.get('Authorization')
            seen['cookie'] = self.headers.get('Cookie')
            state.log.append(seen)
            state.here += 1
            state.most = max(state.most, state.here)
            act = state.script.pop(0) if state.script else 'reply'
            server.changed.notify_all()
            server.changed.wait_for(lambda: state.here >= state.hold, PATIENCE)
            # those that were waited for need not be here still
            state.hold = 1
        try:
            self.misbehave(act, json.loads(body))
        finally:
            with server.changed:
                state.here -= 1

    def misbehave(self, act, body):
        """
        Do what the script says.
        """
        if isinstance(act, dict):
            headers = act.get('headers', {})
            return self.send(act.get('body', {}), act['status'], **headers)
        if act == 'hang':
            server, state = self.server, self.server.state
            with server.changed:
                server.changed.wait_for(lambda: server.state is not state, PATIENCE)
            self.close_connection = True
        elif act == 'reset':
            linger = struct.pack('ii', 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.connection.shutdown(socket.SHUT_RD)
            self.close_connection = True
            self.connection.close()
        elif act == 'garbage':
            self.send_bytes(b'<html>It works!</html>')
        elif act == 'cut':
            self.send_bytes(b'{"choices": [', length=1000)
            self.close_connection = True
        elif act == 'drip':
            self.drip_after(b'Content-Length: 1000\r\n\r\n')
        elif act == 'drip head':
            self.drip_after(b'X-Long: ')
        else:
            self.reply(body, act)

    def drip_after(self, head):
        self.wfile.write(b'HTTP/1.1 200 OK\r\n' + head)
        self.drip(b' ' * 1000)
        self.close_connection = True

    def reply(self, body, act):
        """
        Answer in the format that was asked for.
        """
        state = self.server.state
        if self.path == '/reply':
            prompt = body.get('system_prompt')
            turns = [('system', prompt)] if prompt else []
            turns += [(t['speaker'], t['text']) for t in body['turns']]
        else:
            turns = [(m['role'], m['content']) for m in body['messages']]
        text = json.dumps(turns) if state.echo else words_for(turns)
        usage = {
            'prompt_tokens': sum(len(text.split()) for _, text in turns),
            'completion_tokens': len(text.split()),
        }
        more = {'model': state.model} if state.model else {}
        more |= {'usage': usage} if state.usage else {}
        if self.path == '/reply':
            found = {'error': 'I will not say'} if act == 'filter' else {'text': text}
            self.send({**found, **more})
        else:
            self.send({'choices': [choice(text, act)], **more})

    def send(self, data, status=200, **headers):
        """
        Send JSON.
        """
        self.send_bytes(json.dumps(data).encode(), status, **headers)

    def send_bytes(self, data, status=200, length=None, **headers):
        """
        Send a body, with a length that may be wrong.
        """
        self.send_response(status)
        self.send_header('Content-Length', str(length or len(data)))
        for name, value in headers.items():
            self.send_header(name.replace('_', '-'), value)
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()


def choice(text, act):
    """
    Return what the model said, as the chat format has it.
    """
    if act == 'filter':
        return {'message': {'content': None}, 'finish_reason': 'content_filter'}
    text = '' if act == 'empty' else text
    return {'message': {'role': 'assistant', 'content': text}, 'finish_reason': 'stop'}


def words_for(turns):
    """
    Return a few words that depend on all that was said, and by whom.
    """
    digest = hashlib.sha256(json.dumps(turns).encode()).digest()
    return ' '.join(WORDS[byte % len(WORDS)] for byte in digest[: 3 + digest[-1] % 4])


_servers = {}  # by address


@contextmanager
def running_server():
    """
    Run a server; yield its address, ``http://127.0.0.1:PORT``.
    """
    with serving(Handler) as server:
        server.changed = threading.Condition()
        _servers[server.url] = server
        control(server.url)
        yield server.url


def control(url, *script, **state):
    """
    Let the server forget everything, and behave like this from now on: the script for
    the next requests, and what else `State` says.
    """
    server = _servers[url]
    with server.changed:
        server.state = State(script=list(script), **state)
        server.changed.notify_all()


def received(url):
    """
    Return the requests that the server got, oldest first: path, body (text) and key.
    """
    return list(_servers[url].state.log)


def most_at_once(url):
    """
    Return how many requests the server had at the same time.
    """
    return _servers[url].state.most
