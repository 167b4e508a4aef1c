"""
Runs that were made apart, compared: packs as one ranking, if they may be ranked
together, or any two runs side by side on one page.

They may if the dialogues arose in the same way (protocol, partners by their hashes,
openers, seeds), the same scorer judged and the same rule ranks. What is ranked is a run
folder that holds the targets of all packs: the ranking is that of one run with all of
these targets.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import zip_longest
from operator import itemgetter
from pathlib import Path
from typing import Any

from parlai_ext.core import (
    Dialogue,
    Pairing,
    ScoredDialogue,
    change_lines,
    content_id,
    frozen,
    known_values,
    ranking_options,
    scorer_name,
    signature_differences,
)
from parlai_ext.judge_check.record import (
    FAIL,
    PASS,
    WEAK,
    DimensionCheck,
    JudgeCheck,
    read_check,
    write_check,
)
from parlai_ext.packs.pack import Pack
from parlai_ext.packs.publish import dialogue_digest
from parlai_ext.packs.verify import open_right_pack
from parlai_ext.ranking.intervals import Estimate
from parlai_ext.ranking.standings import Standing, best_first
from parlai_ext.report.judge import judge_section
from parlai_ext.report.view import PAGE, RankingView
from parlai_ext.results.ranking import (
    Ranking,
    choose_scores,
    rank_by_own_rule,
    read_ranking,
)
from parlai_ext.store import Manifest, RunFolder
from parlai_ext.view import (
    DASH,
    Column,
    IntervalColumn,
    Table,
    number_column,
    one_line,
    signed,
)
from parlai_ext.view.page import render_page

SEVERITY = (PASS, WEAK, FAIL)


@frozen
class JoinedRun:
    """
    The targets of several packs in one run folder.

    :param signatures: of the scorers, that of the protocol first.
    :param names: for each pack, the name here of each of its targets.
    :param notes: what a reader of a ranking must be told.
    """

    packs: tuple[Pack, ...]
    run: RunFolder
    signatures: tuple[str, ...]
    names: tuple[Mapping[str, str], ...]
    notes: tuple[str, ...]

    def rank(self, signature: str) -> Ranking:
        """
        Return the ranking of all targets by the scores of one scorer.
        """
        ranking = rank_by_own_rule(self.run, signature)
        if any(pack.index.withheld_text for pack in self.packs):
            ranking = replace(ranking, baselines={}, baseline_reference={})
        return replace(ranking, notes=(*ranking.notes, *self.notes))


def pack_differences(joined: Sequence[Pack], other: Pack) -> list[str]:
    """
    Return ``key: first → other`` for each reason why a pack may not be ranked with
    others, which may be ranked together.
    """
    first, packs = joined[0], [*joined, other]
    before, after = first.manifest, other.manifest
    lines = list(_setting_differences(before, after)) or signature_differences(
        before.signature, after.signature
    )
    unscored = [pack.name for pack in (first, other) if not pack.signatures]
    if unscored:
        lines.append(f'scorer: there are no scores in {" nor in ".join(unscored)}')
    elif not common_signatures([first, other]):
        changes = signature_differences(first.signatures[0], other.signatures[0])
        lines += [f'scorer: {line}' for line in changes]
    elif not common_signatures(packs):
        names = ', '.join(pack.name for pack in packs)
        lines.append(f'scorer: none has scored all of {names}')
    if lines:
        return lines
    # targets of one run may have to talk with each other
    pairs, partners = before.scheme.pairs, list(before.partners)
    every = list({name: None for pack in packs for name in pack.manifest.targets})
    played = {p for pack in packs for p in pairs(list(pack.manifest.targets), partners)}
    if apart := {*pairs(every, partners)} - played:
        one, two = min(apart)
        return [f'pairing: {one!r} and {two!r} never talked with each other']
    return []


def differing_settings(
    manifests: Sequence[Manifest], scorer_signatures: Sequence[str]
) -> list[str]:
    """
    Return ``key: first → other`` for each setting in which two runs differ, of the
    dialogues, the scorer or the rule, and for each system that is another one under the
    same name.
    """
    shared = [name for name in manifests[0].targets if name in manifests[1].targets]
    first, other = ({n: one.targets[n].identity for n in shared} for one in manifests)
    return [
        *_setting_differences(*manifests),
        *(f'scorer.{line}' for line in signature_differences(*scorer_signatures)),
        *change_lines(first, other, 'systems'),
    ]


def _setting_differences(first: Manifest, other: Manifest) -> Iterator[str]:
    """
    Yield the settings that differ and that dialogues, or ranks, depend on.
    """
    for manifest in (first, other):
        if not manifest.scheme.is_played:
            yield 'imported: the partners and openers of imported dialogues are unknown'
            return
    before, after = (
        {
            **one.settings(),
            'score': one.protocol.score,
            'ranking': vars(ranking_options(one.protocol.ranking)),
        }
        for one in (first, other)
    )
    yield from change_lines(before, after)


def common_signatures(packs: Sequence[Pack]) -> list[str]:
    """
    Return the signatures of the scorers that scored all packs.
    """
    return [
        signature
        for signature in packs[0].signatures
        if all(signature in pack.signatures for pack in packs)
    ]


def join_packs(packs: Sequence[Pack], root: Path) -> JoinedRun:
    """
    Write the targets of packs that may be compared into one run folder.

    A target with the same name and the same hash is one system: the dialogues of the
    first pack that has it count, and a note says whether the others agree. One with the
    same name and another hash gets its pack's name behind its own. A single pack, which
    may be of imported dialogues, stays as it is.
    """
    names, notes = _names(packs)
    signatures, run = common_signatures(packs), packs[0].run
    notes += [
        f'{pack.name} was played until its own order was settled: intervals assume '
        'that the number of openers was fixed beforehand'
        for pack in packs
        if pack.manifest.stop
    ]
    if len(packs) > 1:
        run = RunFolder.new(root, _joined_manifest(packs, names))
        notes += _join_dialogues(run, packs, names, signatures)
        notes += [_join_records(run, packs, signature) for signature in signatures]
    # that of the protocol has no folder of its own
    signatures.sort(key=lambda one: bool(choose_scores(run, content_id(one))[1]))
    return JoinedRun(
        tuple(packs), run, tuple(signatures), tuple(names), tuple(dict.fromkeys(notes))
    )


def _joined_manifest(
    packs: Sequence[Pack], names: Sequence[Mapping[str, str]]
) -> Manifest:
    """
    Return the manifest of a run with the targets of all packs, under these names.
    """
    manifest = packs[0].run.manifest
    targets: dict[str, Any] = {}
    systems = dict(manifest.systems)
    pairings: dict[str, Pairing] = {}
    for pack, mine in zip(packs, names, strict=True):
        theirs = pack.manifest
        for target, name in mine.items():
            targets.setdefault(name, theirs.targets[target])
            systems.setdefault(name, theirs.systems[target])
        for one in theirs.pairings:
            first, second = (mine.get(n, n) for n in one.speakers)
            pairings.setdefault(one.id, replace(one, first=first, second=second))
    return manifest.changed(
        asked={},
        stop=None,
        targets=targets,
        systems=systems,
        pairings=list(pairings.values()),
    )


def _names(packs: Sequence[Pack]) -> tuple[list[dict[str, str]], list[str]]:
    """
    Return, for each pack, the name of each of its targets in the joined run; and notes
    on other names, and on systems that have several.
    """
    known: dict[str, tuple[Any, Any]] = {}
    aliases: defaultdict[Any, dict[str, None]] = defaultdict(dict)
    names, notes = [], []
    for k, pack in enumerate(packs):
        mine = {}
        for target, entry in pack.manifest.targets.items():
            # what a target is: its hash, and that of the replies that it chooses among
            system = entry.identity, entry.candidates
            choice = (target, f'{target} ({pack.name})', f'{target} ({k + 1})')
            fitting = [name for name in choice if known.get(name, system) == system]
            name = [*fitting, choice[-1]][0]
            mine[target], known[name], aliases[system][name] = name, system, None
            if name != target:
                notes.append(
                    f'{target} of {pack.name} is another system than the first of this '
                    f'name; it is called {name}'
                )
        names.append(mine)
    several = [same for same in aliases.values() if len(same) > 1]
    notes += [f'one system under several names: {", ".join(same)}' for same in several]
    return names, notes


@frozen
class JoinedDialogue:
    """
    A dialogue of a pack with the names of the joined run, its digest, by which texts
    are compared, since a pack may withhold its own, and its scores by each scorer.
    """

    dialogue: Dialogue
    digest: str
    scored: tuple[ScoredDialogue, ...]

    def is_like(self, other: 'JoinedDialogue') -> bool:
        """
        True if another one has the same text and the same scores, whatever the reasons
        of missing ones, which a pack may withhold.
        """
        ours, theirs = (
            [[replace(score, reason=None) for score in by_one.scores] for by_one in s]
            for s in (self.scored, other.scored)
        )
        return self.digest == other.digest and ours == theirs


def _join_dialogues(
    run: RunFolder,
    packs: Sequence[Pack],
    names: Sequence[Mapping[str, str]],
    signatures: Sequence[str],
) -> Iterator[str]:
    """
    Write the dialogues and scores of all packs, those of the first one that has them,
    and yield how those of the others differ.
    """
    repeated: list[dict[str, list[bool]]] = [{} for _ in packs]
    for pairing in run.pairings:
        name = pairing.first
        joined: dict[str, JoinedDialogue] = {}
        for pack, mine, same in zip(packs, names, repeated, strict=True):
            for one in _renamed_dialogues(pack, pairing.id, mine, signatures):
                first = joined.setdefault(one.dialogue.opener_id, one)
                if first is not one:
                    same.setdefault(name, []).append(first.is_like(one))
        for shard in run.planned_shards(pairing.id):
            openers = run.openers[shard.start : shard.stop]
            chosen = [joined[one.id] for one in openers if one.id in joined]
            if chosen and len(chosen) < len(openers):
                yield f'{name}: incomplete files of dialogues are left out'
            elif chosen:
                run.write_dialogues(shard, [one.dialogue for one in chosen])
                for place, signature in enumerate(signatures):
                    scored = [one.scored[place] for one in chosen]
                    run.scores(signature).write(shard, scored)
    for pack, by_name in zip(packs, repeated, strict=True):
        for name, outcomes in by_name.items():
            n, n_different = len(outcomes), outcomes.count(False)
            yield (
                f'{name} is in several packs; in {pack.name}, {n_different} of its {n} '
                'dialogues or their scores are not those of the first pack, which are '
                'ranked'
                if n_different
                else f'{name} is in several packs, with the same {n} dialogues and '
                'scores'
            )


def _renamed_dialogues(
    pack: Pack, pairing_id: str, names: Mapping[str, str], signatures: Sequence[str]
) -> Iterator[JoinedDialogue]:
    """
    Yield the dialogues that a pack has of a pair, with the names of the joined run.
    """

    def renamed(record: Any, field: str) -> Any:
        before = getattr(record, field)
        return replace(record, **{field: names.get(before, before)})

    run = pack.run
    for shard in run.dialogue_shards(pairing_id):
        scores = [run.scores(one).read(shard) for one in signatures]
        columns = run.read_dialogues(shard), run.dialogue_records(shard), *scores
        for before, record, *scored in zip(*columns, strict=True):
            said = tuple(renamed(one, 'speaker') for one in before.utterances)
            dialogue = renamed(replace(before, utterances=said), 'ended_by')
            yield JoinedDialogue(
                dialogue,
                str(record.get('digest') or dialogue_digest(dialogue)),
                tuple(
                    replace(one, scores=tuple(renamed(s, 'system') for s in one.scores))
                    for one in scored
                ),
            )


def _join_records(run: RunFolder, packs: Sequence[Pack], signature: str) -> str:
    """
    Write the record of a scorer and, in each dimension, the worst of its checks in the
    packs. A pack without a check counts as worse than any: then none is written. Return
    a note about that.
    """
    store = run.scores(signature)
    about = packs[0].run.scores(signature).about()
    if about.model_fields_set:
        store.write_about(about)
    given = {
        f'{pack.name} ({k + 1})': read_check(pack.run.scores(signature))
        for k, pack in enumerate(packs)
    }
    checks = known_values(given)
    about_judge = f'judge check of {scorer_name(signature)}'
    if len(checks) == len(packs):
        worst, shown = worst_check(checks)
        write_check(store, worst)
        return f'{about_judge}, in each dimension the worst of all packs: {shown}'
    lacking = ', '.join(name for name in given if name not in checks)
    return f'{about_judge}: unchecked, since there is none in {lacking}'


def worst_check(checks: Mapping[str, JudgeCheck]) -> tuple[JudgeCheck, str]:
    """
    Return the check that has, in each dimension, the worst of several outcomes; and in
    words, from which check each outcome is.

    :param checks: those of one scorer in several packs, by the names of these.
    """

    def worst_name(outcomes: Mapping[str, DimensionCheck]) -> str:
        return max(outcomes, key=lambda name: SEVERITY.index(outcomes[name].outcome))

    first = next(iter(checks.values()))
    dimensions, words = {}, []
    # one that a pack's check leaves out is unchecked
    of_all = set.intersection(*(set(check.dimensions) for check in checks.values()))
    for dimension in filter(of_all.__contains__, first.dimensions):
        own = {name: check.dimensions[dimension] for name, check in checks.items()}
        name = worst_name(own)
        dimensions[dimension] = own[name]
        words.append(f'{dimension} {own[name].outcome}, {name}')
    games = {n: c.tournament for n, c in checks.items() if c.tournament is not None}
    tournament = games[worst_name(games)] if games else None
    note = (
        f'{len(checks)} checks, one in each pack: counts and probes are those of '
        f'{next(iter(checks))}'
    )
    worst = replace(
        first,
        dimensions=dimensions,
        tournament=tournament,
        notes=(*first.notes, note),
    )
    return worst, '; '.join(words)


# --- two runs side by side ------------------------------------------------------------
# Settings, scores, judges and dialogues that differ. No statistic is new: scores and
# intervals are those of each run's own ranking. Scores of different judges are shown,
# but not subtracted.

MOST_DIALOGUES = 8
Row = tuple[Any, ...]  # a system, then its rank and its score in either run
Parts = list[tuple[list[str], bool]]  # words, and whether the other text lacks them


@frozen
class Side:
    """
    A run and its ranking; `link` leads to its own page, if it has one.
    """

    name: str
    run: RunFolder
    ranking: Ranking
    link: str = ''


@contextmanager
def open_side(path: Path, page: Path) -> Iterator[Side]:
    """
    Open a run folder or a pack.

    :param page: the file that will show it.
    :raises UserError: when a pack is damaged, or a run has no ranking.
    """
    if path.is_dir():
        own = path / PAGE
        link = os.path.relpath(own, page.parent) if own.is_file() else ''
        run = RunFolder.existing(path)
        yield Side(path.resolve().name, run, read_ranking(run), link)
    else:
        with open_right_pack(path) as pack:
            signature, _ = choose_scores(pack.run, None)
            yield Side(pack.name, pack.run, rank_by_own_rule(pack.run, signature))


def render_sides(first: Side, other: Side) -> str:
    """
    Return the page of two runs as one HTML file.
    """
    if first.name == other.name:
        first, other = (
            replace(side, name=f'{side.name} ({number})')
            for number, side in ((1, first), (2, other))
        )
    sides = first, other
    views = [RankingView(one.ranking, one.run) for one in sides]
    boards = {
        name: system_table(first, other, name)
        for name in first.ranking.dimensions
        if name in other.ranking.dimensions
    }
    rows = next(iter(boards.values())).rows if boards else ()
    return render_page(
        'side_by_side.html.j2',
        sides=sides,
        settings=differing_settings(
            (first.run.manifest, other.run.manifest),
            [side.ranking.scorer_signature for side in sides],
        ),
        boards=boards,
        intervals=Counter(map(_intervals, rows)),
        judges=list(map(judge_section, views)),
        dialogues=chosen_dialogues(first.run, other.run),
        marked=marked_words,
    )


def system_table(first: Side, other: Side, dimension: str) -> Table:
    """
    Return the two leaderboards of a dimension as one table of systems, each with its
    standings: those in both runs best first, then those in one. Only scores by one
    judge are subtracted.
    """
    sides = first, other
    ours, theirs = (
        {one.system: one for one in best_first(side.ranking.standings[dimension])}
        for side in sides
    )
    columns = [Column('system', 'System', itemgetter(0))]
    for place, side in zip((1, 3), sides, strict=True):
        score = itemgetter(place + 1)
        columns += [
            number_column('rank', 'Rank', itemgetter(place), under=side.name),
            IntervalColumn('score', 'Score', score, digits=3, under=side.name),
        ]
    if first.ranking.scorer_signature == other.ranking.scorer_signature:
        columns += [
            number_column('difference', 'Difference', _difference),
            Column('intervals', 'Intervals', _intervals),
        ]
    names = sorted(
        {**ours, **theirs}, key=lambda name: name not in ours.keys() & theirs
    )
    rows = [
        (name, *_rank_and_score(ours.get(name)), *_rank_and_score(theirs.get(name)))
        for name in names
    ]
    return Table(columns, rows)


def _rank_and_score(one: Standing | None) -> tuple[int | None, Estimate]:
    """
    Return the rank and the score, with the interval for its partners only, in one run.
    """
    if one is None:
        return None, Estimate(None, None, None)
    return one.rank, Estimate(one.score, one.low_fixed, one.high_fixed)


def _difference(row: Row) -> str:
    """
    Return the second score less the first.
    """
    first, other = row[2].value, row[4].value
    return DASH if None in (first, other) else signed(other - first, 3)


def _intervals(row: Row) -> str:
    """
    Return whether the two intervals are apart or overlap.
    """
    one, other = row[2], row[4]
    if None in (one.low, other.low):
        return DASH
    return 'apart' if one.is_beyond(other.low, other.high) else 'overlap'


def chosen_dialogues(
    first: RunFolder, other: RunFolder
) -> list[tuple[str, str, list[Any]]]:
    """
    Return for each system, up to `MOST_DIALOGUES`, its partner and the turns, side by
    side, of the first dialogue over the same opener in which the runs differ.
    """
    theirs = {pair.speakers: pair.id for pair in other.pairings}
    chosen: dict[str, Any] = {}
    for pair in first.pairings:
        pair_id = theirs.get(pair.speakers, '')
        by_opener = {one.opener_id: one for one in other.iter_dialogues(pair_id)}
        for one in first.iter_dialogues(pair.id):
            match = by_opener.get(one.opener_id) if one.opener_id else None
            if match and match.utterances != one.utterances:
                turns = [*zip_longest(one.utterances, match.utterances)]
                chosen.setdefault(pair.first, (*pair.speakers, turns))
    return list(chosen.values())[:MOST_DIALOGUES]


def marked_words(first: str, other: str) -> tuple[Parts, Parts]:
    """
    Return two texts in parts, and of each part whether the other text lacks it there.
    """
    ours, theirs = (one_line(text).split() for text in (first, other))
    blocks = SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes()
    return (
        [(ours[i:j], tag != 'equal') for tag, i, j, _, _ in blocks],
        [(theirs[i:j], tag != 'equal') for tag, _, _, i, j in blocks],
    )
