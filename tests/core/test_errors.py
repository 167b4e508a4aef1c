"""
Errors name the nearest right word; what a model or a server says is printed, never
obeyed by the terminal.
"""

import pytest
from parlai.core.script import superscript_main

from parlai_ext.__main__ import main
from parlai_ext.commands import plugin
from parlai_ext.commands.check_roster import CheckRoster
from parlai_ext.commands.command import fail
from parlai_ext.core import nearest, printable
from tests.support.forked import command_in_child
from tests.support.tiny_models import make_generator, with_options


@pytest.mark.parametrize(
    'said, spelled',
    [
        ('plain – ünï 你', 'plain – ünï 你'),
        ('two\nlines', 'two lines'),
        ('\x1b]0;title\x07\r', '\\x1b]0;title\\x07\\r'),
        ('\u202egnp', '\\u202egnp'),
        ('\ud800', '\\ud800'),  # which print() cannot encode
        ('\x9b2J', '\\x9b2J'),  # an escape of one byte
    ],
)
def test_characters_that_a_terminal_obeys_are_spelled_out(said, spelled, exit_line):
    assert printable(said) == spelled
    assert exit_line(fail, said) == f'error: {spelled}\n'


@pytest.mark.parametrize(
    'word, known, hint',
    [
        ('overal', ['Overall', 'Fluency'], "did you mean 'Overall'?"),
        ('xyz', ['b', 'a'], 'known: a, b'),
        # a word is no hint at itself
        ('demo', ['demo', 'demos'], "did you mean 'demos'?"),
        ('demo', ['demo'], 'known: none'),
    ],
)
def test_the_nearest_name_is_named_or_all_are(word, known, hint):
    assert nearest(word, known) == hint


def test_a_models_own_options_do_not_reach_the_terminal(tmp_path, capsys):
    plugin.register()
    path = make_generator(tmp_path)
    with_options(path, model='strange\x1b[2J\x07:One')
    capsys.readouterr()
    CheckRoster.main('--add-target', f'x={path}')
    printed = capsys.readouterr().out
    assert 'strange\\x1b[2J\\x07:One' in printed
    assert '\x1b' not in printed and '\x07' not in printed


@pytest.mark.parametrize('start', [main, superscript_main])
@pytest.mark.parametrize('unencodable', ['strict', 'surrogateescape'])
def test_characters_that_the_output_cannot_encode_are_spelled_out(
    start, unencodable, tmp_path
):
    # the path is nothing new, but has `parlai` import what it imports at a start
    given = {'path': [tmp_path], 'encoding': 'ascii', 'unencodable': unencodable}
    done = command_in_child(start, 'report_run', '--help', **given)
    assert (done.code, done.errors) == (0, '')
    assert '--run-dir FOLDER [option \\u2026]' in done.out
