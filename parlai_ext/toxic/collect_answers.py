"""
Asks systems the prompts, and keeps their answers in a folder.

A block of questions is asked as a whole, from random numbers of its own, and written
when it is finished, so that a killed command goes on after the last whole block. The
folder's name is a hash of all that the answers depend on: other prompts, another seed
or another model go to another folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from parlai_ext.collect.resolved import ResolvedProtocol, resolve_protocol
from parlai_ext.core.display import single_spaced
from parlai_ext.core.errors import SystemFailed, UserError
from parlai_ext.core.machine import Machine
from parlai_ext.core.nouns import Roster, System, content_id
from parlai_ext.core.progress import PlainBar, bar_of
from parlai_ext.core.protocol import Protocol
from parlai_ext.data.recorded_answers import Answer
from parlai_ext.models.threads import fit_threads
from parlai_ext.store.atomic import locked, make_folder, write_file
from parlai_ext.store.lines import decode_shard, encode_shard
from parlai_ext.systems.agent_code import raise_unless_of_agent
from parlai_ext.systems.model_cache import ModelCache, memory_for_weights
from parlai_ext.systems.players import (
    BLANK,
    EMPTY,
    Participant,
    Player,
    Reply,
    in_words,
)
from parlai_ext.systems.system_options import model_path
from parlai_ext.toxic.measures import Prompt
from parlai_ext.worlds.block_player import load_on, seed_all

BLOCK = 64  # questions that are asked together by a system that samples
USER = 'user'


@dataclass(frozen=True)
class Questions:
    """
    The questions to one system: each prompt so many times, in blocks.

    :param folder: of its answers.
    :param samples: it draws its answers at random.
    """

    system: System
    prompts: Sequence[Prompt]
    per_prompt: int
    folder: Path
    samples: bool

    def blocks(self) -> list[tuple[Path, list[Prompt]]]:
        """
        Return the file of each block, and its prompts.
        """
        asked = [prompt for prompt in self.prompts for _ in range(self.per_prompt)]
        return [
            (self.folder / f'{start // BLOCK:05}.jsonl', asked[start : start + BLOCK])
            for start in range(0, len(asked), BLOCK)
        ]


def collect_answers(
    systems: Sequence[System],
    prompts: Sequence[Prompt],
    folder: Path,
    machine: Machine,
    *,
    per_prompt: int = 1,
    seed: int = 0,
    skip_missing: bool = False,
) -> tuple[list[Answer], list[str]]:
    """
    Return the answers of the systems that can be had, those that are there already
    included, and why others cannot.

    :param per_prompt: answers of a system that samples; others have one.
    :param skip_missing: leave out systems that cannot be had.
    :raises UserError: when a system cannot be had and such are not to be left out.
    """
    roster = Roster(tuple(systems))
    resolved = resolve_protocol(
        Protocol(name='answers', roster=roster), {}, machine.datapath, skip_missing
    )
    asked = [
        _questions(system, prompts, folder, machine, resolved, per_prompt, seed)
        for system in resolved.protocol.roster.targets
    ]
    problems = {name: f'{name}: {why}' for name, why in resolved.missing.items()}
    make_folder(folder)
    with locked(folder / '.lock'):
        problems |= _ask_missing(asked, machine, seed)
    answers = [
        answer
        for questions in asked
        if questions.system.name not in problems
        for number, (path, _) in enumerate(questions.blocks())
        for answer in _read_block(path, number)
    ]
    return answers, list(problems.values())


def _questions(
    system: System,
    prompts: Sequence[Prompt],
    folder: Path,
    machine: Machine,
    resolved: ResolvedProtocol,
    per_prompt: int,
    seed: int,
) -> Questions:
    samples = system.name in resolved.sampling
    per_prompt = per_prompt if samples else 1
    digest = content_id(
        resolved.identities[system.name],
        resolved.candidates.get(system.name),
        [prompt.text for prompt in prompts],
        [prompt.id for prompt in prompts],
        per_prompt,
        machine.fp16,
        seed if samples else None,
    )
    letters = ''.join(c if c.isalnum() else '_' for c in system.name)
    return Questions(
        system, prompts, per_prompt, folder / f'{letters[:40]}-{digest}', samples
    )


def _ask_missing(
    asked: Sequence[Questions], machine: Machine, seed: int
) -> dict[str, str]:
    """
    Ask what has no answer yet. Return why systems could not go on.
    """
    missing = {
        questions.system.name: [
            (number, path, prompts)
            for number, (path, prompts) in enumerate(questions.blocks())
            if not path.is_file()
        ]
        for questions in asked
    }
    n_missing = sum(len(block[2]) for blocks in missing.values() for block in blocks)
    todo = [questions for questions in asked if missing[questions.system.name]]
    fit_threads(model_path(one.system, machine.datapath) for one in todo)
    cache = ModelCache(
        lambda system: load_on(machine, system),
        memory_for_weights(machine.no_cuda, machine.max_gpu_memory),
        datapath=machine.datapath,
    )
    with bar_of('answers', n_missing, unit='answer') as bar:
        for questions in todo:
            name = questions.system.name
            bar.set_postfix_str(name, refresh=False)
            player = cache.load_all([questions.system]).get(name)
            for number, path, prompts in missing[name] if player else ():
                assert player is not None
                seed_all(content_id('answers', seed, name, number))
                width = BLOCK if questions.samples else machine.batchsize
                try:
                    replies = _ask_block(player, prompts, width, bar)
                except SystemFailed as error:
                    cache.drop_failed(error)
                    break
                answers = map(_answer, prompts, replies, [name] * len(prompts))
                records = [asdict(answer) for answer in answers]
                write_file(path, encode_shard(records, number))
    cache.clear()
    return cache.problems


def _ask_block(
    player: Player, prompts: Sequence[Prompt], width: int, bar: PlainBar
) -> list[Reply]:
    """
    Return a reply to each prompt, each in a dialogue of its own.

    :raises SystemFailed: when the system cannot go on.
    """
    replies = []
    for start in range(0, len(prompts), width):
        part = prompts[start : start + width]
        begun = [_begin(player, prompt) for prompt in part]
        ready = [one for one in begun if isinstance(one, Participant)]
        answered = iter(player.respond(ready) if ready else [])
        replies += [
            next(answered) if isinstance(one, Participant) else one for one in begun
        ]
        bar.update(len(part))
    return replies


def _begin(player: Player, prompt: Prompt) -> Participant | Reply:
    """
    Return a dialogue in which the system has heard a prompt, or why it could not.

    :raises SystemFailed: when the system cannot go on.
    """
    try:
        participant = player.join()
        participant.hear(prompt.text, USER)
    except UserError as error:
        raise SystemFailed(player.name, str(error)) from error
    except BaseException as error:
        raise_unless_of_agent(error)
        return Reply(None, in_words(error))
    return participant


def _answer(prompt: Prompt, reply: Reply, name: str) -> Answer:
    """
    Return the answer that a reply is: an empty one is an answer, an error is none.
    """
    text = '' if reply.reason in (BLANK, EMPTY) else reply.text
    text = None if text is None else single_spaced(text)
    return Answer(name, '', text, reply.deflected, reply.reason, prompt.id)


def _read_block(path: Path, number: int) -> list[Answer]:
    records = decode_shard(path.read_bytes(), number, path)
    return [Answer(**record) for record in records]
