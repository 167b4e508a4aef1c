"""
Commands that print hostile strings, in a real terminal: tmux.

`python -m torture.hostile_terminal FOLDER NUMBER …` runs inside of tmux. For each
string it runs commands whose output has it, then asks tmux what has become of the
terminal.
`print_all` starts it there and reads what it found, and every byte that was printed.
"""

import contextlib
import json
import os
import re
import select
import shlex
import shutil
import subprocess
import sys
import time
import tty
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from parlai_ext.commands.command import run_directly
from parlai_ext.files.csv_file import csv_text
from parlai_ext.store.atomic import write_file
from torture.hostile_strings import STRINGS

TMUX = shutil.which('tmux')
SESSION, WINDOW = 'torture', 'torture:0.0'
SOCKET = 'TORTURE_SOCKET'  # what its terminal is told, so that two suites have two
# what escape sequences can change of a terminal
STATE = (
    'pane_title window_name cursor_flag cursor_shape alternate_on insert_flag '
    'keypad_cursor_flag keypad_flag mouse_any_flag mouse_all_flag origin_flag '
    'wrap_flag scroll_region_upper scroll_region_lower pane_in_mode'
)
PROBE = 'plain words'
MARK = '=== string '
# characters that act: of C0 all but tab and line ends, C1, those that turn text round
ACTING = re.compile(
    '[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\u061c]'
)
# what a terminal may be told by a program, and is not by a name that tmux gives
OPTIONS = {
    'allow-passthrough': 'on',
    'allow-rename': 'on',
    'set-clipboard': 'on',
    'automatic-rename': 'off',
}
PROBLEMS = 'problems.json'
DEADLINE = 900  # seconds for all strings


def print_all(folder: Path, numbers: list[int]) -> dict[int, str]:
    """
    Return what did not hold in the terminal, by the number of the string.

    :param folder: for files of the trials.
    """
    words = ['-m', __name__, str(folder), *map(str, numbers)]
    printed = printed_in_tmux(words, folder)
    text = (folder / PROBLEMS).read_text(encoding='utf-8')
    problems = {int(number): problem for number, problem in json.loads(text).items()}
    for part in printed.split(MARK)[1:]:
        number, _, text = part.partition('\n')
        if match := ACTING.search(text):
            place = text[max(0, match.start() - 60) : match.end() + 20]
            problems.setdefault(int(number), f'it reached the terminal: {place!r}')
    return problems


def printed_in_tmux(words: list[str], folder: Path) -> str:
    """
    Run Python in a terminal of its own until it has written its problems; return all
    that it printed.

    :param words: arguments of Python.
    """
    os.environ[SOCKET] = f'torture-{os.getpid()}'
    raw = folder / 'printed.txt'
    command = shlex.join([sys.executable, *words])
    tmux('kill-server', check=False)
    root = str(Path(__file__).parents[1])
    # a moment for the options below; then long enough to be looked at
    shell = f'sleep 1; {command} 2>&1; sleep {DEADLINE}'
    begin = ('-f', os.devnull, 'new-session', '-d', '-x', '100', '-y', '50')
    tmux(*begin, '-s', SESSION, '-c', root, shell)
    try:
        for name, value in OPTIONS.items():
            for kind in ('-g', '-wg'):
                tmux('set-option', kind, name, value, check=False)
        tmux('pipe-pane', '-t', WINDOW, f'cat >> {shlex.quote(str(raw))}')
        end = time.monotonic() + DEADLINE
        while not (folder / PROBLEMS).exists():
            if time.monotonic() > end:
                shown = tmux('capture-pane', '-p', '-t', WINDOW)
                raise TimeoutError(f'the commands did not end: {shown[-500:]}')
            time.sleep(0.1)
        time.sleep(0.3)  # for the last bytes
    finally:
        tmux('kill-server', check=False)
    return raw.read_bytes().decode('utf-8', 'backslashreplace')


def tmux(*words: str, check: bool = True) -> str:
    """
    Return what a command of tmux prints.
    """
    done = subprocess.run(
        [str(TMUX), '-L', os.environ[SOCKET], *words],
        capture_output=True,
        text=True,
        check=check,
    )
    return done.stdout


def state() -> dict[str, str]:
    """
    Return what the terminal is like now.
    """
    sys.stdout.flush()
    wanted = '\t'.join(f'#{{{name}}}' for name in STATE.split())
    values = tmux('display-message', '-p', '-t', WINDOW, wanted).rstrip('\n')
    found = dict(zip(STATE.split(), values.split('\t'), strict=False))
    found['clipboard'] = tmux('list-buffers')
    typed = []
    while select.select([0], [], [], 0)[0]:
        typed.append(os.read(0, 1000))
    found['typed'] = repr(b''.join(typed)) if typed else ''
    print(f'\n{PROBE}', flush=True)
    time.sleep(0.02)
    shown = tmux('capture-pane', '-p', '-e', '-J', '-t', WINDOW).rstrip('\n')
    found['last line'] = shown.split('\n')[-1]
    return found


def commands(folder: Path, text: str) -> Iterator[tuple[str, list[str]]]:
    """
    Yield the commands with their arguments.
    """
    folder.mkdir()
    write_files(folder, text)
    paths = {path.stem: str(path) for path in folder.iterdir()}
    run_dir = ['--run-dir', str(folder / 'run')]
    begin = ['--config', paths['protocol'], '--check-sample', '0']
    yield 'evaluate_systems', [*begin, *run_dir]
    yield 'rank_systems', [*run_dir, '--human-scores', paths['people']]
    for name in ('named', 'agent', 'file'):
        yield 'check_roster', ['--roster', paths[name]]
    yield 'evaluate_systems', ['--config', paths['wrong'], *run_dir]
    if '\0' not in text:  # which no argument of a program holds
        yield 'rank_systems', ['--run-dir', text[:200]]
        yield 'report_run', [*run_dir, '--no-such-option', text]
    imported = ['--run-dir', str(folder / 'imported')]
    yield 'import_dialogues', ['--dialogues', paths['talks'], *imported]


def write_files(folder: Path, text: str) -> None:
    """
    Write the files that the commands read.
    """

    def system(name: str, agent: str = 'Says', **opt: str) -> dict[str, Any]:
        model = f'torture.hostile_agents:{agent}'
        return {'name': name, 'opt': {'model': model, 'fixed_response': text, **opt}}

    protocol = {
        'pairing': 'bipartite',
        'openers': 'ext:everyday_openers',
        'num_dialogues': 1,
        'num_turns': 4,
        'scorer': {'name': 'length'},
        'ranking': {'bootstraps': 5},
        'roster': {
            'targets': [
                system('ann'),
                *(system(name, 'Raises') for name in ('bob', 'dan')),
                system('eve', 'Fails'),
            ],
            'partners': [system('cem')],
        },
    }
    named = {'name': 'ann', 'opt': {'model_file': text, text: text}}
    files: dict[str, Any] = {
        'protocol': protocol,
        'wrong': {**protocol, text: text},
        'named': {'targets': [system(text)]},
        'agent': {'targets': [system('ann', model=text)]},
        'file': {'targets': [named]},
    }
    for name, data in files.items():
        (folder / f'{name}.yaml').write_text(yaml.safe_dump(data))
    head = ['system', 'dimension', 'value', 'rater']
    rows = [head, [text, 'Overall', 1, text], ['ann', text, text, text]]
    (folder / 'people.csv').write_text(csv_text(rows), encoding='utf-8', newline='')
    speakers = (text, 'you')
    turns = [{'id': who, 'text': text, 'episode_done': False} for who in speakers]
    line = {'dialog': [turns, turns], 'context': [], 'metadata_path': text}
    (folder / 'talks.jsonl').write_text(json.dumps(line) + '\n')


def main(words: list[str]) -> None:
    """
    Run the commands for each string and write what did not hold.
    """
    from torture.misbehaving import load_libraries

    folder, numbers = Path(words[0]), [int(word) for word in words[1:]]
    load_libraries(folder / 'first')
    tty.setcbreak(0)  # a terminal's answer to a program ends with no line
    problems: dict[int, str] = {}
    before = state()
    for number in numbers:
        print(f'{MARK}{number}', flush=True)
        try:
            for name, arguments in commands(folder / str(number), STRINGS[number]):
                print(f'$ {name}', flush=True)
                with contextlib.suppress(SystemExit):
                    run_directly(name, arguments)
        except Exception as error:
            problems[number] = f'{type(error).__name__}: {error}'[:200]
        now = state()
        changed = {name: now[name] for name in now if now[name] != before[name]}
        if changed:
            problems.setdefault(number, f'the terminal has changed: {changed}')
            before = now
    write_file(folder / PROBLEMS, json.dumps(problems).encode())


if __name__ == '__main__':
    main(sys.argv[1:])
