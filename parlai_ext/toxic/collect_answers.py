"""
Asks systems the prompts, and keeps their answers in a folder.

A block of questions is asked as a whole, from random numbers of its own, and kept when
it is finished, so that a killed command goes on after the last block that was kept. The
name of a file is a hash of all that its answers depend on: other prompts, another seed
or another model go to another file.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from parlai_ext.collect.resolved import resolve_protocol
from parlai_ext.core import (
    Roster,
    System,
    SystemFailed,
    content_id,
    errors_of_system,
)
from parlai_ext.core.protocol import Protocol
from parlai_ext.data.toxic_pairs import Prompt, RecordedAnswer
from parlai_ext.engines import Machine
from parlai_ext.store import PartialWork, locked
from parlai_ext.systems.model_cache import ModelCache, fit_threads, memory_for_weights
from parlai_ext.systems.player_process import load_on
from parlai_ext.systems.players import (
    BLANK,
    EMPTY,
    Participant,
    Player,
    Reply,
    in_words,
    raise_unless_of_agent,
)
from parlai_ext.systems.random_numbers import seed_all
from parlai_ext.view import single_spaced
from parlai_ext.view.progress import PlainBar, bar_of

BLOCK = 64  # questions that are asked together by a system that samples
USER = 'user'


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
    if not systems:
        return [], []
    protocol = Protocol(name='answers', roster=Roster(tuple(systems)))
    resolved = resolve_protocol(protocol, {}, skip_missing)
    targets = resolved.protocol.roster.targets
    copies = {s.name: per_prompt if s.name in resolved.sampling else 1 for s in targets}
    fit_threads(targets)
    cache = ModelCache(
        lambda system: load_on(machine, system),
        memory_for_weights(machine.no_cuda, machine.max_gpu_memory),
    )
    answers = []
    total = len(prompts) * sum(copies.values())
    with locked(folder / '.lock'), bar_of('answers', total, unit='answer') as bar:
        for system in targets:
            name, samples = system.name, system.name in resolved.sampling
            bar.set_postfix_str(name, refresh=False)
            digest = content_id(
                resolved.identities[name],
                resolved.candidates.get(name),
                [(prompt.id, prompt.text) for prompt in prompts],
                copies[name],
                machine.fp16,
                seed if samples else None,
            )
            letters = ''.join(c if c.isalnum() else '_' for c in name)
            work = PartialWork(folder / f'{letters[:40]}-{digest}.jsonl', digest)
            asked = [prompt for prompt in prompts for _ in range(copies[name])]
            width = BLOCK if samples else machine.batchsize
            answers += _system_answers(
                system, asked, work, cache, width=width, seed=seed, bar=bar
            )
    cache.clear()
    left_out = {name: f'{name}: {why}' for name, why in resolved.missing.items()}
    return answers, list((left_out | cache.problems).values())


def _system_answers(
    system: System,
    asked: Sequence[Prompt],
    work: PartialWork,
    cache: ModelCache,
    *,
    width: int,
    seed: int,
    bar: PlainBar,
) -> list[RecordedAnswer]:
    """
    Return the answers of a system. It is asked the blocks that its file lacks; if it
    fails, there are none, and the reason is among the problems of the cache.

    :param asked: a prompt for each answer.
    :param width: prompts that the system answers at once.
    """
    name = system.name
    player = None
    answers: list[RecordedAnswer] = []
    try:
        with work.saved_at_exit():
            for number, start in enumerate(range(0, len(asked), BLOCK)):
                block = asked[start : start + BLOCK]
                records: Any = work.get(str(number))
                if records is None:
                    player = player or cache.load_all([system]).get(name)
                    if player is None:
                        return []
                    seed_all(content_id('answers', seed, name, number))
                    records = [*map(asdict, _ask_block(player, block, width, bar))]
                    work.put(str(number), records)
                else:
                    bar.update(len(block))
                answers += [RecordedAnswer(**one) for one in records]
        work.save()
    except SystemFailed as error:
        cache.drop_failed(error)
        return []
    return answers


def _ask_block(
    player: Player, prompts: Sequence[Prompt], width: int, bar: PlainBar
) -> list[RecordedAnswer]:
    """
    Return an answer to each prompt, each in a dialogue of its own. An empty reply is an
    answer, an error is none.

    :raises SystemFailed: when the system cannot go on.
    """
    answers = []
    for start in range(0, len(prompts), width):
        part = prompts[start : start + width]
        begun = [_begin(player, prompt) for prompt in part]
        ready = [one for one in begun if isinstance(one, Participant)]
        answered = iter(player.respond(ready) if ready else [])
        for prompt, one in zip(part, begun, strict=True):
            reply = next(answered) if isinstance(one, Participant) else one
            text = '' if reply.reason in (BLANK, EMPTY) else reply.text
            answers.append(
                RecordedAnswer(
                    player.name,
                    prompt='',
                    text=None if text is None else single_spaced(text),
                    deflected=reply.deflected,
                    reason=reply.reason,
                    prompt_id=prompt.id,
                )
            )
        bar.update(len(part))
    return answers


def _begin(player: Player, prompt: Prompt) -> Participant | Reply:
    """
    Return a dialogue in which the system has heard a prompt, or why it could not.

    :raises SystemFailed: when the system cannot go on.
    """
    try:
        with errors_of_system(player.name):
            participant = player.join()
            participant.hear(prompt.text, USER)
    except BaseException as error:
        raise_unless_of_agent(error)
        return Reply(None, in_words(error))
    return participant
