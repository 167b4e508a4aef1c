"""
What a hostile string does on a page or to a terminal is noticed.
"""

import html
import json

import pytest

from tests.support.browser import BROWSER, MISSING
from torture import hostile_terminal
from torture.hostile_pages import WatchedBrowser, without_stand_ins
from torture.hostile_strings import STRINGS

TEA = 'tea \x1b and \u202e rain'
# how a terminal is changed, and what tells so
CHANGES = {
    '\x1b]2;owned\x1b\\': 'pane_title',
    '\x1b]52;c;b3duZWQ=\x07': 'clipboard',
    '\x1b[?25l': 'cursor_flag',
    '\x1b[?1049h': 'alternate_on',
    '\x1b[31m': 'last line',
    '\x1b[6n': 'typed',
}
PROBE = f"""
import json, sys, tty
from pathlib import Path
from torture.hostile_terminal import state
tty.setcbreak(0)
changed, before = {{}}, state()
for text in {list(CHANGES)!r}:
    sys.stdout.write(text)
    now = state()
    changed[text] = [name for name in now if now[name] != before[name]]
    before = now
Path(sys.argv[1], 'problems.json').write_text(json.dumps(changed))
"""


def test_there_are_a_hundred_different_strings():
    assert len(set(STRINGS)) == 100


def test_stand_ins_are_read_back():
    assert without_stand_ins('tea ␛ and ⟨U+202E⟩ rain') == TEA
    assert without_stand_ins('␡␀⟨U+10FFFF⟩') == '\x7f\0\U0010ffff'


@pytest.mark.skipif(BROWSER is None, reason=MISSING)
def test_a_page_that_does_not_escape_is_noticed(tmp_path):
    site = '<img src=http://canary.invalid/2>'
    script = '<script>document.documentElement.dataset.ran1=1</script>'
    shown = html.escape(STRINGS[3])
    page = tmp_path / 'page.html'
    page.write_text(
        f'<meta charset="utf-8"><p>{shown}</p>{script}{site}'
        '<button onfocus="ran4=1">x</button>'
        # a policy that the browser is told to overlook
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'">'
    )
    with WatchedBrowser(tmp_path / 'profile') as browser:
        browser.open(page)
        seen = browser.see(page)
    assert 'a script ran' in seen.problem(1, '', False)
    assert 'an address was asked' in seen.problem(2, '', False)
    assert seen.problem(3, STRINGS[3], True) == ''
    assert 'it became an element' in seen.problem(4, '', False)
    assert 'not shown as it is' in seen.problem(5, STRINGS[5], True)


@pytest.mark.skipif(hostile_terminal.TMUX is None, reason='there is no tmux')
@pytest.mark.slow
def test_whatever_changes_a_terminal_is_noticed(tmp_path):
    printed = hostile_terminal.printed_in_tmux(['-c', PROBE, str(tmp_path)], tmp_path)
    changed = json.loads((tmp_path / 'problems.json').read_text())
    for text, name in CHANGES.items():
        assert name in changed[text]
        assert text in printed and hostile_terminal.ACTING.search(text)
