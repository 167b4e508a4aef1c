"""
A hundred hostile strings, in what commands print in a terminal, and on the pages that
they write, in a real browser. What has to hold is in docs/torture.md.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import select
import time
from pathlib import Path
from typing import Any

from parlai_ext.core import UserError
from tests.support.browser import BROWSER, MISSING, READER, Browser
from tests.support.hostile_strings import CANARY, RUN, SCRIPTS, TEXTS
from torture.inputs import TABLE
from torture.trials import Trials, run_here

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

    names = STRINGS
    count = len(names)

    def __init__(self, folder: Path):
        super().__init__(folder)
        if BROWSER is None:
            raise RuntimeError(MISSING)
        self.browser = self.enter_context(WatchedBrowser(folder / 'profile'))
        self.lay_out(TABLE['string_files'], _words('tea'))
        with contextlib.suppress(UserError):  # some of the systems fail
            run_here(TABLE['strings'][0], self.work)

    def try_case(self, name: str, rng: random.Random) -> str:
        text, problem = name, ''
        self.lay_out(TABLE['string_files'], _words(text))
        for line in TABLE['strings']:
            # no argument of a program holds a null byte
            if not problem and ('TEXT' not in line or '\0' not in text):
                problem = self.printed_problem(line, text)
        if not problem and not (self.work / 'run' / 'report.html').exists():
            problem = 'no report'
        for page in sorted(self.work.rglob('*.html')):
            problem = problem or self.browser.problem(page, text)
        return problem

    def printed_problem(self, line: str, text: str) -> str:
        """
        Run a command in a terminal of its own and return what of its output is wrong.
        """
        ours, theirs = os.openpty()
        child = self.start(line, {'TEXT': text}, terminal=theirs)
        os.close(theirs)
        end = time.monotonic() + DEADLINE
        # reading fails when no process has the terminal any more
        with contextlib.suppress(OSError), child.log.open('ab') as log:
            while time.monotonic() < end:
                if select.select([ours], [], [], 1.0)[0]:
                    log.write(os.read(ours, 65536))
        os.close(ours)
        if match := ACTING.search(child.output):
            place = child.output[max(0, match.start() - 60) : match.end() + 20]
            return f'it reached the terminal: {place!r}'
        return child.problem(0, 1, 2)


def _words(text: str) -> dict[str, str]:
    # ParlAI's parser takes a value that begins with a dash for an option
    value = f' {text}' if text.startswith('-') else text
    return {'WORDS': value, 'NAME': text[:40], 'TEXT': text}


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
    Return the text that a page shows by visible stand-ins for characters.
    """
    shown = re.sub('[\u2400-\u241f]', lambda m: chr(ord(m[0]) - 0x2400), shown)
    shown = shown.replace('\u2421', '\x7f')
    return re.sub('⟨U\\+([0-9A-F]{4,6})⟩', lambda m: chr(int(m[1], 16)), shown)
