"""
Two runs side by side on one page: settings, scores, judges and dialogues that differ.

No statistic is new: scores and intervals are those of each run's own ranking. Scores of
different judges are shown, but not subtracted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from parlai_ext.core.display import DASH, one_line
from parlai_ext.core.nouns import Dialogue, Pairing
from parlai_ext.core.signature import signature_differences
from parlai_ext.judge_check.section import judge_section
from parlai_ext.packs.compare import setting_differences
from parlai_ext.packs.verify import open_right_pack
from parlai_ext.ranking.detection import Measure
from parlai_ext.ranking.standings import Standing, best_first
from parlai_ext.report.details import signed
from parlai_ext.report.view import RankingView
from parlai_ext.report.write import PAGE
from parlai_ext.results.chosen_scores import choose_scores
from parlai_ext.results.rank import rank_by_own_rule
from parlai_ext.results.ranking import Ranking, read_ranking
from parlai_ext.store import RunFolder
from parlai_ext.store.manifest import leaf_differences
from parlai_ext.view.page import render_page
from parlai_ext.view.table import Column, IntervalColumn, Table, number_column

MOST_DIALOGUES = 8
Standings = Mapping[str, Standing]  # by system
Parts = list[tuple[list[str], bool]]  # words, and whether the other text lacks them


@dataclass(frozen=True)
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
    sides = first, other
    return render_page(
        'side_by_side.html.j2',
        sides=sides,
        settings=changed_settings(first, other),
        boards={
            name: system_table(first, other, name)
            for name in first.ranking.dimensions
            if name in other.ranking.dimensions
        },
        judges=[
            judge_section(RankingView(one.ranking, one.run.manifest)) for one in sides
        ],
        dialogues=chosen_dialogues(first.run, other.run),
        marked=marked_words,
    )


def changed_settings(first: Side, other: Side) -> list[str]:
    """
    Return ``key: first → other`` for each setting that differs, of the dialogues, the
    judge or the rule, and for each system that is another one under the same name.
    """
    manifests = first.run.manifest, other.run.manifest
    shared = [name for name in manifests[0].targets if name in manifests[1].targets]
    systems = ({n: one.targets[n].identity for n in shared} for one in manifests)
    return [
        *setting_differences(*manifests),
        *(
            f'scorer.{line}'
            for line in signature_differences(
                first.ranking.scorer_signature, other.ranking.scorer_signature
            )
        ),
        *leaf_differences('systems', *systems),
    ]


def system_table(first: Side, other: Side, dimension: str) -> Table:
    """
    Return the two leaderboards of a dimension as one table of the systems' names: those
    in both runs best first, then those in one. Differences are those of scores by one
    judge, the first subtracted.
    """
    ours, theirs = (
        {one.system: one for one in best_first(side.ranking.standings[dimension])}
        for side in (first, other)
    )
    columns = [Column('system', 'System', str)]
    for side, known in ((first, ours), (other, theirs)):
        columns += [
            number_column('rank', 'Rank', partial(_rank, known), under=side.name),
            IntervalColumn(
                'score',
                'Score',
                partial(_score, known),
                digits=3,
                under=side.name,
            ),
        ]
    if first.ranking.scorer_signature == other.ranking.scorer_signature:
        columns += [
            number_column(
                'difference', 'Difference', partial(_difference, ours, theirs)
            ),
            Column('intervals', 'Intervals', partial(_intervals, ours, theirs)),
        ]
    names = sorted(
        {**ours, **theirs}, key=lambda name: name not in ours.keys() & theirs
    )
    return Table(columns, names)


def _rank(known: Standings, name: str) -> int | None:
    return known[name].rank if name in known else None


def _score(known: Standings, name: str) -> Measure | None:
    one = known.get(name)
    return one and Measure(one.score, one.low_fixed, one.high_fixed)


def _difference(ours: Standings, theirs: Standings, name: str) -> str:
    values = [known[name].score for known in (ours, theirs) if name in known]
    first, other = [*values, None][:2]
    return DASH if first is None or other is None else signed(other - first, 3)


def _intervals(ours: Standings, theirs: Standings, name: str) -> str:
    """
    Return whether the intervals for the partners of each run only overlap.
    """
    ends = [
        (one.low_fixed, one.high_fixed)
        for one in (ours.get(name), theirs.get(name))
        if one and one.low_fixed is not None
    ]
    if len(ends) < 2:
        return DASH
    lows, highs = zip(*ends, strict=True)
    return 'apart' if max(lows) > min(highs) else 'overlap'


def chosen_dialogues(
    first: RunFolder, other: RunFolder
) -> list[tuple[Pairing, list[Any]]]:
    """
    Return for each system, up to `MOST_DIALOGUES`, the first dialogue with the same
    partner over the same opener in which the runs differ: the turns side by side.
    """
    theirs = {(pair.first, pair.second): pair.id for pair in other.pairings}
    chosen: dict[str, Any] = {}
    for pairing in first.pairings:
        pair_id = theirs.get((pairing.first, pairing.second))
        by_opener = {one.opener_id: one for one in _dialogues(other, pair_id)}
        for one in _dialogues(first, pairing.id):
            match = by_opener.get(one.opener_id) if one.opener_id else None
            if match and match.utterances != one.utterances:
                turns = [*zip_longest(one.utterances, match.utterances)]
                chosen.setdefault(pairing.first, (pairing, turns))
    return list(chosen.values())[:MOST_DIALOGUES]


def _dialogues(run: RunFolder, pairing_id: str | None) -> Iterator[Dialogue]:
    for shard in run.dialogue_shards():
        if shard.pairing_id == pairing_id:
            yield from run.read_dialogues(shard.pairing_id, shard.index)


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
