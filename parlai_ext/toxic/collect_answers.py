"""
Asks systems the prompts, and keeps their answers in a folder.

A block of questions is asked as a whole, from random numbers of its own, and kept when
it is finished, so that a killed command goes on after the last block that was kept. The
name of a file is a hash of all that its answers depend on: other prompts, another seed
or another model go to another file.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from parlai_ext.collect.plan import ResolvedProtocol, resolve_protocol
from parlai_ext.core.display import single_spaced
from parlai_ext.core.errors import SystemFailed, UserError
from parlai_ext.core.machine import Machine
from parlai_ext.core.nouns import Roster, System, content_id
from parlai_ext.core.progress import PlainBar, bar_of
from parlai_ext.core.protocol import Protocol
from parlai_ext.data.recorded_answers import RecordedAnswer
from parlai_ext.store.atomic import locked
from parlai_ext.store.partial import PartialWork
from parlai_ext.systems.agent_code import raise_unless_of_agent
from parlai_ext.systems.model_cache import (
    ModelCache,
    fit_threads,
    memory_for_weights,
)
from parlai_ext.systems.players import (
    BLANK,
    EMPTY,
    Participant,
    Player,
    Reply,
    in_words,
)
from parlai_ext.toxic.measures import Prompt
from parlai_ext.worlds.block_player import load_on, seed_all

BLOCK = 64  # questions that are asked together by a system that samples
USER = 'user'


@dataclass(frozen=True)
class Questions:
    """
    The questions to one system: each prompt so many times, in blocks.

    :param samples: it draws its answers at random.
    :param work: the file of the answers.
    :param answers: of the blocks that are finished, as records.
    """

    system: System
    blocks: Sequence[Sequence[Prompt]]
    samples: bool
    work: PartialWork
    answers: dict[int, list[dict[str, Any]]]

    @property
    def missing(self) -> list[int]:
        """
        The blocks that have no answers yet.
        """
        return [n for n in range(len(self.blocks)) if n not in self.answers]


def collect_answers(
    systems: Sequence[System],
    prompts: Sequence[Prompt],
    folder: Path,
    machine: Machine,
    *,
    per_prompt: int = 1,
    seed: int = 0,
    skip_missing: bool = False,
) -> tuple[list[RecordedAnswer], list[str]]:
    """
    Return the answers of the systems that can be had, those that are there already
    included, and why others cannot.

    :param per_prompt: answers of a system that samples; others have one.
    :param skip_missing: leave out systems that cannot be had.
    :raises UserError: when a system cannot be had and such are not to be left out.
    """
    roster = Roster(tuple(systems))
    resolved = resolve_protocol(
        Protocol(name='answers', roster=roster), {}, skip_missing
    )
    problems = {name: f'{name}: {why}' for name, why in resolved.missing.items()}
    with locked(folder / '.lock'):
        asked = [
            _questions(
                system,
                prompts,
                per_prompt if system.name in resolved.sampling else 1,
                folder,
                resolved,
                (machine.fp16, seed if system.name in resolved.sampling else None),
            )
            for system in resolved.protocol.roster.targets
        ]
        problems |= _ask_missing(asked, machine, seed)
    answers = [
        RecordedAnswer(**record)
        for questions in asked
        if questions.system.name not in problems
        for number in range(len(questions.blocks))
        for record in questions.answers[number]
    ]
    return answers, list(problems.values())


def _questions(
    system: System,
    prompts: Sequence[Prompt],
    per_prompt: int,
    folder: Path,
    resolved: ResolvedProtocol,
    how: Sequence[Any],
) -> Questions:
    """
    Return the questions to a system, with the answers that are there.

    :param how: what the answers depend on besides the system and its prompts.
    """
    digest = content_id(
        resolved.identities[system.name],
        resolved.candidates.get(system.name),
        [prompt.text for prompt in prompts],
        [prompt.id for prompt in prompts],
        per_prompt,
        *how,
    )
    letters = ''.join(c if c.isalnum() else '_' for c in system.name)
    work = PartialWork(folder / f'{letters[:40]}-{digest}.jsonl', digest)
    asked = [prompt for prompt in prompts for _ in range(per_prompt)]
    blocks = [asked[start : start + BLOCK] for start in range(0, len(asked), BLOCK)]
    stored = {number: work.get(str(number)) for number in range(len(blocks))}
    answers = {number: block for number, block in stored.items() if block is not None}
    return Questions(system, blocks, system.name in resolved.sampling, work, answers)


def _ask_missing(
    asked: Sequence[Questions], machine: Machine, seed: int
) -> dict[str, str]:
    """
    Ask what has no answer yet. Return why systems could not go on.
    """
    todo = [questions for questions in asked if questions.missing]
    n_missing = sum(len(one.blocks[number]) for one in todo for number in one.missing)
    fit_threads(one.system for one in todo)
    cache = ModelCache(
        lambda system: load_on(machine, system),
        memory_for_weights(machine.no_cuda, machine.max_gpu_memory),
    )
    with bar_of('answers', n_missing, unit='answer') as bar:
        for questions in todo:
            name, work = questions.system.name, questions.work
            bar.set_postfix_str(name, refresh=False)
            player = cache.load_all([questions.system]).get(name)
            if player is None:
                continue
            width = BLOCK if questions.samples else machine.batchsize
            with work.saved_at_exit():
                for number in questions.missing:
                    seed_all(content_id('answers', seed, name, number))
                    prompts = questions.blocks[number]
                    try:
                        replies = _ask_block(player, prompts, width, bar)
                    except SystemFailed as error:
                        cache.drop_failed(error)
                        break
                    records = [
                        asdict(_answer(prompt, reply, name))
                        for prompt, reply in zip(prompts, replies, strict=True)
                    ]
                    questions.answers[number] = records
                    work.put(str(number), records)
            work.save()
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


def _answer(prompt: Prompt, reply: Reply, name: str) -> RecordedAnswer:
    """
    Return the answer that a reply is: an empty one is an answer, an error is none.
    """
    text = '' if reply.reason in (BLANK, EMPTY) else reply.text
    text = None if text is None else single_spaced(text)
    return RecordedAnswer(name, '', text, reply.deflected, reply.reason, prompt.id)
