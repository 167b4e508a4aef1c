"""
What a hostile string does on a page or to a terminal is noticed.
"""

import html

import pytest

from torture import strings
from torture.strings import (
    STRINGS,
    Strings,
    WatchedBrowser,
    without_stand_ins,
)
from torture.trials import Trials

TEA = 'tea \x1b and \u202e rain'
# what changes a terminal: its title, clipboard, cursor, screen, colour and input
ACTS = ('\x1b]2;x\x1b\\', '\x1b]52;c;b3duZWQ=\x07', '\x1b[?25l', '\x9b31m', '\x1b[6n')
HEAD = (
    '<meta charset="utf-8">'
    # a policy that the browser is told to overlook
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'">'
)


def test_there_are_a_hundred_different_strings():
    assert len(set(STRINGS)) == 100


def test_stand_ins_are_read_back():
    assert without_stand_ins('tea ␛ and ⟨U+202E⟩ rain') == TEA
    assert without_stand_ins('␡␀⟨U+10FFFF⟩') == '\x7f\0\U0010ffff'


def test_a_page_that_does_not_escape_is_noticed(tmp_path):
    def page(name, content):
        path = tmp_path / f'{name}.html'
        path.write_text(f'{HEAD}{content}')
        return path

    running = page('running', f'<script>{strings.RUN}</script>')
    asking = page('asking', '<img src=http://canary.invalid>')
    button = page('button', f'<button oncopy="{strings.RUN}">x</button>')
    plain = page('plain', f'<p>{html.escape(STRINGS[3])}</p>')
    with WatchedBrowser(tmp_path / 'profile') as browser:
        assert 'a script ran' in browser.problem(running, '')
        assert 'an address was asked' in browser.problem(asking, '')
        assert browser.problem(plain, STRINGS[3]) == ''
        assert 'it became an element' in browser.problem(button, 'x')
        assert 'not shown as it is' in browser.problem(plain, STRINGS[5])


@pytest.mark.parametrize('text', ['tea', *ACTS])
def test_what_acts_on_a_terminal_is_noticed(tmp_path, monkeypatch, text):
    monkeypatch.setattr('parlai_ext.__main__.main', lambda words: print(words[0]))
    monkeypatch.setattr(Strings, '__init__', Trials.__init__)  # starts no browser
    trials = Strings(tmp_path)
    trials.work.mkdir()
    problem = trials.printed_problem('TEXT', text)
    assert problem.startswith('it reached the terminal') == (text in ACTS)
    assert (problem == '') == (text == 'tea')
