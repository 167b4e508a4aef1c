"""
Systems and endpoints that misbehave, one in a run of systems that do not.

Held: the command ends in time, without a traceback and without an exit of its own; the
other systems' dialogues are complete and have the bytes of a run without it; it is
named in one line or its words are stored exactly; nothing outside of the run folder is
written; memory stays bounded; the run can be read again.
"""

import os
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import yaml

from parlai_ext.commands import plugin
from parlai_ext.commands.command import run_directly
from parlai_ext.core.json_text import without_half_characters
from parlai_ext.store import RunFolder
from parlai_ext.systems import own_process
from torture import misbehaving_agents, misbehaving_endpoints
from torture.commands import quiet
from torture.figure import Settings, Trial
from torture.forked import Forked, run_forked

AGENTS = 'torture.misbehaving_agents'
BAD = 'misfit'
DEADLINE = 60.0  # seconds for a run; one without a misfit takes about one
MEMORY = 1_500_000_000  # bytes that a run may have, its libraries among them
LIMIT = 2 * 2**30  # bytes at which there is none left
SHARE_OF_MEMORY = 0.1  # of what is free, for a process of a system
OURS = {'run', 'protocol.yaml', 'openers.csv', 'output.txt', 'manifest.json'}
FLAGS = [
    '--num-turns=6',
    '--num-dialogues=3',
    '--batchsize=2',
    '--seed=0',
    '--reply-timeout=2',
]
RANKED = ('--check-sample=0', '--bootstraps=10')
REMOTE: dict[str, Any] = {
    'model': 'ext:remote',
    'remote_model': 'tiny',
    'remote_dated_model': 'tiny',
    'remote_cache': 'none',
    'remote_timeout': 1.0,
    'remote_retries': 1,
    'remote_price_prompt': 1.0,
    'remote_price_completion': 1.0,
    'remote_concurrency': 2,
}
OPENERS = ''.join(
    f'd{n},{i},{text} {n}\n'
    for n in range(3)
    for i, text in ((1, 'hello'), (2, 'good day'))
)


@dataclass(frozen=True)
class Misfit:
    """
    A system that misbehaves.

    :param name: of its class or of its path.
    :param opt: its options.
    :param text: what is to be stored of it, if that is text.
    """

    name: str
    opt: dict[str, Any]
    text: str | None = None


def all_misfits(url: str) -> list[Misfit]:
    """
    Return every misbehaving agent and endpoint.

    :param url: of the server of the endpoints.
    """
    texts = {**misbehaving_agents.TEXTS, **misbehaving_endpoints.TEXTS}
    models = {name: {'model': f'{AGENTS}:{name}'} for name in misbehaving_agents.AGENTS}
    for name in misbehaving_endpoints.ACTS:
        models[name] = {**REMOTE, 'remote_url': f'{url}/{name}/v1'}
    return [Misfit(name, opt, texts.get(name)) for name, opt in models.items()]


@contextmanager
def misfits(settings: Settings) -> Iterator[tuple[int, Trial]]:
    """
    Let every misfit take part in a run.
    """
    load_libraries(settings.folder / 'first')
    log = settings.folder / 'asked.txt'
    with misbehaving_endpoints.serving(log) as url:
        cases = all_misfits(url)
        alone = settings.folder / 'without'
        ended = evaluate(alone, None)
        assert ended.code == 0, ended.output
        expected = shards_of_others(alone)

        def trial(number: int, rng: random.Random) -> str:
            misfit = cases[number]
            log.unlink(missing_ok=True)
            folder = settings.folder / f'{number}-{misfit.name}'
            problem = play_with(folder, misfit, expected)
            asked = set(log.read_text().split()) if log.exists() else set()
            wanted = {misfit.name} & misbehaving_endpoints.ACTS.keys()
            if not problem and asked != wanted:
                problem = f'asked was {asked}, not {wanted}'
            return problem and f'{misfit.name}: {problem}'

        yield len(cases), trial


def load_libraries(folder: Path) -> None:
    """
    Make a run in this process, so that forked ones have all libraries.
    """
    # a fork of a process with OpenMP's threads waits for threads that it lacks
    os.environ.setdefault('OMP_NUM_THREADS', '1')
    torch.set_num_threads(1)
    own_process.SHARE_OF_MEMORY = SHARE_OF_MEMORY
    plugin.register()
    for module in ('parlai_ext.agents.remote.remote', 'httpx2', 'truststore'):
        import_module(module)
    write_protocol(folder)
    with quiet():
        run_directly('evaluate_systems', [*arguments(folder), *RANKED])


def play_with(folder: Path, misfit: Misfit, expected: dict[str, bytes]) -> str:
    """
    Return what did not hold in a run with a misfit; '' if all did.

    :param expected: the shards of the other systems.
    """
    run = folder / 'run'
    ended = evaluate(folder, misfit)
    if problem := ended.problem(DEADLINE, MEMORY):
        return problem
    if more := set(os.listdir(folder)) - OURS:
        return f'written beside the run: {sorted(more)}'
    if shards_of_others(folder) != expected:
        return 'the other systems have other dialogues'
    if not (run / 'ranking.json').exists() or not (run / 'report.html').exists():
        return f'no ranking or no report: {ended.output[-300:]}'
    if misfit.text is None:
        return named_problem(ended.output)
    said = {
        utterance.text
        for dialogue in RunFolder.existing(run).iter_dialogues()
        for utterance in dialogue.utterances
        if utterance.speaker == BAD and not utterance.given
    }
    stored = without_half_characters(misfit.text)
    return '' if said == {stored} else f'stored: {[t[:60] for t in said]}'


def named_problem(output: str) -> str:
    """
    Return '' if a line names the misfit and a reason.
    """
    lines = re.split(r'[\n\r]', output)
    is_named = any(re.search(rf'{BAD}\W.*\w', line) for line in lines)
    return '' if is_named else f'nobody names it: {output[-300:]}'


def shards_of_others(folder: Path) -> dict[str, bytes]:
    """
    Return the dialogue files of all pairs without the misfit.
    """
    run = RunFolder.existing(folder / 'run')
    theirs = {p.id for p in run.pairings if BAD not in (p.first, p.second)}
    root = run.root / 'dialogues'
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob('*.jsonl'))
        if path.parent.name in theirs
    }


def evaluate(folder: Path, misfit: Misfit | None, *more: str) -> Forked:
    """
    Run `evaluate_systems` in a folder that is the working folder, with a misfit among
    its targets.
    """
    write_protocol(folder, misfit and misfit.opt)

    def work() -> None:
        os.chdir(folder)
        words = [*arguments(Path()), *RANKED, *more]
        run_directly('evaluate_systems', words)

    return run_forked(work, folder / 'output.txt', DEADLINE, LIMIT)


def arguments(folder: Path) -> list[str]:
    """
    Return a command's arguments for the protocol in a folder.
    """
    config, run = folder / 'protocol.yaml', folder / 'run'
    return ['--config', str(config), '--run-dir', str(run), *FLAGS]


def write_protocol(
    folder: Path, opt: dict[str, Any] | None = None, alone: bool = False
) -> None:
    """
    Write a protocol and its openers into a folder, which is made where there is none.

    :param opt: options of a misfit among the two targets.
    :param alone: it is the only target.
    """

    def entry(name: str) -> dict[str, Any]:
        return {'name': name, 'opt': {'model': f'{AGENTS}:Talker'}}

    bad = [{'name': BAD, 'opt': opt}] if opt else []
    targets = bad if alone else [entry('ann'), *bad, entry('bob')]
    protocol = {
        'pairing': 'bipartite',
        'openers_file': 'openers.csv',
        'scorer': {'name': 'length'},
        'roster': {'targets': targets, 'partners': [entry('cem')]},
    }
    folder.mkdir(exist_ok=True)
    (folder / 'protocol.yaml').write_text(yaml.safe_dump(protocol))
    head = 'conv_id,utterance_idx,utterance\n'
    (folder / 'openers.csv').write_text(f'{head}{OPENERS}')
