"""
A secret is printed nowhere: not by `print`, a log handler, a warning or a traceback.
"""

import logging
import sys

import pytest

from parlai_ext.commands.command import Command
from parlai_ext.core import hide_printed, name_secret
from tests.support.run_python import run_python

SECRET = 'sk-"Zq81-xkT0'


@pytest.fixture(autouse=True)
def secret(monkeypatch):
    monkeypatch.setenv('PRINTED_KEY', SECRET)
    name_secret('PRINTED_KEY')


class Telling(Command):
    """
    A command that prints a secret in every way.
    """

    def run(self):
        handler = logging.StreamHandler(sys.stderr)
        print('told', SECRET, {'key': SECRET})
        sys.stdout.writelines([f'{SECRET}\n'])
        print(f'error {SECRET}', file=sys.stderr)
        handler.emit(logging.makeLogRecord({'msg': f'logged {SECRET}'}))


def test_what_a_command_prints_has_no_secret(capsys):
    before = sys.stdout
    Telling.execute({})
    printed = ''.join(capsys.readouterr())
    assert SECRET not in printed
    assert printed.count('$PRINTED_KEY') == 5
    assert sys.stdout is before


def test_a_stream_is_otherwise_as_it_was(printed):
    stream = sys.stdout
    with hide_printed():
        assert sys.stdout.encoding == stream.encoding
        assert sys.stdout.write('tea') == 3
        assert sys.stdout.isatty() is stream.isatty()
    assert printed() == 'tea'


def test_a_traceback_has_no_secret():
    code = (
        'from parlai_ext.core import name_secret\n'
        'name_secret("PRINTED_KEY")\n'
        f'raise ValueError({SECRET!r})\n'
    )
    ended = run_python(code)
    assert ended.returncode == 1
    assert SECRET not in ended.stderr and 'ValueError: $PRINTED_KEY' in ended.stderr
