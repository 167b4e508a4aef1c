"""
A hundred hostile strings, wherever others' words are shown: in what commands print in a
terminal, and on the pages that they write, in a real browser.

Held: no script ran, no address was asked, no string became an element of a page; each
is shown as it is, hidden characters by their stand-ins; no character that a terminal
would obey has reached it.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import threading
from pathlib import Path
from typing import Any

import yaml

from parlai_ext.commands.command import run_directly
from tests.support.browser import BROWSER, MISSING, READER, Browser
from tests.support.forked import Forked
from tests.support.hostile_strings import CANARY, RUN, SCRIPTS, TEXTS
from torture import Trials
from torture.inputs import (
    AGENTS,
    PEOPLE,
    TABLE,
    load_libraries,
    protocol_of,
    write_rows,
)

STRINGS = (*SCRIPTS, *TEXTS)
DEADLINE = 300.0  # seconds for the commands of one string
# characters that act: of C0 all but tab and line ends, C1, those that turn text round
ACTING = re.compile(
    '[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\u061c]'
)
# attributes that would do something
ACTIVE = 'src srcset href xlink:href action formaction data srcdoc ping style content'
ATTRIBUTES = f"""[...document.querySelectorAll('*')].flatMap((e) => [...e.attributes]
  .filter((a) => a.name.startsWith('on')
    || {json.dumps(ACTIVE.split())}.includes(a.name))
  .map((a) => a.name + '=' + a.value.slice(0, 300)))"""


class Strings(Trials):
    """
    Lets commands meet every string, and a browser open the pages that they write.
    """

    count = len(STRINGS)

    def __init__(self, folder: Path):
        super().__init__(folder)
        if BROWSER is None:
            raise RuntimeError(MISSING)
        load_libraries(folder / 'first')
        self.browser = WatchedBrowser(folder / 'profile')
        self.browser.__enter__()

    def close(self) -> None:
        self.browser.__exit__(None, None, None)

    def trial(self, number: int, rng: random.Random) -> str:
        text, folder = STRINGS[number], self.folder / str(number)
        write_files(folder, text)
        problem = printed_problem(folder, text)
        if not problem and not (folder / 'run' / 'report.html').exists():
            problem = 'no report'
        for page in sorted(folder.rglob('*.html')):
            problem = problem or self.browser.problem(page, text)
        return problem and f'{text[:60]!r}: {problem}'


# ---- in a terminal


def printed_problem(folder: Path, text: str) -> str:
    """
    Run the commands in a terminal of their own and return what of their output is
    wrong.
    """
    ours, theirs = os.openpty()
    parts: list[bytes] = []

    def work() -> None:
        for number in range(3):
            os.dup2(theirs, number)
        os.chdir(folder)
        for line in TABLE['strings']:
            # no argument of a program holds a null byte
            if 'TEXT' not in line or '\0' not in text:
                words = [text if word == 'TEXT' else word for word in line.split()]
                with contextlib.suppress(SystemExit):
                    run_directly(words[0], words[1:])

    def read() -> None:
        with contextlib.suppress(OSError):
            while part := os.read(ours, 65536):
                parts.append(part)

    reader = threading.Thread(target=read)
    child = Forked(work, folder / 'output.txt')
    os.close(theirs)
    reader.start()  # after the fork, which takes only the thread that forks
    child.wait_or_kill(DEADLINE)
    reader.join()
    os.close(ours)
    shown = b''.join(parts).decode('utf-8', 'backslashreplace')
    if child.code != 0:
        return f'exit code {child.code}: {(shown + child.output)[-300:]}'
    if match := ACTING.search(shown):
        place = shown[max(0, match.start() - 60) : match.end() + 20]
        return f'it reached the terminal: {place!r}'
    return ''


def write_files(folder: Path, text: str) -> None:
    """
    Write the files that the commands read.
    """
    # ParlAI's parser takes a value that begins with a dash for an option
    words = f' {text}' if text.startswith('-') else text

    def says(agent: str = 'Says', **opt: str) -> dict[str, Any]:
        return {'model': f'{AGENTS}:{agent}', 'fixed_response': words, **opt}

    targets = {'ann': 'Says', 'dan': 'Says', 'bob': 'Raises', 'eve': 'Fails'}
    agents = {name: says(agent) for name, agent in targets.items()}
    protocol = protocol_of(agents, {'cem': says()})
    protocol |= {'num_dialogues': 1, 'ranking': {'bootstraps': 5}}
    files: dict[str, Any] = {
        'protocol': protocol,
        'wrong': {**protocol, text: text},
        'named': {'targets': [{'name': text, 'opt': says()}]},
        'agent': {'targets': [{'name': 'ann', 'opt': says(model=text)}]},
        'file': {'targets': [{'name': 'ann', 'opt': {'model_file': text, text: text}}]},
    }
    folder.mkdir()
    for name, data in files.items():
        (folder / f'{name}.yaml').write_text(yaml.safe_dump(data))
    people = [(text, 'Overall', 1, text), ('ann', text, text, text)]
    write_rows(folder / 'people.csv', PEOPLE, people)
    turns = [{'id': who, 'text': text, 'episode_done': False} for who in (text, 'you')]
    line = {'dialog': [turns, turns], 'context': [], 'metadata_path': text}
    (folder / 'talks.jsonl').write_text(json.dumps(line) + '\n')
    (folder / 'words.txt').write_text('grunk\n')
    head = ('id', 'toxic', 'answer')
    write_rows(folder / 'toxic.csv', head, [(k, f'{text} {k}', text) for k in range(4)])
    answers = [(who, k, text) for who in (text[:40], 'old') for k in range(4)]
    write_rows(folder / 'answers.csv', ('system', 'id', 'answer'), answers)


# ---- on pages


class WatchedBrowser(Browser):
    """
    A browser that remembers which addresses its page asks, and obeys no policy of a
    page, so that only escaping keeps scripts from running.
    """

    def __enter__(self) -> WatchedBrowser:
        self.asked: list[str] = []
        super().__enter__()
        self.ask('Network.enable')
        self.ask('Page.setBypassCSP', enabled=True)
        return self

    def _next(self) -> dict[str, Any]:
        message: dict[str, Any] = super()._next()
        if message.get('method') == 'Network.requestWillBeSent':
            self.asked.append(message['params']['request']['url'])
        return message

    def problem(self, path: Path, text: str) -> str:
        """
        Open a page, do all that a reader can, and return what came of a string that it
        shows; '' if nothing did.
        """
        self.asked = []
        self.open(path)
        if path.name.startswith('rate'):  # an annotator begins
            self.evaluate(f"document.getElementById('name').value = {json.dumps(text)}")
            self.press('Enter')
        seen = without_stand_ins(self.evaluate(READER))
        if self.has_run():
            return f'{path.name}: a script ran'
        own = ('about:', 'data:', path.resolve().as_uri())
        if asked := [url for url in self.asked if not url.startswith(own)]:
            return f'{path.name}: an address was asked: {asked[0]}'
        attributes = self.evaluate(ATTRIBUTES)
        if any(mark in one for one in attributes for mark in (RUN, CANARY)):
            return f'{path.name}: it became an element'
        # in lines of a table of answers, white space is one blank
        if path.name != 'safety.html' and text not in seen:
            return f'{path.name}: it is not shown as it is'
        return ''


def without_stand_ins(shown: str) -> str:
    """
    Return the text that a page shows: the characters in the place of their visible
    stand-ins.
    """
    shown = re.sub('[\u2400-\u241f]', lambda m: chr(ord(m[0]) - 0x2400), shown)
    shown = shown.replace('\u2421', '\x7f')
    return re.sub('⟨U\\+([0-9A-F]{4,6})⟩', lambda m: chr(int(m[1], 16)), shown)
