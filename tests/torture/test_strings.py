"""
What a hostile string does on a page or to a terminal is noticed.
"""

import html

import pytest

from tests.support.browser import BROWSER, MISSING
from torture import strings
from torture.hostile_strings import STRINGS
from torture.strings import WatchedBrowser, printed_problem, without_stand_ins

TEA = 'tea \x1b and \u202e rain'
# what changes a terminal: its title, clipboard, cursor, screen, colour and input
ACTS = ('\x1b]2;x\x1b\\', '\x1b]52;c;b3duZWQ=\x07', '\x1b[?25l', '\x9b31m', '\x1b[6n')
PAGE = (
    '<meta charset="utf-8"><p>{shown}</p>'
    '<script>document.documentElement.dataset.ran1=1</script>'
    '<img src=http://canary.invalid/2><button onfocus="ran4=1">x</button>'
    # a policy that the browser is told to overlook
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'">'
)


def test_there_are_a_hundred_different_strings():
    assert len(set(STRINGS)) == 100


def test_stand_ins_are_read_back():
    assert without_stand_ins('tea ␛ and ⟨U+202E⟩ rain') == TEA
    assert without_stand_ins('␡␀⟨U+10FFFF⟩') == '\x7f\0\U0010ffff'


@pytest.mark.skipif(BROWSER is None, reason=MISSING)
def test_a_page_that_does_not_escape_is_noticed(tmp_path):
    page, plain = tmp_path / 'page.html', tmp_path / 'plain.html'
    page.write_text(PAGE.format(shown=html.escape(STRINGS[3])))
    plain.write_text(f'<meta charset="utf-8"><p>{html.escape(STRINGS[3])}</p>')
    button = tmp_path / 'button.html'
    button.write_text('<button onfocus="dataset.ran4=1">x</button>')
    with WatchedBrowser(tmp_path / 'profile') as browser:
        assert 'a script ran' in browser.problem(page, 1, '')
        assert 'an address was asked' in browser.problem(page, 3, STRINGS[3])
        assert browser.problem(plain, 3, STRINGS[3]) == ''
        assert 'it became an element' in browser.problem(button, 4, 'x')
        assert 'not shown as it is' in browser.problem(plain, 5, STRINGS[5])


@pytest.mark.parametrize('text', ['tea', *ACTS])
def test_what_acts_on_a_terminal_is_noticed(tmp_path, monkeypatch, text):
    monkeypatch.setattr(strings, 'commands', lambda folder, text: [[text]])
    monkeypatch.setattr(strings, 'run_directly', lambda name, words: print(name))
    problem = printed_problem(tmp_path, text)
    assert problem.startswith('it reached the terminal') == (text in ACTS)
    assert (problem == '') == (text == 'tea')
