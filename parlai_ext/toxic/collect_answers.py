"""
Asks systems the prompts, and keeps their answers in a folder.

A block of questions is asked as a whole, from random numbers of its own, and kept when
it is finished, so that a killed command goes on after the last block that was kept. The
name of a file is a hash of all that its answers depend on: other prompts, another seed
or another model go to another file.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from parlai.core.agents import Agent

from parlai_ext.collect.plan import ResolvedProtocol, resolve_systems
from parlai_ext.core import (
    Opener,
    Pairing,
    System,
    SystemFailed,
    chunks,
    content_id,
    frozen,
)
from parlai_ext.data.corpora import Prompt, RecordedAnswer
from parlai_ext.engines import Machine
from parlai_ext.store import PartialWork, locked
from parlai_ext.systems.model_cache import ModelCache, fit_threads, memory_for_weights
from parlai_ext.systems.parlai_agents import load_on
from parlai_ext.systems.players import BLANK, EMPTY, Player
from parlai_ext.systems.random_numbers import seed_all
from parlai_ext.view import single_spaced
from parlai_ext.view.progress import PlainBar, bar_of
from parlai_ext.worlds.block_player import BatchRow, Lockstep

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
    resolved = resolve_systems(systems, skip_missing)
    targets = resolved.protocol.roster.targets
    fit_threads(targets)
    cache = ModelCache(
        lambda system: load_on(machine, system),
        memory_for_weights(machine.no_cuda, machine.max_gpu_memory),
    )
    asked = [
        questions_for(system, prompts, resolved, folder, machine, per_prompt, seed)
        for system in targets
    ]
    answers = []
    total = sum(len(one.prompts) for one in asked)
    with locked(folder / '.lock'), bar_of('answers', total, unit='answer') as bar:
        for one in asked:
            bar.set_postfix_str(one.system.name, refresh=False)
            answers += one.answers(cache, bar)
    cache.clear()
    left_out = {name: f'{name}: {why}' for name, why in resolved.missing.items()}
    return answers, list((left_out | cache.problems).values())


@frozen
class SystemQuestions:
    """
    What one system is asked, and the file of its answers.

    :param prompts: one for each answer.
    :param digest: a hash of all that the answers depend on.
    :param width: prompts that the system answers at once.
    """

    system: System
    prompts: Sequence[Prompt]
    file: Path
    digest: str
    width: int
    seed: int

    def answers(self, cache: ModelCache, bar: PlainBar) -> list[RecordedAnswer]:
        """
        Return the answers. The system is asked the blocks that its file lacks; if it
        fails, there are none, and the reason is among the problems of the cache.
        """
        name, player = self.system.name, None
        work = PartialWork(self.file, self.digest)
        answers: list[RecordedAnswer] = []
        try:
            with work.saved_at_exit():
                for number, block in enumerate(chunks(self.prompts, BLOCK)):
                    records: Any = work.get(str(number))
                    if records is None:
                        player = player or cache.load_all([self.system]).get(name)
                        if player is None:
                            return []
                        seed_all(content_id('answers', self.seed, name, number))
                        records = [*map(asdict, self._ask(player, block))]
                        work.put(str(number), records)
                    bar.update(len(block))
                    answers += [RecordedAnswer(**one) for one in records]
            work.save()
        except SystemFailed as error:
            cache.drop_failed(error)
            return []
        return answers

    def _ask(
        self, player: Player, prompts: Sequence[Prompt]
    ) -> Iterator[RecordedAnswer]:
        """
        Yield an answer to each prompt, each in a dialogue of its own. An empty reply is
        an answer, an error is none.

        :raises SystemFailed: when the system cannot go on.
        """
        rows = [
            BatchRow(
                Pairing(prompt.id, USER, player.name, 'answers'),
                Opener(prompt.id, (prompt.text,), 'answers'),
            )
            for prompt in prompts
        ]
        players = {USER: Player(USER, Agent({})), player.name: player}
        lockstep = Lockstep(rows, players, num_turns=2, batchsize=self.width)
        _, failed = lockstep.play()
        for error in failed.values():
            raise error
        for prompt, dialogue in zip(prompts, lockstep.dialogues, strict=True):
            text = '' if dialogue.reason in (BLANK, EMPTY) else None
            if dialogue.reason is None:
                text = single_spaced(dialogue.utterances[-1].text)
            yield RecordedAnswer(
                player.name,
                prompt='',
                text=text,
                deflected=dialogue.deflected,
                reason=dialogue.reason,
                prompt_id=prompt.id,
            )


def questions_for(
    system: System,
    prompts: Sequence[Prompt],
    resolved: ResolvedProtocol,
    folder: Path,
    machine: Machine,
    per_prompt: int,
    seed: int,
) -> SystemQuestions:
    """
    Return what a system is asked, and in which file of a folder its answers are kept.

    :param per_prompt: answers of a system that samples.
    """
    samples = system.name in resolved.sampling
    copies = per_prompt if samples else 1
    digest = content_id(
        resolved.identities[system.name],
        resolved.candidates.get(system.name),
        [(prompt.id, prompt.text) for prompt in prompts],
        copies,
        machine.fp16,
        seed if samples else None,
    )
    letters = ''.join(c if c.isalnum() else '_' for c in system.name)
    return SystemQuestions(
        system,
        [prompt for prompt in prompts for _ in range(copies)],
        folder / f'{letters[:40]}-{digest}.jsonl',
        digest,
        BLOCK if samples else machine.batchsize,
        seed,
    )
