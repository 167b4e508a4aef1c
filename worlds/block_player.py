"""
The blocks of a schedule, played: which systems are loaded together, what they play at
once.

A run, its pilot and its preflight all play with a `BlockPlayer`. Many dialogues are
played side by side: at each step, all dialogues whose next speaker is one system form a
batch of that system.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from parlai_ext.core import (
    DATA_ERRORS,
    Dialogue,
    Opener,
    Pairing,
    System,
    SystemFailed,
    UserError,
    Utterance,
    chunks,
    content_id,
    errors_of_system,
    first_line,
    frozen,
    grouped,
)
from parlai_ext.engines import Machine
from parlai_ext.store import (
    Block,
    PartialWork,
    RunFolder,
    Schedule,
    ShardKey,
    dialogue_id,
)
from parlai_ext.systems.model_cache import ModelCache, fit_threads, memory_for_weights
from parlai_ext.systems.parlai_agents import load_on, samples
from parlai_ext.systems.players import (
    Participant,
    Player,
    Reply,
    in_words,
    raise_unless_of_agent,
    reply_fields,
    reply_from_fields,
)
from parlai_ext.systems.random_numbers import (
    RandomState,
    random_state,
    seed_all,
    set_random_state,
)

FREE_SECONDS = 0.2  # that looking at states may take in any case
LARGEST_SHARE = 0.02  # of the time of a block that it may take in all


@dataclass
class KeptReplies:
    """
    Lets systems reply, and keeps what they reply; replies that are kept are not asked
    for again.

    What is played side by side is written as a whole, and with slow systems that takes
    long. So the replies so far are kept in a file of the run folder, about every 20
    seconds and at Ctrl-C. The next run lets the systems hear and say them again,
    without asking for them, puts the random numbers back to where they were, and goes
    on from there; the dialogues are those of a run that was not cut off.

    That is so only if a system's next reply depends on nothing but what it has heard
    and said. So a clone's state is looked at before and after each reply: once a reply
    has changed it (a script that counts its lines, a random generator of its own), no
    more replies of the block are kept. Nor are they where looking takes more than a
    fiftieth of the time, as with tiny models, whose blocks are played at once.

    :param kept: the file.
    """

    kept: PartialWork
    _number: int = 0
    _is_replaying: bool = True
    _keeps: bool = True
    _random: RandomState | None = field(default=None, repr=False)
    _began: float = field(default_factory=time.perf_counter)
    _looked: float = 0.0

    def respond(
        self, player: Player, participants: Sequence[Participant]
    ) -> list[Reply]:
        """
        Return a reply of every participant, as `Player.respond` does.

        A system that has no batches is asked for one reply at a time, so that little is
        lost of one that is slow.
        """
        width = len(participants) if player.batches else 1
        replies = []
        for some in chunks(participants, width):
            replies += self._respond(player, some)
        return replies

    def _respond(
        self, player: Player, participants: Sequence[Participant]
    ) -> list[Reply]:
        if self._is_replaying:
            replies = self._kept_replies(player, len(participants))
            if replies is not None:
                return player.observed(participants, replies)
            self._is_replaying = False
            if self._random is not None:
                try:
                    set_random_state(self._random)
                except Exception as error:  # whatever it is that stands there
                    raise UserError(
                        f'{self.kept.path} is damaged: {first_line(error)}; delete it'
                    ) from None
        before = self._states(player, participants)
        proposed = player.propose(participants)
        after = self._states(player, participants)
        self._keeps = before is not None and before == after
        replies = player.observed(participants, proposed)
        if self._keeps:
            now = random_state()
            record = {
                'speaker': player.name,
                'replies': list(map(reply_fields, proposed)),
                'random': None if now == self._random else now,
            }
            self._random = now
            self.kept.put(str(self._number), record)
            self._number += 1
        return replies

    def _kept_replies(self, player: Player, number: int) -> list[Reply] | None:
        """
        Return the next replies that were kept, `None` when there are no more.
        """
        record = self.kept.get(str(self._number))
        if record is None:
            return None
        try:
            replies = list(map(reply_from_fields, record['replies']))
            if record['speaker'] != player.name or len(replies) != number:
                return None
            self._random = record['random'] or self._random
        except DATA_ERRORS:  # somebody else's lines
            return None
        self._number += 1
        return replies

    def _states(
        self, player: Player, participants: Sequence[Participant]
    ) -> list[str] | None:
        """
        Return the states of all clones; `None`, which ends the keeping, where that
        cannot be told.
        """
        begin = time.perf_counter()
        too_long = LARGEST_SHARE * (begin - self._began) + FREE_SECONDS
        if not self._keeps or self._looked > too_long:
            return None
        try:
            return player.states(participants)
        except BaseException as error:
            raise_unless_of_agent(error)
            return None
        finally:
            self._looked += time.perf_counter() - begin


# --- many dialogues side by side ------------------------------------------------------

Respond = Callable[[Player, Sequence[Participant]], list[Reply]]
OnReplies = Callable[[int, int], object]


def no_report(number: int, of: int) -> None:
    """
    Tell nobody how many replies there are.
    """


@frozen
class BatchRow:
    """
    One dialogue to be played: who talks, over which opener.
    """

    pairing: Pairing
    opener: Opener


@dataclass(eq=False)
class Lockstep:
    """
    Plays dialogues side by side.

    A dialogue whose system replies nothing usable, or raises, ends there, and the
    others go on. A system that cannot go on at all is in `failed`, and its dialogues
    are dropped.

    :param on_replies: called with the number of replies of each batch, and that of all
        replies if no dialogue ends early.
    :param respond: asks a system for the replies of some participants.
    """

    rows: Sequence[BatchRow]
    players: Mapping[str, Player]
    num_turns: int
    batchsize: int | None = None
    on_replies: OnReplies = no_report
    respond: Respond = Player.respond

    def __post_init__(self) -> None:
        self.failed: dict[str, SystemFailed] = {}
        self.dialogues = [OpenDialogue(row, self.num_turns) for row in self.rows]
        given = sum(len(dialogue.utterances) for dialogue in self.dialogues)
        self.n_planned = len(self.rows) * self.num_turns - given
        for dialogue in self.dialogues:
            with self._noting_failures():
                dialogue.begin(self.players)

    def play(self) -> tuple[list[Dialogue | None], dict[str, SystemFailed]]:
        """
        Play the dialogues to their end.

        Return a dialogue for each row, `None` where one of its systems could not go on,
        and those systems by name with what happened.
        """
        while any(map(self._goes_on, self.dialogues)):
            self._go_on()
        dialogues = [one.dialogue() if one.done else None for one in self.dialogues]
        return dialogues, self.failed

    def _go_on(self) -> None:
        """
        Add one utterance to every open dialogue.
        """
        for player, batch in self._batches():
            with self._noting_failures():
                speaking = [one.participants[len(one.utterances) % 2] for one in batch]
                replies = self.respond(player, speaking)
                self.on_replies(len(batch), self.n_planned)
                for dialogue, reply in zip(batch, replies, strict=True):
                    with self._noting_failures():  # of the system that hears the reply
                        dialogue.add_reply(reply)

    def _batches(self) -> Iterator[tuple[Player, list['OpenDialogue']]]:
        """
        Yield each system with dialogues in which it speaks next.
        """
        waiting = grouped(
            (one.next_speaker, one) for one in self.dialogues if self._goes_on(one)
        )
        for name, dialogues in waiting.items():
            width = self.batchsize or len(dialogues)
            for part in chunks(dialogues, width):
                if batch := [dialogue for dialogue in part if self._goes_on(dialogue)]:
                    yield self.players[name], batch

    def _goes_on(self, dialogue: 'OpenDialogue') -> bool:
        is_whole = self.failed.keys().isdisjoint(dialogue.speakers)
        return is_whole and not dialogue.done

    @contextmanager
    def _noting_failures(self) -> Iterator[None]:
        """
        Note a system that cannot go on, and leave the work inside.
        """
        try:
            yield
        except SystemFailed as error:
            self.failed[error.system] = error


class OpenDialogue:
    """
    One dialogue while it is played: its two speakers and the utterances so far.

    :ivar deflected: what a safety layer answered to in the place of the last speaker.
    """

    def __init__(self, row: BatchRow, num_turns: int):
        if not row.opener.utterances:
            raise UserError(f'opener {row.opener.id} has no utterances; it needs one')
        self.row = row
        self.num_turns = num_turns
        self.ended_by: str | None = None
        self.reason: str | None = None
        self.deflected: str | None = None
        self.speakers = row.pairing.speakers
        given = row.opener.utterances[:num_turns]
        self.utterances = [
            Utterance(self.speakers[i % 2], text, given=True)
            for i, text in enumerate(given)
        ]
        self.participants: list[Participant] = []

    def begin(self, players: Mapping[str, Player]) -> None:
        """
        Let both systems join, and hear what is given.

        :raises SystemFailed: when one of them cannot go on at all.
        """
        first, second = (players[name] for name in self.speakers)
        self._try(0, lambda: self.participants.append(first.join()))
        self._try(1, lambda: self.participants.append(second.join()))
        for i in range(len(self.utterances)):
            self._deliver(i)

    @property
    def done(self) -> bool:
        """
        True if no more utterances will be added.
        """
        return self.ended_by is not None or len(self.utterances) >= self.num_turns

    @property
    def next_speaker(self) -> str:
        """
        The name of the system that speaks next.
        """
        return self.speakers[len(self.utterances) % 2]

    def add_reply(self, reply: Reply) -> None:
        """
        Add the reply of the next speaker; one without a text ends the dialogue.
        """
        self.deflected = reply.deflected
        if reply.text is None:
            self.ended_by, self.reason = self.next_speaker, reply.reason or 'no reply'
            return
        self.utterances.append(Utterance(self.next_speaker, reply.text))
        if not self.done:
            self._deliver(len(self.utterances) - 1)

    def dialogue(self) -> Dialogue:
        """
        Return the utterances so far as a record.
        """
        pairing, opener = self.row.pairing, self.row.opener
        return Dialogue(
            dialogue_id(pairing.id, opener.id),
            pairing.id,
            opener.id,
            tuple(self.utterances),
            self.ended_by,
            self.reason,
        )

    def _deliver(self, index: int) -> None:
        """
        Let the other speaker hear an utterance, and its own speaker if it was given.
        """
        utterance = self.utterances[index]
        side = index % 2
        if utterance.given:
            self._try(side, lambda: self.participants[side].take_as_own(utterance.text))
        heard = (utterance.text, utterance.speaker)
        self._try(1 - side, lambda: self.participants[1 - side].hear(*heard))

    def _try(self, side: int, step: Callable[[], object]) -> None:
        """
        Take a step of one speaker unless the dialogue is over; an exception ends it.
        """
        if self.ended_by is not None:
            return
        try:
            with errors_of_system(self.speakers[side]):
                step()
        except BaseException as error:
            raise_unless_of_agent(error)
            self.ended_by, self.reason = self.speakers[side], in_words(error)


# --- the blocks of a schedule ---------------------------------------------------------


@frozen
class BlockPlayer:
    """
    Plays any block of a schedule.

    `cache` holds the loaded systems, `batchsize` is how many dialogues go through a
    model together, and `sampling` names the systems that draw their replies at random.
    `on_replies` and `respond` are called as `Lockstep` says. `kept_in` is the run
    folder in which the replies of a block are kept until the block is written; `None`:
    nowhere.
    """

    plan: Schedule
    cache: ModelCache
    batchsize: int
    sampling: frozenset[str]
    on_replies: OnReplies = no_report
    respond: Respond = Player.respond
    kept_in: RunFolder | None = None

    @classmethod
    def from_plan(
        cls,
        plan: Schedule,
        machine: Machine,
        *,
        load: Callable[[System], Player] | None = None,
    ) -> 'BlockPlayer':
        """
        Return the player of a schedule's blocks; nothing is loaded yet.

        :param load: builds a system, if it is not `load_on` that does.
        """
        systems = plan.roster.systems
        fit_threads(systems)
        budget = memory_for_weights(machine.no_cuda, machine.max_gpu_memory)
        load = load or (lambda system: load_on(machine, system))
        cache = ModelCache(load, budget)
        sampling = frozenset(s.name for s in systems if samples(s))
        return cls(plan, cache, machine.batchsize, sampling)

    def missing_blocks(self, run: RunFolder | None) -> dict[Block, frozenset[ShardKey]]:
        """
        Return the blocks that lack shards in a run folder, with those that they lack.

        :param run: `None` lacks them all; it need not know all of the plan's pairings.
        """
        written = set(run.dialogue_shards() if run else ())
        missing = {
            block: frozenset(block.shards) - written
            for block in self.plan.blocks(self.is_sampling)
        }
        return {block: shards for block, shards in missing.items() if shards}

    def is_sampling(self, pairing: Pairing) -> bool:
        """
        True if one of the pair draws its replies at random.
        """
        return not self.sampling.isdisjoint(pairing.speakers)

    def speakers(self, block: Block) -> list[str]:
        """
        Return the names of the systems that a block needs.
        """
        pairs = (self.plan.by_id[shard.pairing_id] for shard in block.shards)
        return list(dict.fromkeys(name for p in pairs for name in p.speakers))

    def play_block(self, block: Block) -> dict[ShardKey, list[Dialogue]]:
        """
        Return the dialogues of each shard, without pairs of which a system fails.

        Each block has random numbers of its own, whatever was played before.
        """
        shards = [[shard.pairing_id, shard.index] for shard in block.shards]
        seed = content_id('block', self.plan.protocol.seed, shards)
        num_turns = self.plan.protocol.num_turns
        played: dict[ShardKey, list[Dialogue]] = {}
        for pairs in self._groups(block):
            names = dict.fromkeys(n for pair in pairs.values() for n in pair.speakers)
            players = self.cache.load_all([self.plan.roster.system(n) for n in names])
            ready = {s: p for s, p in pairs.items() if {*p.speakers} <= {*players}}
            rows = [
                BatchRow(pairing, opener)
                for shard, pairing in ready.items()
                for opener in self.plan.openers[shard.start : shard.stop]
            ]
            # dialogues of a system that samples are never cut into smaller batches,
            # which would change what is drawn
            whole = any(map(self.is_sampling, ready.values()))
            batchsize = None if whole else self.batchsize
            with self._keeping(rows, seed, batchsize) as player:
                dialogues = player.play_rows(rows, players, num_turns, seed, batchsize)
            del players  # whose memory the next group needs
            rest: Iterator[Any] = iter(dialogues)
            for shard in ready:
                own = list(islice(rest, shard.n_dialogues))
                if None not in own:
                    played[shard] = own
        return played

    def play_rows(
        self,
        rows: Sequence[BatchRow],
        players: Mapping[str, Player],
        num_turns: int,
        seed: str,
        batchsize: int | None = None,
    ) -> list[Dialogue | None]:
        """
        Return a dialogue for each row, `None` where a system could not go on. Such a
        system is dropped and its error recorded in the cache.

        :param seed: hex digits; what was played before does not matter.
        """
        seed_all(seed)  # after loading, which draws too
        dialogues, failed = Lockstep(
            rows, players, num_turns, batchsize, self.on_replies, self.respond
        ).play()
        for error in failed.values():
            self.cache.drop_failed(error)
        return dialogues

    def _groups(self, block: Block) -> list[dict[ShardKey, Pairing]]:
        """
        Return a block's shards in groups whose systems fit into memory together.
        """
        groups: list[dict[ShardKey, Pairing]] = []
        systems: dict[str, System] = {}
        for shard in block.shards:
            pair = self.plan.by_id[shard.pairing_id]
            both = {n: self.plan.roster.system(n) for n in pair.speakers}
            if not groups or not self.cache.can_hold({**systems, **both}.values()):
                groups.append({})
                systems = {}
            groups[-1][shard] = pair
            systems |= both
        return groups

    @contextmanager
    def _keeping(
        self, rows: Sequence[BatchRow], seed: str, batchsize: int | None
    ) -> Iterator['BlockPlayer']:
        """
        Yield a player that keeps the replies of these rows, where they are to be kept.
        """
        if self.kept_in is None:
            yield self
            return
        manifest = self.kept_in.manifest
        known = manifest.everybody
        speakers = {n for row in rows for n in row.pairing.speakers}
        key = content_id(
            'replies',
            manifest.settings(),
            {name: known[name].identity for name in speakers},
            [(row.pairing.id, row.opener.id) for row in rows],
            seed,
            batchsize,
        )
        kept = self.kept_in.partial_replies(key)
        with kept.saved_at_exit():
            yield replace(self, respond=KeptReplies(kept).respond)
