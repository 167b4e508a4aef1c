"""
Scores and dialogues of a pack, made again where its scorer and its systems are at hand.

Nothing that a pack names is loaded: systems and scorer are those of the checker's own
protocol. One of them is "at hand" for the pack if it has the hash, or the signature,
that the pack says.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from parlai_ext.collect.block_player import BlockPlayer
from parlai_ext.collect.plan import Plan, plan_of_run
from parlai_ext.collect.resolved import sampling_systems
from parlai_ext.core.errors import UserError
from parlai_ext.core.machine import Machine
from parlai_ext.core.nouns import Dialogue, Opener, Roster, Score, System
from parlai_ext.core.progress import bar_of
from parlai_ext.core.schedule import Block, ShardKey
from parlai_ext.core.signature import GIVEN_JUDGED, signature_differences
from parlai_ext.packs.options import RegenerateOptions
from parlai_ext.packs.pack import Pack
from parlai_ext.packs.publish import dialogue_digest, shard_name
from parlai_ext.packs.verify import SELF_REPORTED, Finding, finding_of
from parlai_ext.scoring.base import Scorer
from parlai_ext.scoring.score_run import score_dialogues
from parlai_ext.store.lines import decode_shard
from parlai_ext.systems.family import PRESENT
from parlai_ext.systems.identity import candidates_hash, identity
from parlai_ext.systems.resolve import resolve

ENDPOINT = 'ext:remote'  # its answers are not ours to repeat


@dataclass
class Again:
    """
    What was made again: by target, how many dialogues were played and how many of them
    differ; and how many utterances were scored.
    """

    played: dict[str, int] = field(default_factory=dict)
    different: dict[str, int] = field(default_factory=dict)
    n_scored: int = 0
    texts: dict[str, Dialogue] = field(default_factory=dict)


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
    target = manifest['targets'].get(name, {}).get('candidates')
    value = manifest['collect'].get(f'partners.{name}.candidates', target)
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

    Whole blocks are played, because what a batch holds, and the random numbers of
    systems that sample, belong to a block.

    :param openers: texts of openers by id, for a pack that withholds them.
    :param again: gets the counts, and the dialogues that are the same.
    """
    about = 'played again'
    if not options.regenerate:
        text = 'no dialogue (--regenerate M)'
        return Finding(about, SELF_REPORTED, text)
    plan = _plan_with(pack, here, openers)
    player = _player(pack, plan, machine)
    blocks = _playable(player, plan)
    chosen = _choose(blocks, player, options.regenerate, seed)
    if not chosen:
        return Finding(about, SELF_REPORTED, f'none: {_why(missing)}')
    problems: list[str] = []
    total = sum(block.n_dialogues for block in chosen)
    with bar_of('play again', total, delay=3) as bar:
        for block in chosen:
            for shard, dialogues in player.play_block(block).items():
                problems += _compare_shard(pack, plan, shard, dialogues, again)
                bar.update(len(dialogues))
    player.cache.clear()
    n_played, n_different = sum(again.played.values()), sum(again.different.values())
    if not n_played:
        reason = '; '.join(player.cache.problems.values())
        return Finding(about, SELF_REPORTED, f'none: {reason}')
    counts = ', '.join(
        f'{n} {k - again.different.get(n, 0)} of {k}' for n, k in again.played.items()
    )
    n_same = n_played - n_different
    text = f'{n_same} of {n_played} dialogues are the same word by word ({counts})'
    if missing:
        text += f'; not at hand: {_why(missing)}'
    allowed = n_different <= options.max_different * n_played
    if problems and allowed:
        text += f'; at most {options.max_different:.0%} may differ'
    return finding_of(about, text, [] if allowed else problems)


def _plan_with(
    pack: Pack, here: Mapping[str, System], openers: Mapping[str, Opener]
) -> Plan:
    """
    Return the pack's plan with the systems at hand only, and with texts of openers.
    """
    plan = plan_of_run(pack.run)
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
    fp16 = manifest['collect'].get('fp16', machine.fp16)
    machine = replace(machine, batchsize=int(manifest['batchsize']), fp16=fp16)
    player = BlockPlayer.from_plan(plan, machine)
    sampled = {n for n, one in manifest['targets'].items() if 'shard_size' in one}
    systems = plan.roster.targets + plan.roster.partners
    sampling = sampling_systems(systems, machine.datapath) | sampled
    return replace(player, sampling=sampling)


def _playable(player: BlockPlayer, plan: Plan) -> list[Block]:
    """
    Return the blocks of which all systems and the texts of all openers are here.
    """
    names = {s.name for s in plan.roster.targets + plan.roster.partners}
    return [
        block
        for block in player.missing_blocks(None)
        if names.issuperset(player.speakers(block))
        and all(
            opener.utterances
            for shard in block.shards
            for opener in plan.openers[shard.start : shard.stop]
        )
    ]


def _choose(
    blocks: Sequence[Block], player: BlockPlayer, n_dialogues: int, seed: int
) -> list[Block]:
    """
    Draw blocks with at least ``n_dialogues`` together, of as many first speakers as
    these allow.
    """
    drawn = list(blocks)
    random.Random(seed).shuffle(drawn)
    places: dict[str, int] = {}
    turns = {}
    for block in drawn:
        first = player.speakers(block)[0]
        turns[block] = places[first] = places.get(first, -1) + 1
    chosen: list[Block] = []
    for block in sorted(drawn, key=lambda one: turns[one]):
        if sum(one.n_dialogues for one in chosen) >= n_dialogues:
            break
        chosen.append(block)
    return chosen


def _why(missing: Mapping[str, str]) -> str:
    lines = [f'{name} ({reason})' for name, reason in missing.items()]
    return '; '.join(lines) or 'no batch has all of its systems and openers here'


def _compare_shard(
    pack: Pack,
    plan: Plan,
    shard: ShardKey,
    played: Sequence[Dialogue],
    again: Again,
) -> Iterator[str]:
    """
    Yield where dialogues that were played again differ from those of the pack.
    """
    path = pack.run.root / shard_name('dialogues', shard)
    if not path.exists():
        return
    given = pack.run.read_dialogues(shard.pairing_id, shard.index)
    records = decode_shard(path.read_bytes(), shard.index, path)
    pairing = pack.run.pairing(shard.pairing_id)
    for dialogue, theirs, record in zip(played, given, records, strict=True):
        again.played[pairing.first] = again.played.get(pairing.first, 0) + 1
        if pack.index.withheld_text:
            same = record['digest'] == dialogue_digest(dialogue)
            difference = None if same else 'its digest is another one'
        else:
            difference = first_difference(theirs, dialogue)
        if difference is None:
            again.texts[dialogue.id] = dialogue
            continue
        again.different[pairing.first] = again.different.get(pairing.first, 0) + 1
        yield (
            f'dialogue {dialogue.id} ({pairing.first} – {pairing.second}): {difference}'
        )


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
    given_judged = signature_at_hand(pack, scorer)[len(scorer.signature) :]
    first_only = pack.run.manifest['protocol'].get('score') != 'both'
    problems: list[str] = []
    for dialogue, scores in _drawn_scores(pack, scorer, again.texts, seed):
        if again.n_scored >= options.sample:
            break
        (scored,) = score_dialogues([dialogue], scorer, first_only, bool(given_judged))
        compared = list(_compare_scores(scores, scored.scores, options.tolerance))
        problems += [f'dialogue {dialogue.id}, {line}' for line in compared]
        again.n_scored += len({s.utterance_index for s in scored.scores})
    if not again.n_scored:
        text = 'none: the texts are withheld, and no dialogue was the same again'
        return Finding(about, SELF_REPORTED, text)
    within = f'within {options.tolerance:g}'
    text = f'{again.n_scored} utterances have the same scores, {within}'
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


def _drawn_scores(
    pack: Pack, scorer: Scorer, texts: Mapping[str, Dialogue], seed: int
) -> Iterator[tuple[Dialogue, Collection[Score]]]:
    """
    Yield dialogues with text and their scores, in random order.
    """
    store = pack.run.scores(signature_at_hand(pack, scorer))
    shards = pack.run.dialogue_shards()
    places = [(s, n) for s in shards for n in range(s.n_dialogues)]
    random.Random(seed).shuffle(places)
    for shard, n in places:
        dialogue = pack.run.read_dialogues(shard.pairing_id, shard.index)[n]
        scores = store.read(shard.pairing_id, shard.index)[n].scores
        if not pack.index.withheld_text:
            yield dialogue, scores
        elif dialogue.id in texts:
            yield texts[dialogue.id], scores


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
