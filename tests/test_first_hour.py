"""
The first hour of a new user: the commands of docs/first_hour.md, one after another.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.repository import docs_page

CONSOLE = re.compile(r'^```console\n(.*?)^```', re.DOTALL | re.MULTILINE)


def steps():
    """
    Return each command of the page with the lines that it shows.
    """
    blocks = ''.join(CONSOLE.findall(docs_page('first_hour')))
    for part in re.split(r'^\$ ', blocks, flags=re.MULTILINE)[1:]:
        line, _, shown = part.partition('\n')
        if '<<' in line:
            text, _, shown = shown.partition('END\n')
            line = f'{line}\n{text}END'
        yield line, shown.splitlines()


def without_numbers(text):
    """
    Return a text whose numbers and runs of blanks do not count.
    """
    return re.sub(r'[−-]?[\d.,]+', '0', re.sub(r'\s+', ' ', text)).strip()


@pytest.mark.slow
def test_the_first_hour_goes_as_its_page_says(tmp_path):
    path = f'{Path(sys.executable).parent}{os.pathsep}{os.environ["PATH"]}'
    env = {**os.environ, 'PATH': path, 'COLUMNS': '88'}
    for command, shown in steps():
        done = subprocess.run(
            ['bash', '-c', command],
            cwd=tmp_path,
            env=env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        if 'cannot be reached' in done.stdout:
            pytest.skip(f'the models of the default judge cannot be fetched: {command}')
        assert done.returncode == 0, f'{command}\n{done.stdout}'
        said = [without_numbers(line) for line in done.stdout.splitlines()]
        for line in shown:
            begin = without_numbers(line.partition('…')[0])
            assert any(one.startswith(begin) for one in said), (line, done.stdout)
