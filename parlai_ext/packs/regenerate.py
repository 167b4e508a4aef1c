"""
Scores and dialogues of a pack, made again where its scorer and its systems are at hand.

Nothing that a pack names is loaded: systems and scorer are those of the checker's own
protocol. One of them is "at hand" for the pack if it has the hash, or the signature,
that the pack says.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from parlai_ext.core.errors import UserError
from parlai_ext.core.machine import Machine
from parlai_ext.core.nouns import Dialogue, Opener, Roster, Score, System
from parlai_ext.core.progress import bar_of
from parlai_ext.core.signature import GIVEN_JUDGED, signature_differences
from parlai_ext.judge_check.check_run import basis_of, make_check
from parlai_ext.judge_check.options import SAMPLE
from parlai_ext.judge_check.record import check_basis, read_check
from parlai_ext.packs.judges import check_differences
from parlai_ext.packs.options import RegenerateOptions
from parlai_ext.packs.pack import Pack
from parlai_ext.packs.publish import dialogue_digest, shard_name
from parlai_ext.packs.verify import SELF_REPORTED, Finding, finding_of, scorer_name
from parlai_ext.scoring.base import Scorer
from parlai_ext.scoring.score_run import score_dialogues
from parlai_ext.store.lines import decode_shard
from parlai_ext.store.plan import Plan
from parlai_ext.systems.family import PRESENT
from parlai_ext.systems.identity import candidates_hash, identity
from parlai_ext.systems.resolve import resolve
from parlai_ext.worlds.block_player import BlockPlayer
from parlai_ext.worlds.schedule import Block, ShardKey

ENDPOINT = 'ext:remote'  # its answers are not ours to repeat
Item = TypeVar('Item')


@dataclass
class Again:
    """
    What was made again: by target, how many dialogues were played, how many of them
    differ, and how many utterances were scored.

    :param n_whole: dialogues that are the same only where their whole batch is played.
    :param texts: the dialogues that are the same, by their ids.
    """

    played: dict[str, int] = field(default_factory=dict)
    different: dict[str, int] = field(default_factory=dict)
    scored: dict[str, int] = field(default_factory=dict)
    n_whole: int = 0
    texts: dict[str, Dialogue] = field(default_factory=dict)

    @property
    def n_scored(self) -> int:
        """
        How many utterances were scored.
        """
        return sum(self.scored.values())


def systems_at_hand(
    pack: Pack, mine: Sequence[System], datapath: str | None
) -> tuple[dict[str, System], dict[str, str]]:
    """
    Return, by their names in the pack, the systems that are here with the same hash;
    and of the others why not.

    :param mine: the systems of the checker's own protocol.
    """
    here: dict[str, System] = {}
    reasons: dict[str, str] = {}
    by_hash: dict[str, System] = {}
    hashes: dict[str, str] = {}
    for system in mine:
        if system.opt.get('model') == ENDPOINT:
            reasons[system.name] = 'an endpoint, whose answers may change'
            continue
        resolution = resolve(system, datapath)
        if resolution.status != PRESENT:
            reasons[system.name] = resolution.reason or 'its model is not fetched'
            continue
        hashes[system.name] = identity(system, datapath)
        by_hash[hashes[system.name]] = system
    wanted = {**pack.index.targets, **pack.index.partners}
    for name, digest in wanted.items():
        if digest in by_hash:
            system = System(name, by_hash[digest].opt)
            if candidates_hash(system, datapath) == _candidates(pack, name):
                here[name] = system
            else:
                reasons[name] = 'yours chooses among other replies'
        elif name in hashes:
            reasons[name] = f'yours is another one ({hashes[name]}, not {digest})'
        else:
            reasons.setdefault(name, 'your protocol does not have it')
    return here, {n: why for n, why in reasons.items() if n in wanted and n not in here}


def _candidates(pack: Pack, name: str) -> str | None:
    """
    Return the hash of the replies that a retriever of the pack chooses among.
    """
    manifest = pack.run.manifest
    value = manifest.collect.get(f'partners.{name}.candidates')
    if name in manifest.targets:
        value = value or manifest.targets[name].candidates
    return None if value is None else str(value)


def play_again(
    pack: Pack,
    here: Mapping[str, System],
    missing: Mapping[str, str],
    openers: Mapping[str, Opener],
    options: RegenerateOptions,
    machine: Machine,
    seed: int,
    again: Again,
) -> Finding:
    """
    Play dialogues of systems at hand again and compare them with those of the pack.

    Dialogues are drawn of as many targets as there are, then of as many pairs. Where a
    system samples, the whole batch is played, to which the random numbers belong. Any
    other dialogue is played among those that were drawn, and its whole batch only if it
    differs: a near tie may flip with what else is in a batch.

    :param openers: texts of openers by id, for a pack that withholds them.
    :param again: gets the counts, and the dialogues that are the same.
    """
    about = 'played again'
    if not options.regenerate:
        text = 'no dialogue (--regenerate M)'
        return Finding(about, SELF_REPORTED, text)
    plan = _plan_with(pack, here, openers)
    player = _player(pack, plan, machine)
    playable = _playable(pack, player, plan)
    drawn = spread_over_targets(playable, pack, seed)[: options.regenerate]
    if not drawn:
        return Finding(about, SELF_REPORTED, f'none: {_why(missing)}')
    problems: list[str] = []
    of_shard: dict[ShardKey, list[Place]] = {}
    for place in drawn:
        of_shard.setdefault(place.shard, []).append(place)
    with bar_of('play again', len(drawn), delay=3) as bar:
        for block in player.missing_blocks(None):
            if mine := [p for shard in block.shards for p in of_shard.get(shard, ())]:
                problems += _play_block_again(pack, player, block, mine, again)
                bar.update(len(mine))
    failures = dict(player.cache.problems)
    player.cache.clear()
    at_hand = {pack.run.pairing(place.shard.pairing_id).first for place in playable}
    text = _played_text(pack, again, at_hand, {**missing, **failures})
    if not again.played:
        return Finding(about, SELF_REPORTED, f'none: {"; ".join(failures.values())}')
    n_played, n_different = sum(again.played.values()), sum(again.different.values())
    allowed = n_different <= options.max_different * n_played
    if problems and allowed:
        text += f'; at most {options.max_different:.0%} may differ'
    return finding_of(about, text, [] if allowed else problems)


def _played_text(
    pack: Pack, again: Again, at_hand: Collection[str], missing: Mapping[str, str]
) -> str:
    """
    Return how many dialogues, of how many targets, are the same.
    """
    n_played, n_different = sum(again.played.values()), sum(again.different.values())
    counts = ', '.join(
        f'{n} {again.played[n] - again.different.get(n, 0)} of {again.played[n]}'
        for n in pack.index.targets
        if n in again.played
    )
    text = (
        f'{n_played - n_different} of {n_played} dialogues are the same word by word, '
        f'of {_targets_text(pack, again.played, at_hand, "--regenerate")}: {counts}'
    )
    if again.n_whole:
        text += f'; {again.n_whole} of them only in the batch of the run'
    if missing:
        text += f'; not at hand: {_why(missing)}'
    return text


def _targets_text(
    pack: Pack, looked_at: Collection[str], at_hand: Collection[str], flag: str
) -> str:
    """
    Return how many targets were looked at, of how many; and if more are at hand, how to
    look at them.
    """
    text = f'{len(looked_at)} of {len(pack.index.targets)} targets'
    if len(looked_at) < len(at_hand):
        text += f' ({len(at_hand)} are at hand: a larger {flag} takes more)'
    return text


@dataclass(frozen=True)
class Place:
    """
    Where a dialogue of a pack is: its shard, and its number there.
    """

    shard: ShardKey
    number: int

    @property
    def key(self) -> ShardKey:
        """
        A shard that has this dialogue only.
        """
        start = self.shard.start + self.number
        return replace(self.shard, start=start, stop=start + 1)


def spread_over_targets(places: Sequence[Place], pack: Pack, seed: int) -> list[Place]:
    """
    Return places in random order, but with one of each target before a second one of
    any, and one of each pair of a target before a second one of that pair.
    """
    drawn = list(places)
    random.Random(seed).shuffle(drawn)
    drawn = spread(drawn, lambda place: place.shard.pairing_id)
    return spread(drawn, lambda p: pack.run.pairing(p.shard.pairing_id).first)


def spread(items: Sequence[Item], key: Callable[[Item], str]) -> list[Item]:
    """
    Return items with one of each key before a second one of any, in their order else.

    >>> spread(['a1', 'a2', 'a3', 'b1'], lambda item: item[0])
    ['a1', 'b1', 'a2', 'a3']
    """
    counts: Counter[str] = Counter()
    turns = []
    for place, item in enumerate(items):
        turns.append((counts[key(item)], place))
        counts[key(item)] += 1
    return [items[place] for _, place in sorted(turns)]


def _play_block_again(
    pack: Pack,
    player: BlockPlayer,
    block: Block,
    drawn: Sequence[Place],
    again: Again,
) -> list[str]:
    """
    Play drawn dialogues of a block again. Return where they differ from the pack's.
    """
    if _is_sampling(player, block):
        drawn = dialogue_places(pack, block.shards)
        played = _dialogues(player, block)
    else:
        played = _dialogues(player, Block(tuple(place.key for place in drawn)))
    differences = _differences(pack, drawn, played)
    flips = [place for place, line in differences.items() if line]
    if flips and not _is_sampling(player, block) and _has_all(player, block):
        played |= _dialogues(player, block)
        differences |= _differences(pack, flips, played)
        again.n_whole += sum(not differences[place] for place in flips)
    for place, line in differences.items():
        pairing = pack.run.pairing(place.shard.pairing_id)
        again.played[pairing.first] = again.played.get(pairing.first, 0) + 1
        if line:
            n_before = again.different.get(pairing.first, 0)
            again.different[pairing.first] = n_before + 1
        else:
            dialogue = _dialogue_at(pack, place)
            again.texts[dialogue.id] = played[dialogue.id]
    return [line for line in differences.values() if line]


def _dialogues(player: BlockPlayer, block: Block) -> dict[str, Dialogue]:
    """
    Return the dialogues of a block by their ids, played again.
    """
    return {d.id: d for played in player.play_block(block).values() for d in played}


def _is_sampling(player: BlockPlayer, block: Block) -> bool:
    """
    True if random numbers that a whole block shares decide what is said in it.
    """
    return not player.sampling.isdisjoint(player.speakers(block))


def _plan_with(
    pack: Pack, here: Mapping[str, System], openers: Mapping[str, Opener]
) -> Plan:
    """
    Return the pack's plan with the systems at hand only, and with texts of openers.
    """
    plan = pack.run.plan
    sides = (
        tuple(here[system.name] for system in side if system.name in here)
        for side in (plan.roster.targets, plan.roster.partners)
    )
    texts = tuple(openers.get(one.id, one) for one in plan.openers)
    return replace(
        plan, protocol=replace(plan.protocol, roster=Roster(*sides)), openers=texts
    )


def _player(pack: Pack, plan: Plan, machine: Machine) -> BlockPlayer:
    """
    Return the player of a plan, which makes the batches that the run had.
    """
    manifest = pack.run.manifest
    fp16 = manifest.collect.get('fp16', machine.fp16)
    machine = replace(machine, batchsize=manifest.batchsize, fp16=fp16)
    player = BlockPlayer.from_plan(plan, machine)
    sampled = {n for n, one in manifest.targets.items() if one.shard_size}
    return replace(player, sampling=player.sampling | sampled)


def _playable(pack: Pack, player: BlockPlayer, plan: Plan) -> list[Place]:
    """
    Return the dialogues of the pack that can be played again: their systems are here,
    and the texts of their openers; of a whole block, where a system samples.
    """
    playable = []
    for block in player.missing_blocks(None):
        whole = _is_sampling(player, block)
        if whole and not _has_all(player, block):
            continue
        for place in dialogue_places(pack, block.shards):
            if whole or _has_all(player, Block((place.key,))):
                playable.append(place)
    return playable


def _has_all(player: BlockPlayer, block: Block) -> bool:
    """
    True if all systems and the texts of all openers of a block are here.
    """
    plan = player.plan
    names = {s.name for s in plan.roster.targets + plan.roster.partners}
    return names.issuperset(player.speakers(block)) and all(
        opener.utterances
        for shard in block.shards
        for opener in plan.openers[shard.start : shard.stop]
    )


def dialogue_places(pack: Pack, shards: Iterable[ShardKey]) -> list[Place]:
    """
    Return the places of the dialogues that a pack has of some shards.
    """
    return [
        Place(shard, number)
        for shard in shards
        if pack.run.has_dialogues(shard.pairing_id, shard.index)
        for number in range(shard.n_dialogues)
    ]


def _why(missing: Mapping[str, str]) -> str:
    lines = [f'{name} ({reason})' for name, reason in missing.items()]
    return '; '.join(lines) or 'no batch has all of its systems and openers here'


def _differences(
    pack: Pack, places: Sequence[Place], played: Mapping[str, Dialogue]
) -> dict[Place, str | None]:
    """
    Return, for each place whose dialogue was played again, where the two first differ.
    """
    differences: dict[Place, str | None] = {}
    for place in places:
        theirs = _dialogue_at(pack, place)
        if (ours := played.get(theirs.id)) is None:
            continue  # a system failed
        if pack.index.withheld_text:
            same = _digest_at(pack, place) == dialogue_digest(ours)
            difference = None if same else 'its digest is another one'
        else:
            difference = first_difference(theirs, ours)
        pairing = pack.run.pairing(place.shard.pairing_id)
        names = f'{pairing.first} – {pairing.second}'
        differences[place] = difference and (
            f'dialogue {theirs.id} ({names}): {difference}'
        )
    return differences


def _dialogue_at(pack: Pack, place: Place) -> Dialogue:
    shard = place.shard
    return pack.run.read_dialogues(shard.pairing_id, shard.index)[place.number]


def _digest_at(pack: Pack, place: Place) -> str:
    """
    Return the digest that a pack without text has of a dialogue.
    """
    path = pack.run.root / shard_name('dialogues', place.shard)
    records = decode_shard(path.read_bytes(), place.shard.index, path)
    return str(records[place.number]['digest'])


def first_difference(theirs: Dialogue, ours: Dialogue) -> str | None:
    """
    Return where a dialogue first differs from one that was played again.
    """
    for i, (a, b) in enumerate(zip(theirs.utterances, ours.utterances, strict=False)):
        if a != b:
            return (
                f'utterance {i}: the pack has {a.text!r}, played again it is {b.text!r}'
            )
    if len(theirs.utterances) != len(ours.utterances):
        return (
            f'the pack has {len(theirs.utterances)} utterances, played again there '
            f'are {len(ours.utterances)}'
        )
    if theirs.ended_by != ours.ended_by:
        return (
            f'the pack says {theirs.ended_by!r} ended it, played again '
            f'{ours.ended_by!r} does'
        )
    return None


def score_again(
    pack: Pack,
    scorer: Scorer | None,
    why: str,
    options: RegenerateOptions,
    seed: int,
    again: Again,
) -> Finding:
    """
    Score utterances again and compare the scores with those of the pack.

    :param scorer: the checker's own; `None` where it is none of the pack's.
    :param why: the reason why there is none.
    :param again: has the texts of a pack that withholds them, and gets the count.
    """
    about = 'scored again'
    if not options.sample:
        text = 'no utterance (--sample N)'
        return Finding(about, SELF_REPORTED, text)
    if scorer is None:
        return Finding(about, SELF_REPORTED, why)
    signature = signature_at_hand(pack, scorer)
    given_judged = signature != scorer.signature
    first_only = pack.run.manifest.first_only
    problems: list[str] = []
    places = _scored_places(pack, again.texts)
    for place in spread_over_targets(places, pack, seed):
        if again.n_scored >= options.sample:
            break
        dialogue = _dialogue_at(pack, place)
        dialogue = again.texts.get(dialogue.id, dialogue)
        (scored,) = score_dialogues([dialogue], scorer, first_only, given_judged)
        shard = place.shard
        stored = pack.run.scores(signature).read(shard.pairing_id, shard.index)
        scores = stored[place.number].scores
        compared = list(_compare_scores(scores, scored.scores, options.tolerance))
        problems += [f'dialogue {dialogue.id}, {line}' for line in compared]
        first = pack.run.pairing(shard.pairing_id).first
        n_utterances = len({s.utterance_index for s in scored.scores})
        again.scored[first] = again.scored.get(first, 0) + n_utterances
    if not again.scored:
        text = 'none: the texts are withheld, and no dialogue was the same again'
        return Finding(about, SELF_REPORTED, text)
    at_hand = {pack.run.pairing(place.shard.pairing_id).first for place in places}
    text = (
        f'{again.n_scored} utterances have the same scores, within '
        f'{options.tolerance:g}, of '
        f'{_targets_text(pack, again.scored, at_hand, "--sample")}'
    )
    return finding_of(about, text, problems)


def signature_at_hand(pack: Pack, scorer: Scorer) -> str:
    """
    Return the signature of the pack's scores that this scorer makes.

    :raises UserError: when it makes none of them; names what differs.
    """
    for signature in pack.index.scores.values():
        if signature.removesuffix(GIVEN_JUDGED) == scorer.signature:
            return signature
    theirs = next(iter(pack.index.scores.values()), '')
    differing = ', '.join(signature_differences(theirs, scorer.signature))
    raise UserError(f'none: your scorer makes other scores ({differing})')


def _scored_places(pack: Pack, texts: Mapping[str, Dialogue]) -> list[Place]:
    """
    Return the places of the dialogues whose texts are known.
    """
    places = dialogue_places(pack, pack.run.dialogue_shards())
    if not pack.index.withheld_text:
        return places
    ids = [dialogue.id for dialogue in pack.run.iter_dialogues()]
    return [place for place, id in zip(places, ids, strict=True) if id in texts]


def _compare_scores(
    theirs: Collection[Score], ours: Collection[Score], tolerance: float
) -> Iterator[str]:
    """
    Yield the scores of a dialogue that differ by more than the tolerance.
    """

    def by_place(scores: Collection[Score]) -> dict[tuple[Any, ...], float | None]:
        return {(s.utterance_index, s.system, s.dimension): s.value for s in scores}

    pack, again = by_place(theirs), by_place(ours)
    for place in dict.fromkeys((*pack, *again)):
        a, b = pack.get(place), again.get(place)
        same = (
            a is b
            if a is None or b is None
            else math.isclose(a, b, rel_tol=0, abs_tol=tolerance)
        )
        if not same or (place in pack) != (place in again):
            at, system, dimension = place
            yield (
                f'utterance {at} of {system}, {dimension}: the pack says {_shown(a)}, '
                f'scored again it is {_shown(b)}'
            )


def _shown(value: float | None) -> str:
    return 'no score' if value is None else f'{value:.6g}'


def check_judge_again(
    pack: Pack, scorer: Scorer | None, why: str, options: RegenerateOptions
) -> Finding:
    """
    Make the check of a judge again and compare its counts with those of the pack.

    :param scorer: the checker's own; `None` where it is none of the pack's.
    :param why: the reason why there is none.
    """
    about = 'checked again'
    if not options.judge_check:
        text = 'no judge (--judge-check): their counts are the publisher’s word'
        return Finding(about, SELF_REPORTED, text)
    if scorer is None:
        return Finding(about, SELF_REPORTED, why)
    if pack.index.withheld_text:
        return Finding(about, SELF_REPORTED, 'none: the texts are withheld')
    signature = signature_at_hand(pack, scorer)
    store = pack.run.scores(signature)
    says, basis = read_check(store), check_basis(store)
    if says is None:
        return Finding(about, SELF_REPORTED, 'none: the pack has no check to compare')
    # the size that was asked for is not recorded; a smaller number is what was drawn
    default = basis == basis_of(pack.run, store, SAMPLE)
    sample = SAMPLE if default else says.n_responses
    gives = make_check(pack.run, scorer, store, sample, families={})
    if gives is None:
        return Finding(about, SELF_REPORTED, 'none: there is nothing to check')
    problems = list(check_differences(says, gives, options))
    others = [
        scorer_name(other)
        for other in pack.index.scores.values()
        if other != signature and read_check(pack.run.scores(other)) is not None
    ]
    text = (
        f'the judge check of {scorer.name} has the same counts ({gives.n_scored} '
        'scorings)'
    )
    if others:
        text += f'; not made again: that of {", ".join(others)}'
    return finding_of(about, text, problems)
