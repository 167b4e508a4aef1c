"""
A chat endpoint that misbehaves on request.

`python -m tests.support.chat_server` prints its port and serves until stdin closes.

Replies depend on the conversation alone. `POST /control` sets what `State` has, of
which `script` is a list of misbehaviours, one for each of the next requests; `GET /log`
tells what was received.
"""

import hashlib
import json
import os
import socket
import struct
import sys
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WORDS = ('tea', 'rain', 'book', 'song', 'hill', 'boat', 'bread', 'garden', 'winter')
PATIENCE = 150  # seconds that a request waits for others, or hangs


@dataclass
class State:
    """
    How the server behaves, and what it has seen.

    `hold`: answer only when so many requests are here. `usage`: tell the numbers of
    tokens. `echo`: reply with the messages.
    """

    model: str | None = 'tiny-2024-05-13'
    script: list = field(default_factory=list)
    hold: int = 1
    usage: bool = True
    echo: bool = False
    log: list = field(default_factory=list)
    here: int = 0
    most: int = 0


class Server(ThreadingHTTPServer):
    """
    One thread a request, none of which outlives the program.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self):
        super().__init__(('127.0.0.1', 0), Handler)
        self.state = State()
        self.changed = threading.Condition()

    def handle_error(self, request, client_address):
        """
        Say nothing: clients that go away are what is tested.
        """


class Handler(BaseHTTPRequestHandler):
    """
    Speaks both formats.
    """

    protocol_version = 'HTTP/1.1'
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def do_GET(self):
        state = self.server.state
        if self.path != '/log':
            state.log.append({'path': self.path})
        self.send({'log': state.log, 'most': state.most})

    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        server, state = self.server, self.server.state
        if self.path == '/control':
            with server.changed:
                server.state = State(**json.loads(body))
                server.changed.notify_all()
            return self.send({})
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
            self.drip(b'Content-Length: 1000\r\n\r\n')
        elif act == 'drip head':
            self.drip(b'X-Long: ')
        else:
            self.reply(body, act)

    def drip(self, head):
        """
        Begin an answer, and send a byte now and then.
        """
        self.wfile.write(b'HTTP/1.1 200 OK\r\n' + head)
        for _ in range(1000):
            self.wfile.write(b' ')
            time.sleep(0.02)
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


def end_with_input():
    """
    End when whoever started us is gone.
    """
    sys.stdin.read()
    os._exit(0)


def main():
    """
    Serve.
    """
    server = Server()
    print(server.server_address[1], flush=True)
    threading.Thread(target=end_with_input, daemon=True).start()
    server.serve_forever()


if __name__ == '__main__':
    main()
