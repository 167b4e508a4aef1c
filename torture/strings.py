"""
A hundred hostile strings, wherever others' words are shown: on every page in a real
browser, and in what commands print in a real terminal.

Held: no script ran, no address was asked, no string became an element of a page; each
is shown as it is, hidden characters by their stand-ins; the terminal is as it was, and
no character that it would obey has reached it.
"""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path

from tests.support.browser import BROWSER, MISSING
from torture.figure import Figure, Settings, try_all
from torture.hostile_pages import see_pages
from torture.hostile_strings import STRINGS
from torture.hostile_terminal import TMUX, print_all

PART = 'strings'
WHAT = 'hostile strings on pages (browser) and in a terminal'


def figure(settings: Settings) -> Figure:
    """
    Show every string everywhere, then ask for each whether it was held.
    """
    begin = time.perf_counter()
    numbers = settings.numbers(len(STRINGS))
    pages = problems_on_pages(settings.folder / 'pages', numbers)
    terminal = problems_in_terminal(settings.folder / 'terminal', numbers)

    def trial(number: int, rng: random.Random) -> str:
        found = [p[number] for p in (pages, terminal) if number in p]
        return f'{STRINGS[number][:60]!r}: {"; ".join(found)}' if found else ''

    result = try_all(PART, WHAT, len(STRINGS), trial, settings)
    return replace(result, seconds=time.perf_counter() - begin)


def problems_on_pages(folder: Path, numbers: list[int]) -> dict[int, str]:
    """
    Return what is wrong with a string on any page, by the string's number.
    """
    if BROWSER is None:
        raise RuntimeError(MISSING)
    folder.mkdir()
    strings = {number: STRINGS[number] for number in numbers}
    problems: dict[int, str] = {}
    for page, there in see_pages(folder, strings):
        for number in numbers:
            problem = page.problem(number, STRINGS[number], number in there)
            if problem:
                problems.setdefault(number, problem)
        if page.asked:
            line = f'{page.name}: asked was {page.asked[0]}'
            problems.setdefault(min(there), line)
    return problems


def problems_in_terminal(folder: Path, numbers: list[int]) -> dict[int, str]:
    """
    Return what a string did to the terminal, by the string's number.
    """
    if TMUX is None:
        raise RuntimeError('tmux is needed: no terminal can be had without it')
    folder.mkdir()
    return print_all(folder, numbers)
