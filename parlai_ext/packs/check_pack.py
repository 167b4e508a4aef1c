"""
A pack checked as a whole: its files, what follows from them, and its scores and
dialogues made again where its scorer and its systems are at hand.

Nothing that a pack names is loaded: systems and scorer are those of the checker's own
protocol. One of them is "at hand" for the pack if it has the hash, or the signature,
that the pack says.
"""

from __future__ import annotations

import random
import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeVar

from parlai_ext import zoo_configs
from parlai_ext.core import (
    ABSENT,
    GIVEN_JUDGED,
    Dialogue,
    Protocol,
    ScoredDialogue,
    System,
    UserError,
    differences,
    frozen,
    record_to_json,
    scorer_name,
    signature_differences,
)
from parlai_ext.engines import Machine
from parlai_ext.judge_check.check import basis_of, make_check
from parlai_ext.judge_check.record import (
    SAMPLE,
    DimensionCheck,
    JudgeCheck,
    KindResult,
    check_basis,
    read_check,
)
from parlai_ext.packs.pack import (
    INDEX,
    Pack,
    PackIndex,
    RegenerateOptions,
    index_bytes,
    member_problems,
    read_index,
    read_pack,
    unpacked,
)
from parlai_ext.packs.publish import dialogue_digest
from parlai_ext.packs.verify import (
    PackFinding,
    all_checks,
    content_findings,
    finding_of,
)
from parlai_ext.scoring.base import Scorer
from parlai_ext.scoring.registry import load_protocol_file
from parlai_ext.scoring.score_run import ChosenScorer, score_dialogues
from parlai_ext.store import Block, Manifest, ShardKey
from parlai_ext.systems.identity import PRESENT, candidates_hash, identity, resolve
from parlai_ext.systems.task_data import load_openers
from parlai_ext.view.page import terminal_sentence
from parlai_ext.view.progress import bar_of
from parlai_ext.worlds.block_player import BlockPlayer

MOST_DRAWS = 2**31  # seeds to draw from
# bytes of a pack's files whose records stay in memory, in about twice as many: what is
# made again is drawn from all shards in random order
ROOM_FOR_DRAWS = 256_000_000
ENDPOINT = 'ext:remote'  # its answers are not ours to repeat
MEANS = ('biases', 'human_anchor')  # what a check says besides its counts
Made = tuple[str, list[str]]  # what was the same again, and what was not
Item = TypeVar('Item')


class NotMade(UserError):
    """
    A part of a pack that is not made again; the message says why.
    """


@frozen
class Checker:
    """
    What the one who checks has: a protocol with systems and a scorer, more systems, and
    a machine. `protocol` is `None` for the shipped one of the pack's name.
    """

    machine: Machine
    protocol: Protocol | None = None
    systems: tuple[System, ...] = ()
    openers_file: str | None = None


@dataclass
class Again:
    """
    What was made again: by target, how many dialogues were played, how many of them
    differ, and how many utterances were scored.

    :param n_whole: dialogues that are the same only where their whole batch is played.
    :param texts: the dialogues that are the same, by their places.
    """

    played: Counter[str] = field(default_factory=Counter)
    different: Counter[str] = field(default_factory=Counter)
    scored: Counter[str] = field(default_factory=Counter)
    n_whole: int = 0
    texts: dict[DialoguePlace, Dialogue] = field(default_factory=dict)

    @property
    def n_scored(self) -> int:
        """
        How many utterances were scored.
        """
        return self.scored.total()

    def same(self, targets: Iterable[str]) -> str:
        """
        Return how many dialogues of targets, of how many, were the same; '' for none.
        """
        names = list(targets)
        n = sum(self.played[name] for name in names)
        n_different = sum(self.different[name] for name in names)
        return f'{n - n_different} of {n}' if n else ''


@frozen
class DialoguePlace:
    """
    Where a dialogue of a pack is: its shard, its number there, and its target.
    """

    shard: ShardKey
    number: int
    target: str

    @property
    def block(self) -> Block:
        """
        A block of this dialogue only.
        """
        start = self.shard.start + self.number
        return Block((replace(self.shard, start=start, stop=start + 1),))

    def dialogue(self, pack: Pack) -> Dialogue:
        """
        Return the dialogue of the pack.
        """
        return pack.run.read_dialogues(self.shard)[self.number]


def dialogue_places(pack: Pack, shards: Iterable[ShardKey]) -> list[DialoguePlace]:
    """
    Return the places of the dialogues that a pack has of some shards.
    """
    targets = {
        pair.id: pair.first if pair.first in pack.manifest.targets else pair.second
        for pair in pack.run.pairings
    }
    return [
        DialoguePlace(shard, number, targets[shard.pairing_id])
        for shard in shards
        if pack.run.has_dialogues(shard)
        for number in range(shard.n_dialogues)
    ]


def spread_over_targets(
    places: Sequence[DialoguePlace], seed: int | None
) -> list[DialoguePlace]:
    """
    Return places in random order, but with one of each target before a second one of
    any, and one of each pair of a target before a second one of that pair.
    """
    drawn = list(places)
    random.Random(seed).shuffle(drawn)
    drawn = spread(drawn, lambda place: place.shard.pairing_id)
    return spread(drawn, lambda place: place.target)


def spread(items: Sequence[Item], key: Callable[[Item], str]) -> list[Item]:
    """
    Return items with one of each key before a second one of any, in their order else.

    >>> spread(['a1', 'a2', 'a3', 'b1'], lambda item: item[0])
    ['a1', 'b1', 'a2', 'a3']
    """
    turns: defaultdict[str, count[int]] = defaultdict(count)
    return sorted(items, key=lambda item: next(turns[key(item)]))


@frozen
class Regeneration:
    """
    A pack, and how much of it is made again with what the checker has.

    :param again: what was made so far.
    """

    pack: Pack
    options: RegenerateOptions
    checker: Checker
    again: Again

    def findings(self) -> Iterator[PackFinding]:
        """
        Yield what was played, scored and checked again.
        """
        for about, make in (
            ('played again', self.play),
            ('scored again', self.score),
            ('checked again', self.check_judge),
        ):
            try:
                yield finding_of(about, *make())
            except NotMade as reason:
                yield PackFinding(about, str(reason))

    def play(self) -> Made:
        """
        Play dialogues of systems at hand again and compare them with those of the pack:
        of as many targets as there are, then of as many pairs.
        """
        options, again = self.options, self.again
        if not options.regenerate:
            raise NotMade('no dialogue (--regenerate M)')
        if self.checker.protocol is None and not self.checker.systems:
            name = self.pack.manifest.protocol.name
            raise NotMade(f'there is no protocol {name!r} here; name one: --config')
        here, missing = systems_at_hand(self.pack, self.checker)
        replay = Replay(self.pack, self.player(here), again)
        blocks = replay.playable()
        playable = list(chain(*blocks.values()))
        drawn = spread_over_targets(playable, options.draw)[: options.regenerate]
        if not drawn:
            raise NotMade(f'none: {_why(missing)}')
        problems, failures = replay.play_drawn(blocks, {*drawn})
        if not again.played:
            raise NotMade(f'none: {"; ".join(failures.values())}')
        looked_at = self.targets_text(again.played, playable, '--regenerate')
        share = again.different.total() / again.played.total()
        is_allowed = problems and share <= options.max_different
        missing |= failures
        text = terminal_sentence(
            'played_again',
            again=again,
            targets=self.pack.manifest.targets,
            looked_at=looked_at,
            missing=missing and _why(missing),
            allowed=options.max_different if is_allowed else None,
        )
        return text, [] if is_allowed else problems

    def player(self, here: Mapping[str, System]) -> BlockPlayer:
        """
        Return a player of the pack's plan, with the systems at hand only, and with
        texts of openers; it makes the batches that the run had.
        """
        plan, manifest = self.pack.run.plan, self.pack.manifest
        protocol = replace(plan.protocol, roster=plan.roster.replaced(here))
        openers, own = plan.openers, self.checker.protocol
        if own is not None and self.pack.index.withheld_text:  # texts and all
            mine = load_openers(own.openers, self.checker.openers_file)
            by_id = {opener.id: opener for opener in mine}
            openers = tuple(by_id.get(one.id, one) for one in openers)
        machine = replace(
            self.checker.machine,
            batchsize=manifest.batchsize,
            fp16=self.checker.machine.fp16 if manifest.fp16 is None else manifest.fp16,
        )
        player = BlockPlayer.from_plan(
            replace(plan, protocol=protocol, openers=openers), machine
        )
        sampled = {n for n, one in manifest.targets.items() if one.shard_size}
        return replace(player, sampling=player.sampling | sampled)

    def targets_text(
        self, looked_at: Collection[str], places: Iterable[DialoguePlace], flag: str
    ) -> str:
        """
        Return how many targets were looked at, of how many; and if more are at hand,
        how to look at them.
        """
        at_hand = {place.target for place in places}
        text = f'{len(looked_at)} of {len(self.pack.manifest.targets)} targets'
        if len(looked_at) < len(at_hand):
            text += f' ({len(at_hand)} are at hand: a larger {flag} takes more)'
        return text

    @cached_property
    def scorer_at_hand(self) -> tuple[Scorer, str]:
        """
        The checker's own scorer, and the signature of its scores in the pack.

        :raises NotMade: where there is none, or it makes no scores of the pack.
        """
        if self.checker.protocol is None:
            raise NotMade('there is no protocol here that names a scorer (--config)')
        chosen = ChosenScorer(self.checker.protocol.scorer)
        try:
            scorer = chosen.build(self.checker.machine)
        except UserError as error:
            raise NotMade(str(error)) from None
        signatures = self.pack.signatures
        for signature in signatures:
            if signature.removesuffix(GIVEN_JUDGED) == scorer.signature:
                return scorer, signature
        differing = signature_differences(next(iter(signatures), ''), scorer.signature)
        raise NotMade(f'none: your scorer makes other scores ({", ".join(differing)})')

    def score(self) -> Made:
        """
        Score utterances again and compare the scores with those of the pack. Texts that
        it withholds are those of the dialogues that were the same when played again.
        """
        if not self.options.sample:
            raise NotMade('no utterance (--sample N)')
        scorer, signature = self.scorer_at_hand
        pack, options, again = self.pack, self.options, self.again
        manifest, given_judged = pack.manifest, signature != scorer.signature
        places = dialogue_places(pack, pack.run.dialogue_shards())
        if pack.index.withheld_text:
            places = [place for place in places if place in again.texts]
        problems = []
        for place in spread_over_targets(places, options.draw):
            if again.n_scored >= options.sample:
                break
            dialogue = again.texts.get(place) or place.dialogue(pack)
            (scored,) = score_dialogues(
                [dialogue], scorer, manifest.first_only, given_judged, manifest.people
            )
            stored = pack.run.scores(signature).read(place.shard)[place.number]
            says, gives = _by_place(stored), _by_place(scored)
            problems += [
                f'dialogue {dialogue.id}, {where}: the pack says {a}, scored again it '
                f'is {b}'
                for where, a, b in differences(says, gives, '', options.tolerance)
            ]
            utterances = {s.utterance_index for s in scored.scores}
            again.scored[place.target] += len(utterances)
        if not again.scored:
            raise NotMade(
                'none: the texts are withheld, and no dialogue was the same again'
            )
        text = (
            f'{again.n_scored} utterances have the same scores, within '
            f'{options.tolerance:g}, of '
            f'{self.targets_text(again.scored, places, "--sample")}'
        )
        return text, problems

    def check_judge(self) -> Made:
        """
        Make the check of a judge again and compare its counts with those of the pack.
        """
        pack = self.pack
        if not self.options.judge_check:
            raise NotMade(
                'no judge (--judge-check): their counts are the publisher’s word'
            )
        scorer, signature = self.scorer_at_hand
        if pack.index.withheld_text:
            raise NotMade('none: the texts are withheld')
        store = pack.run.scores(signature)
        says = read_check(store)
        if says is None:
            raise NotMade('none: the pack has no check to compare')
        # the size that was asked for is not recorded; a smaller one is what was drawn
        default = check_basis(store) == basis_of(store, SAMPLE)
        sample = SAMPLE if default else says.n_responses
        gives = make_check(scorer, store, sample)
        if gives is None:
            raise NotMade('none: there is nothing to check')
        others = [
            scorer_name(other)
            for other in pack.signatures
            if other != signature and read_check(pack.run.scores(other)) is not None
        ]
        text = (
            f'the judge check of {scorer.name} has the same counts ({gives.n_scored} '
            'scorings)'
        )
        if others:
            text += f'; not made again: that of {", ".join(others)}'
        return text, list(check_differences(says, gives, self.options))


@frozen
class Replay:
    """
    A pack, and the player that plays its dialogues again.

    :param again: gets the counts, and the dialogues that are the same.
    """

    pack: Pack
    player: BlockPlayer
    again: Again

    def playable(self) -> dict[Block, list[DialoguePlace]]:
        """
        Return the dialogues of the pack that can be played again, by their blocks:
        their systems are here, and the texts of their openers; of a whole block, where
        a system samples.
        """
        return {
            block: [
                place
                for place in dialogue_places(self.pack, block.shards)
                if self.has_all(block if self.is_sampling(block) else place.block)
            ]
            for block in self.player.missing_blocks(None)
        }

    def is_sampling(self, block: Block) -> bool:
        """
        True if random numbers that a whole block shares decide what is said in it.
        """
        return not self.player.sampling.isdisjoint(self.player.speakers(block))

    def has_all(self, block: Block) -> bool:
        """
        True if all systems and the texts of all openers of a block are here.
        """
        plan = self.player.plan
        names = {s.name for s in plan.roster.systems}
        return names.issuperset(self.player.speakers(block)) and all(
            opener.utterances
            for shard in block.shards
            for opener in plan.openers[shard.start : shard.stop]
        )

    def play_drawn(
        self,
        blocks: Mapping[Block, Sequence[DialoguePlace]],
        drawn: Collection[DialoguePlace],
    ) -> tuple[list[str], dict[str, str]]:
        """
        Play the dialogues of blocks that were drawn. Return where they differ from the
        pack's, and why systems failed.
        """
        problems: list[str] = []
        with bar_of('play again', len(drawn), delay=3) as bar:
            for block, places in blocks.items():
                if mine := [place for place in places if place in drawn]:
                    problems += self.differences(block, mine)
                    bar.update(len(mine))
        failures = dict(self.player.cache.problems)
        self.player.cache.clear()
        return problems, failures

    def differences(
        self, block: Block, drawn: Sequence[DialoguePlace]
    ) -> Iterator[str]:
        """
        Play drawn dialogues of a block again. Yield where they differ from the pack's.

        Where a system samples, the whole batch is played, to which the random numbers
        belong. Any other dialogue is played among those that were drawn, and its whole
        batch only if it differs: a near tie may flip with what else is in a batch.
        """
        again = self.again
        whole: dict[str, Dialogue] = {}
        if self.is_sampling(block):
            drawn = dialogue_places(self.pack, block.shards)
            played = whole = self.play(block)
        else:
            shards = chain.from_iterable(place.block.shards for place in drawn)
            played = self.play(Block(tuple(shards)))
        for place in drawn:
            id = place.dialogue(self.pack).id
            if id not in played:
                continue  # a system failed
            line = self.difference(place, played[id])
            if line and not whole and self.has_all(block):
                whole = self.play(block)
            if line and id in whole:
                played[id] = whole[id]
                line = self.difference(place, whole[id])
                again.n_whole += line is None
            again.played[place.target] += 1
            if line:
                again.different[place.target] += 1
                yield line
            else:
                again.texts[place] = played[id]

    def play(self, block: Block) -> dict[str, Dialogue]:
        """
        Return the dialogues of a block by their ids, played again.
        """
        blocks = self.player.play_block(block).values()
        return {dialogue.id: dialogue for played in blocks for dialogue in played}

    def difference(self, place: DialoguePlace, ours: Dialogue) -> str | None:
        """
        Return where a dialogue of the pack and the same one played again first differ.
        """
        run, theirs = self.pack.run, place.dialogue(self.pack)
        pair = run.pairing(place.shard.pairing_id)
        start = f'dialogue {theirs.id} ({pair.first} – {pair.second})'
        if self.pack.index.withheld_text:
            record = run.dialogue_records(place.shard)[place.number]
            same = record['digest'] == dialogue_digest(ours)
            return None if same else f'{start}: its digest is another one'
        # why somebody ended it may be told in other words
        sides = (record_to_json(replace(one, reason=None)) for one in (theirs, ours))
        for where, a, b in differences(*sides):
            return f'{start}: {where}: the pack has {a!r}, played again it is {b!r}'
        return None


def systems_at_hand(
    pack: Pack, checker: Checker
) -> tuple[dict[str, System], dict[str, str]]:
    """
    Return, by their names in the pack, the checker's systems that have the same hash;
    and of the others why they are not here.
    """
    here: dict[str, System] = {}
    reasons: dict[str, str] = {}
    by_hash: dict[str, System] = {}
    roster = checker.protocol.roster.systems if checker.protocol else ()
    for system in (*roster, *checker.systems):
        if system.opt.get('model') == ENDPOINT:
            reasons[system.name] = 'an endpoint, whose answers may change'
            continue
        resolution = resolve(system)
        if resolution.status == PRESENT:
            digest = identity(system)
            by_hash[digest] = system
            reasons[system.name] = f'yours is another one, {digest}'
        else:
            reasons[system.name] = resolution.reason or 'its model is not fetched'
    everybody = pack.manifest.everybody
    for name, entry in everybody.items():
        if entry.identity not in by_hash:
            reasons.setdefault(name, 'your protocol does not have it')
            continue
        system = System(name, by_hash[entry.identity].opt)
        # that of the replies that a retriever of the pack chooses among
        if candidates_hash(system) == entry.candidates:
            here[name] = system
        else:
            reasons[name] = 'yours chooses among other replies'
    return here, {n: reasons[n] for n in everybody if n not in here}


def _by_place(scored: ScoredDialogue) -> dict[str, float | None]:
    return {
        f'utterance {score.utterance_index} of {score.system}, {score.dimension}': (
            score.value
        )
        for score in scored.scores
    }


def _why(missing: Mapping[str, str]) -> str:
    lines = [f'{name} ({reason})' for name, reason in missing.items()]
    return '; '.join(lines) or 'no batch has all of its systems and openers here'


def check_differences(
    says: JudgeCheck, gives: JudgeCheck, options: RegenerateOptions
) -> Iterator[str]:
    """
    Yield where a check differs from the same one made again.

    :param options: how many pairs of a kind, and how far means, may differ.
    """
    theirs, ours = all_checks(says), all_checks(gives)
    for place, a, b in differences(_kinds(theirs), _kinds(ours)):
        if ABSENT not in (a, b) and a.n == b.n:
            changes = (a.n_higher - b.n_higher, a.n_ties - b.n_ties)
            if max(map(abs, changes)) <= options.max_different * a.n:
                continue
        yield f'{place}: the pack says {_counts(a)}, made again it is {_counts(b)}'
    before, after = (
        {
            name: {key: record_to_json(getattr(own, key)) for key in MEANS}
            for name, own in checks.items()
        }
        for checks in (theirs, ours)
    )
    for where, a, b in differences(before, after, '', options.tolerance):
        yield f'{where}: the pack says {a}, made again it is {b}'


def _kinds(checks: Mapping[str, DimensionCheck]) -> dict[str, KindResult]:
    """
    Return what checks say of each kind of perturbation, by its place.
    """
    return {
        f'{name}, {kind.kind} of {kind.source}': kind
        for name, own in checks.items()
        for kind in own.kinds
    }


def _counts(kind: Any) -> str:
    if kind is ABSENT:
        return 'nothing'
    return f'{kind.n_higher} of {kind.n} higher, {kind.n_ties} ties'


@frozen
class Verification:
    """
    What is known of a pack after its check.

    :param manifest: of its run; `None` where it cannot be read.
    :param draw: the seed by which dialogues and utterances were drawn.
    """

    path: Path
    id: str
    manifest: Manifest | None
    findings: tuple[PackFinding, ...]
    again: Again
    draw: int | None

    @property
    def problems(self) -> list[str]:
        """
        All that is wrong, each with the part that it is in.
        """
        return [f'{f.about}: {line}' for f in self.findings for line in f.problems]


def check_pack(
    path: str | Path,
    options: RegenerateOptions | None = None,
    checker: Checker | None = None,
) -> Verification:
    """
    Check a pack.

    :param checker: `None` makes nothing again.
    :raises UserError: for a file that is no pack.
    """
    file, options, again = Path(path), options or RegenerateOptions(), Again()
    if options.draw is None:
        options = replace(options, draw=secrets.randbelow(MOST_DRAWS))
    with unpacked(file) as folder:
        index, id = read_index(folder, file)
        manifest, findings = None, [files_finding(folder, index)]
        try:
            pack = read_pack(folder, file, index, id)
        except UserError as error:
            line = str(error).removeprefix(f'{file}: ')
            findings.append(finding_of('manifest', '', [line]))
        else:
            manifest = pack.manifest
            pack.run.room = ROOM_FOR_DRAWS
            findings += content_findings(pack)
            if any(finding.problems for finding in findings):
                text = 'nothing, since what is there is wrong'
                findings.append(PackFinding('made again', text))
            else:
                own = with_shipped_protocol(checker or Checker(Machine()), pack)
                findings += Regeneration(pack, options, own, again).findings()
    return Verification(file, id, manifest, tuple(findings), again, options.draw)


def files_finding(folder: Path, index: PackIndex) -> PackFinding:
    """
    Return whether the files of an unpacked pack are those of its index.
    """
    problems = member_problems(folder, index)
    # the index itself must have the bytes that its content gives: no key more, none
    # twice, and one id
    if (folder / INDEX).read_bytes() != index_bytes(index):
        problems.insert(0, f'{INDEX} is written otherwise than publish_run writes it')
    proven = f'all {len(index.members)} have the sha256 that {INDEX} says'
    return finding_of('files', proven, problems)


def with_shipped_protocol(checker: Checker, pack: Pack) -> Checker:
    """
    Return a checker without a protocol with the shipped one of the pack's name.
    """
    name = pack.manifest.protocol.name
    # a path in a pack is no shipped protocol
    if checker.protocol is not None or name not in zoo_configs.names('protocols'):
        return checker
    return replace(checker, protocol=load_protocol_file(name).protocol)
