"""
The docs name files, links and commands that exist, and their Python snippets run. A
page can be read in one sitting, and the first hour is run, one command after another.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from parlai_ext.commands.command import COMMANDS
from tests.support.repository import ROOT, docs_page
from tests.support.small_run import small_config

PAGES = [ROOT / 'README.md', *sorted((ROOT / 'docs').glob('*.md'))]
TOPS = {path.name for path in (*ROOT.iterdir(), *(ROOT / 'parlai_ext').iterdir())}
# commands of ParlAI itself, and any command
PARLAI = {
    'setup',
    'COMMAND',
    'help',
    'eval_model',
    'self_chat',
    'train_model',
    'display_data',
    'interactive',
}

MOST_WORDS = 1500
# pages of tables and printed output; of these, too, the text between them is bounded
REFERENCE = {
    'annotation',  # options, columns of files
    'audit_demos',  # what the audit prints
    'composite',
    'judged_sets',
    'judges_compared',
    'paireval',
    'papers',
    'stopping_method',
}

each_page = pytest.mark.parametrize('page', PAGES, ids=lambda path: path.name)


@each_page
def test_files_that_a_page_names_exist(page):
    text = page.read_text('utf-8')
    paths = re.findall(r'`((?:\w+/)+(?:\w+\.(?:py|yaml|md|j2))?)`', text)
    named = [path for path in paths if path.split('/')[0] in TOPS]
    missing = [
        path
        for path in named
        if not (ROOT / path).exists() and not (ROOT / 'parlai_ext' / path).exists()
    ]
    assert missing == []


def anchors(page):
    """
    Return the anchors of a page's headings, as GitHub makes them.
    """
    heads = re.findall(r'^#+ (.*)', page.read_text('utf-8'), re.MULTILINE)
    return {re.sub(r'[^\w\- ]', '', h.lower()).replace(' ', '-') for h in heads}


@each_page
def test_links_of_a_page_lead_somewhere(page):
    for link in re.findall(r'\]\(([^)\s]+)\)', page.read_text('utf-8')):
        path, _, anchor = link.partition('#')
        target = page.parent / path if path else page
        if '://' not in link:
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link


@each_page
def test_commands_of_a_page_exist(page):
    text = page.read_text('utf-8')
    names = set(re.findall(r'(?:`|^    )parlai(?:-ext)? (\w+)', text, re.MULTILINE))
    assert names - {*COMMANDS} - PARLAI == set()
    benchmarks = set(re.findall(r'python -m benchmarks\.(\w+)', text))
    there = {path.stem for path in (ROOT / 'benchmarks').iterdir()}
    assert benchmarks - there == {'NAME'} & benchmarks


def test_the_readme_is_short_and_the_index_names_every_page():
    readme = (ROOT / 'README.md').read_text('utf-8')
    assert len(readme.split('\n')) <= 91
    index = docs_page('index')
    there = {path.name for path in PAGES} - {'README.md', 'index.md'}
    assert there - set(re.findall(r'\]\(([^)]+)\)', index)) == set()


def test_python_snippets_run_in_order(tmp_path, monkeypatch):
    # the demo with its ladder and one partner, whose judge is checked on few replies
    monkeypatch.setattr('parlai_ext.judge_check.check.MIN_SAMPLE', 4)
    demo = repr(small_config(tmp_path, targets=5, partners=1))
    name = 'docs/python.md'
    text = (ROOT / name).read_text('utf-8')
    snippets = re.findall(r'^```python\n(.*?)^```', text, re.DOTALL | re.MULTILINE)
    assert snippets
    monkeypatch.chdir(tmp_path)
    names = {'__name__': 'docs'}
    assert "evaluate('demo'" in snippets[0]
    for snippet in snippets:
        exec(compile(snippet.replace("'demo'", demo), name, 'exec'), names)


def test_judged_sets_and_those_never_read_are_counted():
    page = docs_page('judged_sets')
    cards = {p.stem for p in (ROOT / 'zoo_configs' / 'judged').glob('*.yaml')}
    unread = len(re.findall(r'^\| `\w+` .*\| not at hand \|', page, re.MULTILINE))
    claim = f'{len(cards - {"own"})} judged sets ({unread} of them never read'
    assert claim in docs_page('commands')


def text_words(page):
    """
    Return the number of words outside of tables and code blocks.
    """
    text = re.sub(r'^```.*?^```', '', page, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r'(?:\A|\n\n)(?: {4}.*(?:\n|\Z)+)+', '\n\n', text)
    return len(re.sub(r'^ *\|.*$', '', text, flags=re.MULTILINE).split())


@each_page
def test_a_page_has_at_most_1500_words(page):
    text = page.read_text('utf-8')
    assert text_words(text) <= MOST_WORDS
    assert page.stem in REFERENCE or len(text.split()) <= MOST_WORDS


# The first hour of a new user

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
