"""
A run that takes a fraction of a second: four systems without a model, two scorers, a
ranking of each, agreement with people, an audit, pages for annotators.
"""

import contextlib
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from parlai_ext.commands.command import find_command

PROTOCOL = """
pairing: bipartite
openers: ext:everyday_openers
num_dialogues: 2
num_turns: 4
score: target
scorer: {name: length}
ranking: {bootstraps: 20}
seed: 0
roster:
  targets:
    - {name: echo, opt: {model: repeat_query}}
    - {name: short, opt: {model: fixed_response, fixed_response: "No."}}
  partners:
    - {name: goon, opt: {model: fixed_response, fixed_response: "I see, go on."}}
    - {name: why, opt: {model: fixed_response, fixed_response: "Why is that?"}}
"""
CONFIG = 'tiny.yaml'
RUN = 'run'  # the name of the run folder
HUMAN = 'human.csv'  # judgements of people
OTHER = 'distinct'  # the scorer beside the protocol's


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """
    Keep what is printed inside from the terminal.
    """
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        yield


def run_command(name: str, options: Mapping[str, Any]) -> None:
    """
    Run a command in this process; nothing is shown.

    :raises UserError: what would be its one line.
    """
    with quiet():
        find_command(name).main(**options)


def write_protocol(folder: Path) -> Path:
    """
    Write the protocol of the tiny run into a folder and return its path.
    """
    path = folder / CONFIG
    path.write_text(PROTOCOL)
    return path


def write_judgements(folder: Path) -> None:
    """
    Write what people think of the targets into a folder.
    """
    rows = [f'{name},Overall,{k},r{k}' for name in ('echo', 'short') for k in range(3)]
    lines = ['system,dimension,value,rater', *rows]
    (folder / HUMAN).write_text('\n'.join(lines) + '\n')


def make_run(folder: Path) -> Path:
    """
    Make a run that is scored and ranked by two scorers and return its folder.
    """
    config, run = write_protocol(folder), folder / RUN
    run_command('evaluate_systems', {'config': str(config), 'run_dir': str(run)})
    run_command('score_dialogues', {'run_dir': str(run), 'scorer': OTHER})
    write_judgements(folder)
    for command, options in (
        ('rate_dialogues', {}),
        ('audit_run', {}),
        ('validate_scorer', validation(folder)),
        ('rank_systems', {'scores': OTHER}),
        ('report_run', {'scores': OTHER}),
        ('report_run', {}),  # the page shows the audit
    ):
        run_command(command, {'run_dir': str(run), **options})
    return run


def validation(folder: Path) -> dict[str, Any]:
    """
    Return the options with which `validate_scorer` is run on the tiny run.
    """
    return {'human_scores': str(folder / HUMAN), 'bootstraps': 5}


def files_under(folder: Path) -> dict[str, bytes]:
    """
    Return every file under a folder by its name, but for locks.
    """
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob('*'))
        if path.is_file() and path.name != '.lock'
    }


def differences(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> list[str]:
    """
    Return the names of files that are not the same, or not there, in both.
    """
    names = sorted({*before, *after})
    return [name for name in names if before.get(name) != after.get(name)]
