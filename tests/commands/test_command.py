"""
What every command has: home folders, one document of JSON, output that is safe.
"""

import json
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from parlai_ext import __main__
from parlai_ext.__main__ import completion_script
from parlai_ext.commands.build_pairs import BuildPairs
from parlai_ext.commands.collect_dialogues import CollectDialogues
from parlai_ext.commands.command import Command, find_command
from parlai_ext.core import UserError, option
from parlai_ext.view import VisibleOutput
from parlai_ext.view.progress import LogLines, bar_of


def test_the_home_folder_is_found_where_no_shell_did_it(monkeypatch):
    monkeypatch.setenv('HOME', '/home/me')
    given = ['--config=~/p.yaml', '--run-dir=~/r', '--datapath=~/d']
    opt = CollectDialogues.parser().parse_args(given)
    assert (opt.config, opt.run_dir, opt.datapath) == (
        '/home/me/p.yaml',
        '/home/me/r',
        '/home/me/d',
    )
    # what is called FILE or FOLDER is a path, wherever it is
    assert BuildPairs.parser().parse_args(['--out=~/p.jsonl']).out == '/home/me/p.jsonl'


def test_a_package_that_ranking_and_report_lack_is_one_line(monkeypatch, exit_line):
    def lack(name, args):
        raise ModuleNotFoundError("No module named 'pandas'", name='pandas')

    monkeypatch.setattr(__main__, 'run_directly', lack)
    line = exit_line(__main__.main, ['report_run'])
    assert line.startswith('error: report_run ') and "'pandas'" in line


OWNED = '\x1b]0;owned\x07\u202e\x9b2J\r'


@dataclass(frozen=True)
class NameOptions:
    name: str | None = option(None, choices=('tea',), help='a name')


class Says(Command):
    """
    Prints a name of others, and stumbles over it.
    """

    declares = (NameOptions,)

    def run(self):
        print(f'parlai doctor {OWNED}\tand\n')
        raise UserError(f'no system {OWNED}')


def test_what_a_command_prints_stays_as_it_is_and_acts_on_no_terminal(
    capsys, monkeypatch
):
    monkeypatch.setattr(sys, 'argv', ['parlai-ext'])
    with pytest.raises(SystemExit):
        Says.execute({})
    with pytest.raises(SystemExit):
        Says.parser().parse_args(['--name', OWNED])
    captured = capsys.readouterr()
    assert captured.out == 'parlai doctor ␛]0;owned␇⟨U+202E⟩⟨U+009B⟩2J␍\tand\n\n'
    assert '\\x1b]0;owned\\x07\\u202e' in captured.err
    assert not set(OWNED) - set(']0;owned2J') & set(captured.err)


class Counts(Command):
    """
    Has a result, and prints a line and a bar.
    """

    def run(self):
        print('two names')
        with bar_of('count', 2) as bar:
            bar.update(2)
        return {'options': NameOptions('tea'), 'mean': float('nan'), 'n': np.int64(2)}


@pytest.mark.parametrize('quiet', [False, True])
def test_json_is_one_document_and_all_else_is_elsewhere(quiet, capsys, monkeypatch):
    monkeypatch.setattr(LogLines, 'hidden', False)
    Counts.execute({'json': True, 'quiet': quiet})
    captured = capsys.readouterr()
    expected = {'options': {'name': 'tea'}, 'mean': None, 'n': 2}
    assert json.loads(captured.out) == expected
    assert ('two names' in captured.err, '2/2' in captured.err) == (not quiet,) * 2


def test_limit_is_another_name_for_how_much_is_evaluated():
    parser = find_command('evaluate_systems').parser()
    assert parser.parse_args(['--limit', '3']).num_dialogues == 3
    with pytest.raises(SystemExit):
        parser.parse_args(['--limit', '0.5'])


def test_the_tab_key_completes_commands_and_flags():
    line = (
        'COMP_WORDS=(parlai-ext {}); COMP_CWORD={}; _parlai_ext; echo ${{COMPREPLY[@]}}'
    )
    tries = [('eval', 1), ('rank_systems --run', 2), ('rank_systems --js', 2)]
    script = '\n'.join([completion_script(), *(line.format(*one) for one in tries)])
    done = subprocess.run(['bash', '-c', script], capture_output=True, text=True)
    assert done.stdout.split() == ['evaluate_systems', '--run-dir', '--json']


def test_a_long_text_is_printed_whole(printed):
    words = 'tea ' * 10_000
    VisibleOutput(sys.stdout).write(words)
    assert printed() == words
