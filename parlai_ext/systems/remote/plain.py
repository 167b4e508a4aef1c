r"""
The plain format: one POST a reply, for any system that can be put behind a web server.

You have a bot, in any language, and want to evaluate it. Let it answer POST requests
whose body is a JSON object (UTF-8). This is a whole request::

    {"id": "6aebd1e8441ff38d",
     "follows": "2e40a1a869868e0f",
     "turns": [{"speaker": "other", "text": "What did you do today?"},
               {"speaker": "you", "text": "I baked bread."},
               {"speaker": "other", "text": "Oh nice, what kind?"}],
     "text": "Oh nice, what kind?",
     "max_tokens": 128}

turns
    The conversation so far, oldest first. `you` is your bot, `other` its partner. The
    first turns are given by the opener: one may be your bot's, who never said it.
text
    The last turn's text: what is to be replied to. Enough for a bot without a memory.
max_tokens
    About how long a reply may be.
model, temperature, top_p, seed, stop (a list), system_prompt
    As in the roster (`remote_model`, …); absent when not set there. `stop` is applied
    by us too. Whatever `remote_extra` holds is beside them.
id, follows
    `id` is a hash of `turns`: the same conversation has the same id in any dialogue and
    any run, so that a bot that samples can draw the same reply to it again:
    ``random.Random(f'{seed} {id}')``. `follows` is the id that the request of the reply
    before had, and absent at the start. A bot that keeps a state can keep it under `id`
    and go on from the one under `follows`; where it knows no such id (given openers, a
    restart, an answer from the cache), `turns` tells everything.

The answer, with status 200::

    {"text": "Sourdough!", "model": "bakerbot 2024-05-01",
     "usage": {"prompt_tokens": 21, "completion_tokens": 3}}

Only `text` is needed. `model` should change whenever the bot does: a run that began
with another one is then not continued. Without `usage`, tokens are estimated
(characters / 4).

Errors: ``{"error": "what is wrong"}``. With status 200 it concerns this conversation
alone, which ends there. Status 408, 409, 429 and 5xx mean "later": the request is sent
again (after `Retry-After` seconds, if that header is there), at most `remote_retries`
times. Any other status means that the system cannot go on: its dialogues stop, with
your words, and those of other systems go on.

Requests come at most `remote_concurrency` at a time, in any order. There is no request
for a batch: a server that wants batches collects those that are waiting. The key, if
there is one, is the header ``Authorization: Bearer KEY``. Redirects are not followed.
At the start of a run there are requests with the one turn "Hello!".

A whole server (a bot that can do one thing at a time only: `HTTPServer`)::

    import json
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    def reply(turns):  # your bot goes here
        return f'You said: {turns[-1]["text"]}'

    class Bot(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
            answer = {'text': reply(asked['turns']), 'model': 'mybot 1'}
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

    ThreadingHTTPServer(('127.0.0.1', 8123), Bot).serve_forever()

and its entry in any roster::

    - {name: mybot, opt: {model: 'ext:remote', remote_format: plain,
                          remote_url: 'http://127.0.0.1:8123/'}}
"""

from collections.abc import Sequence
from typing import Any

from parlai_ext.core import JsonObject, content_id
from parlai_ext.systems.chat.messages import ChatStyle, ChatTurn
from parlai_ext.systems.remote.settings import (
    RemoteReply,
    Settings,
    error_words,
    read_answer,
)

SPEAKERS = {True: 'you', False: 'other'}


def request(
    turns: Sequence[ChatTurn], style: ChatStyle, settings: Settings
) -> JsonObject:
    """
    Return the body of the request for a reply to ``turns``.
    """
    mine = [i for i, turn in enumerate(turns) if turn.mine]
    before = turns[: mine[-1]] if mine else ()  # to which the bot's last was the reply
    return settings.request_body(
        id=conversation_id(turns),
        follows=conversation_id(before) if before else None,
        turns=[{'speaker': SPEAKERS[t.mine], 'text': t.text} for t in turns],
        text=turns[-1].text if turns else '',
        stop=list(style.stop) or None,
        system_prompt=style.system_prompt or None,
    )


def conversation_id(turns: Sequence[ChatTurn]) -> str:
    """
    Return an id that depends on the utterances and their speakers alone.
    """
    return content_id('conversation', [[SPEAKERS[t.mine], t.text] for t in turns])


def reply(data: Any) -> RemoteReply:
    """
    Read an answer.

    :raises ValueError: when it is no answer of the plain format.
    """
    if not isinstance(data, dict):
        raise ValueError('the answer is no JSON object')
    if data.get('error'):
        return read_answer(data, None, error_words(data) or 'an error without words')
    if 'text' not in data:
        raise ValueError("the answer has no 'text'")
    return read_answer(data, data['text'], 'no text' if data['text'] is None else None)
