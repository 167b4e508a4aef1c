"""
Which systems talk with each other, over which openers, and in which units of work.

All of it is pure: the plan depends on roster and protocol, never on what is already
done, so that an interrupted run and an uninterrupted one play the same blocks.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import count, groupby, pairwise

from parlai_ext.core import (
    PLAYED,
    Opener,
    Pairing,
    Protocol,
    Roster,
    UserError,
    bytes_hash,
    content_id,
    frozen,
    grouped,
    logger,
)

NO_TARGETS = 'the roster has no targets; it needs at least one'


@frozen
class ShardKey:
    """
    The dialogues of one pairing over the openers ``start`` to ``stop`` (exclusive).
    """

    pairing_id: str
    index: int
    start: int
    stop: int

    @property
    def n_dialogues(self) -> int:
        """
        The number of its dialogues.
        """
        return self.stop - self.start

    @property
    def file(self) -> str:
        """
        The name of a file about it, in a folder with one for each pairing.
        """
        return f'{self.pairing_id}/{self.index:05d}.jsonl'


@frozen
class Block:
    """
    Shards that are played together, and played again together.
    """

    shards: tuple[ShardKey, ...]

    @property
    def n_dialogues(self) -> int:
        """
        The number of dialogues in its shards.
        """
        return sum(shard.n_dialogues for shard in self.shards)


@frozen
class Schedule:
    """
    Which dialogues are played, and in which units of work.

    Every pairing plays over every opener. `shard_size` is how many of its dialogues are
    kept in one file, `batchsize` how many dialogues a block is packed to, and
    `grown_from` how many openers there were before each time that the run grew.
    """

    protocol: Protocol
    pairings: tuple[Pairing, ...]
    openers: tuple[Opener, ...]
    shard_size: int
    batchsize: int
    grown_from: tuple[int, ...]

    @property
    def roster(self) -> Roster:
        """
        The systems that talk.
        """
        return self.protocol.roster

    @property
    def n_dialogues(self) -> int:
        """
        How many dialogues there are: one of each pairing over each opener.
        """
        return len(self.pairings) * len(self.openers)

    @cached_property
    def by_id(self) -> dict[str, Pairing]:
        """
        The pairings by their ids.
        """
        return {pairing.id: pairing for pairing in self.pairings}

    def blocks(self, sampling: Callable[[Pairing], bool]) -> list[Block]:
        """
        Return the run's work, in an order that reloads few models.

        A shard is a block of its own when its pairing has a batch of openers or
        samples; else neighbouring pairings of one first speaker, all dialogues of each,
        are packed until they fill one. First speakers form the outer loop, and every
        other one meets its partners in reverse, so that the partner met last is still
        loaded. What a block holds depends on its first speaker's pairings alone.

        A run that has grown first has the blocks that it had before, then those of the
        openers that were added; the order, and what a block holds, is of each stage of
        growth by itself.

        :param sampling: whether a pairing's decoding is random.
        """
        of_speakers = grouped((pairing.first, pairing) for pairing in self.pairings)
        n_openers, work = len(self.openers), list[Block]()
        ends = pairwise((0, *self.grown_from, n_openers))
        for stage, (begin, end) in enumerate(ends):
            added = {
                id: stage_shards(id, n_openers, self.shard_size, self.grown_from)[stage]
                for id in self.by_id
            }
            width = self.batchsize if end - begin < self.batchsize else 0
            for turn, mine in enumerate(of_speakers.values()):
                packed = _blocks_of_speaker(mine, added, width, sampling)
                work += packed if turn % 2 == 0 else reversed(packed)
        return work


def pairings(
    roster: Roster, scheme: str, identities: Mapping[str, str]
) -> list[Pairing]:
    """
    Return every pairing of the roster under ``scheme``, in the order of its pairs.

    :param identities: for each system's name, the hash of what it is (options and
        model file): a pairing's id depends on names and on these, never on paths.
    :raises UserError: when the scheme cannot pair the roster.
    """
    wanted = PLAYED[scheme]
    if not roster.targets:
        raise UserError(NO_TARGETS)
    if len(roster.targets) < wanted.fewest_targets:
        raise UserError(
            f'{scheme} pairing needs at least {wanted.fewest_targets} targets'
        )
    numbers = Counter(system.name for system in roster.systems)
    if repeated := [repr(name) for name, number in numbers.items() if number > 1]:
        raise UserError(
            f'systems named more than once: {", ".join(repeated)}; '
            'give a system two names if it shall be both target and partner'
        )
    targets, partners = (
        [system.name for system in side] for side in (roster.targets, roster.partners)
    )
    paired = []
    for first, second in wanted.pairs(targets, partners):
        both = (first, identities[first], second, identities[second])
        digest = content_id('pairing', scheme, *both)
        paired.append(named_pairing(first, second, scheme, digest))
    return paired


def named_pairing(first: str, second: str, scheme: str, digest: str) -> Pairing:
    """
    Return a pairing with a readable id that is also a safe file name: at most 24
    characters of each name, and 12 digits of a hash, which tell alike names apart.
    """
    words = (re.findall('[A-Za-z0-9_]+', name) for name in (first, second))
    slugs = ('-'.join(some)[:24].strip('-') or 'x' for some in words)
    return Pairing(f'{"--".join(slugs)}-{digest[:12]}', first, second, scheme)


def dialogue_id(pairing_id: str, opener_id: str) -> str:
    """
    Return the id of the dialogue of this pairing over this opener.
    """
    return content_id('dialogue', pairing_id, opener_id)


def sample_openers(openers: Sequence[Opener], n: int, seed: int) -> list[Opener]:
    """
    Return ``n`` different openers, drawn without replacement.

    They are the first ``n`` in the order of a hash of seed and id: the same on every
    platform and Python, whatever order they were read in, and a longer sample only
    adds to a shorter one. Openers that repeat an earlier one's id are dropped.
    """
    distinct = {opener.id: opener for opener in reversed(openers)}
    dropped = len(openers) - len(distinct)
    if dropped:
        logger.info('%d openers repeat others and were dropped', dropped)
    if n < 1:
        raise UserError(f'--num-dialogues is {n}; it must be at least 1')
    if n > len(distinct):
        raise UserError(
            f'--num-dialogues asks for {n} openers, but there are only {len(distinct)} '
            f'({dropped} repeated ones not counted); use --num-dialogues '
            f'{len(distinct)} or another opener set'
        )

    def draw(opener: Opener) -> str:
        return bytes_hash(f'opener:{seed}:{opener.id}'.encode())

    return sorted(distinct.values(), key=draw)[:n]


def shard_size_for(num_dialogues: int, batchsize: int) -> int:
    """
    Return how many dialogues a shard holds: a batch, or a pairing if that is less.
    """
    return max(1, min(num_dialogues, batchsize))


def stage_shards(
    pairing_id: str, num_openers: int, size: int, grown_from: Sequence[int]
) -> list[list[ShardKey]]:
    """
    Return the shards of one pairing, slices of ``size`` openers, in stages: those that
    the run was begun with, and those that it had more each time that it grew.

    :param grown_from: how many openers the run had before each time that it grew; no
        shard has openers from before and after such a time.
    """
    index = count()
    return [
        [
            ShardKey(pairing_id, next(index), start, min(start + size, end))
            for start in range(begin, end, size)
        ]
        for begin, end in pairwise((0, *grown_from, num_openers))
    ]


def _blocks_of_speaker(
    pairings: Iterable[Pairing],
    shards: Mapping[str, list[ShardKey]],
    width: int,
    sampling: Callable[[Pairing], bool],
) -> list[Block]:
    """
    Return the blocks of one first speaker: whole pairings, joined until each block is
    full, or single shards.

    :param shards: those of each pairing, by its id.
    :param width: how many dialogues fill a block; 0: each shard is one.
    """
    work: list[Block] = []
    for alone, group in groupby(pairings, lambda one: not width or sampling(one)):
        units = [shards[pairing.id] for pairing in group]
        if alone:
            units = [[shard] for unit in units for shard in unit]
        packed = Block(())
        for unit in units:
            packed = Block((*packed.shards, *unit))
            if alone or packed.n_dialogues >= width:
                work.append(packed)
                packed = Block(())
        if packed.shards:
            work.append(packed)
    return work
