"""
What a model or a server says is printed, never obeyed by the terminal.
"""

import os
import subprocess
import sys

import pytest

from parlai_ext.commands import plugin
from parlai_ext.commands.check_roster import CheckRoster
from parlai_ext.commands.command import fail
from parlai_ext.core.errors import printable
from tests.support.tiny_models import make_generator, with_options


@pytest.mark.parametrize(
    'said, spelled',
    [
        ('plain – ünï 你', 'plain – ünï 你'),
        ('two\nlines', 'two lines'),
        ('\x1b]0;title\x07', '\\x1b]0;title\\x07'),
        ('ready\rDONE', 'ready\\rDONE'),
        ('\u202egnp', '\\u202egnp'),
        ('\ud800', '\\ud800'),  # which print() cannot encode
        ('\x9b2J', '\\x9b2J'),  # an escape of one byte
    ],
)
def test_characters_that_a_terminal_obeys_are_spelled_out(said, spelled, capsys):
    assert printable(said) == spelled
    with pytest.raises(SystemExit):
        fail(said)
    assert capsys.readouterr().err == f'error: {spelled}\n'


def test_a_models_own_options_do_not_reach_the_terminal(tmp_path, capsys):
    plugin.register()
    path = make_generator(tmp_path)
    with_options(path, model='strange\x1b[2J\x07:One')
    capsys.readouterr()
    CheckRoster.main('--add-target', f'x={path}')
    printed = capsys.readouterr().out
    assert 'strange\\x1b[2J\\x07:One' in printed
    assert '\x1b' not in printed and '\x07' not in printed


@pytest.mark.parametrize('module', ['parlai_ext', 'parlai'])
@pytest.mark.parametrize('encoding', ['ascii', 'ascii:surrogateescape'])
def test_characters_that_the_output_cannot_encode_are_spelled_out(module, encoding):
    command = [sys.executable, '-m', module, 'report_run', '--help']
    env = {**os.environ, 'PYTHONIOENCODING': encoding}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, '')
    assert '--run-dir FOLDER [option \\u2026]' in done.stdout
