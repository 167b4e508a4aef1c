"""
Every benchmark starts in the same way, and `python -m benchmarks` lists it.
"""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import first_lines
from benchmarks.chatmatch.__main__ import OPTIONS, main
from benchmarks.support.measures import start

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize('name', first_lines())
def test_every_benchmark_shows_how_it_is_started(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, 'argv', [name, '--help'])
    # as in a new process: other tests import some of them
    for module in (f'benchmarks.{name}', f'benchmarks.{name}.__main__'):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(SystemExit) as exit:
        runpy.run_module(f'benchmarks.{name}', run_name='__main__', alter_sys=True)
    assert exit.value.code == 0
    assert f'python -m benchmarks.{name}' in capsys.readouterr().out


def test_a_mistake_of_the_user_is_one_line(tmp_path, monkeypatch, capsys):
    folder = tmp_path / 'nothing'
    monkeypatch.setattr(sys, 'argv', ['chatmatch', '--data', str(folder)])
    with pytest.raises(SystemExit) as exit:
        start(main, None, **OPTIONS)
    assert exit.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f'error: {folder}/human_judgement.xlsx: not found')


def test_the_list_names_every_benchmark_with_a_sentence():
    command = [sys.executable, '-m', 'benchmarks']
    listing = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    files = ROOT.glob('benchmarks/*.py')
    names = {path.stem for path in files if not path.stem.startswith('__')}
    lines = [line.split(maxsplit=1) for line in listing.split('\n')[2:] if line]
    assert {name for name, _ in lines} == names | {
        'chatmatch',
        'learned_judge',
        'validity',
    }
    assert all(sentence.endswith('.') for _, sentence in lines)
