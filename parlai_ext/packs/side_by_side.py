"""
Two runs side by side on one page: settings, scores, judges and dialogues that differ.

No statistic is new: scores and intervals are those of each run's own ranking. Scores of
different judges are shown, but not subtracted.
"""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import zip_longest
from operator import itemgetter
from pathlib import Path
from typing import Any

from parlai_ext.core import frozen
from parlai_ext.packs.compare import differing_settings
from parlai_ext.packs.verify import open_right_pack
from parlai_ext.ranking.intervals import Estimate
from parlai_ext.ranking.standings import Standing, best_first
from parlai_ext.report.judge import judge_section
from parlai_ext.report.view import PAGE, RankingView
from parlai_ext.results.rank import rank_by_own_rule
from parlai_ext.results.ranking import Ranking, choose_scores, read_ranking
from parlai_ext.store import RunFolder
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
    views = [RankingView(one.ranking, one.run.manifest) for one in sides]
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
