"""
Makes the page of a run, and the other files of a ranking that people read.

The page has a view of each ranking, made of sections (among them the tables behind the
leaderboard), the dialogues that it carries, and how the run was made. At the top stand
four answers: who leads, by how much, who judged, and whether to believe it.
"""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, islice
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
from markupsafe import Markup

from parlai_ext.collect.forecast import seconds_per_scored_dialogue
from parlai_ext.core import (
    PART_SEPARATOR,
    Dialogue,
    JsonObject,
    Pairing,
    ScoredDialogue,
    content_id,
    dialogue_means,
    frozen,
    grouped,
    scorer_name,
)
from parlai_ext.ranking.standings import CellMean, best_first
from parlai_ext.report import judge, summary
from parlai_ext.report.plot import axis_over
from parlai_ext.report.table import file_table, leaderboard_csv
from parlai_ext.report.view import (
    PAGE,
    DimensionDetails,
    RankingView,
    dimension_details,
)
from parlai_ext.results.ranking import NAME as RANKING
from parlai_ext.results.ranking import Ranking, ScoreTables, read_ranking, read_tables
from parlai_ext.scoring.judged_corpora import NEAREST_CORPUS
from parlai_ext.store import Manifest, RunFolder
from parlai_ext.view import (
    digits_for,
    duration,
    value_text,
    without_folders,
)
from parlai_ext.view.page import Section, render_page, render_part, template_text

# --- the tables behind a leaderboard --------------------------------------------------
# Every pair of systems, each system with each partner, and how the scores of a system
# spread, ready to draw. Colours follow classes of the style sheet, since the page
# allows no other styles; each cell has its number as text, so that nothing is told by
# colour alone.

# larger tables are cut: nobody reads them, and they would make the page heavy
MOST_SYSTEMS, MOST_PARTNERS = 30, 40
SHADES = 7  # of the heat map, from the lowest score to the highest
Draw = Callable[[Sequence[str], DimensionDetails], dict[str, Any]]


def _section(
    view: RankingView, draw: Draw, id: str, title: str, **about: Any
) -> Section | None:
    """
    Return a section with a panel for each dimension; `None` where none shows anything.

    :param draw: makes what a panel shows of the systems, best first; nothing where that
        would say nothing.
    """
    panels = {}
    for name, details in view.details.items():
        standings = best_first(view.ranking.standings[name])
        systems = [one.system for one in standings if one.score is not None]
        drawn = draw(systems[:MOST_SYSTEMS], details)
        if drawn:
            drawn |= {
                'systems': systems[:MOST_SYSTEMS],
                'left_out': len(systems[MOST_SYSTEMS:]),
                'digits': digits_for([one.score for one in standings]),
            }
        panels[name] = drawn
    if not any(panels.values()):
        return None
    return Section(id, title, {'panels': panels, **about})


# -------------------------------------------------------------------------- the pairs


def pairs_section(view: RankingView) -> Section | None:
    """
    Return the section with the differences of all pairs of systems, by their names.
    """
    few = (summary.leaders_on(view.ranking, name).few_partners for name in view.details)
    return _section(
        view,
        lambda names, one: {'pairs': one.pairs} if len(names) > 1 else {},
        'pairs',
        'Pairs',
        few_partners=next(filter(None, few), ''),
    )


# ------------------------------------------------------------------------ the heat map


def partners_section(view: RankingView) -> Section | None:
    """
    Return the section with the mean score of each system with each partner.
    """
    return _section(view, draw_partners, 'partners', 'Partners', shades=range(SHADES))


def draw_partners(names: Sequence[str], details: DimensionDetails) -> dict[str, object]:
    """
    Return the means by system and partner; nothing where there is one partner, with
    which the means are those of the leaderboard.
    """
    if not names or len(details.partners) < 2:
        return {}
    partners = details.partners[:MOST_PARTNERS]
    cells = details.cells
    means = [cells[n][p].mean for n in names for p in partners if p in cells[n]]
    low, high = min(means, default=0.0), max(means, default=0.0)

    def shade(cell: CellMean) -> int:
        share = (cell.mean - low) / (high - low) if high > low else 0.5
        return min(SHADES - 1, int(share * SHADES))

    return {
        'partners': partners,
        'partners_left_out': len(details.partners) - len(partners),
        'low': low,
        'high': high,
        'cells': cells,
        'shade': shade,
    }


# ------------------------------------------------------------------------- the spreads


def spread_section(view: RankingView) -> Section | None:
    """
    Return the section with a small histogram of each system's dialogues.
    """
    return _section(view, draw_spreads, 'spread', 'Spread')


def draw_spreads(names: Sequence[str], details: DimensionDetails) -> dict[str, object]:
    """
    Return the spread of each system's scores on one axis, and the left, right and upper
    ends of its histogram's bars in a field of 1000 x 100, from above.
    """
    spreads = details.spreads
    if not spreads:
        return {}
    any_spread = next(iter(spreads.values()))
    low, high = any_spread.lowest, any_spread.highest
    axis = axis_over((low, high))
    tallest = max(max(s.counts) / s.n for s in spreads.values())
    bins = np.linspace(low, high, len(any_spread.counts) + 1)
    places = 1000 * (bins - axis.low) / (axis.high - axis.low)
    rows = []
    for name in filter(spreads.__contains__, names):
        spread = spreads[name]
        tops = 100 - 100 * np.array(spread.counts) / spread.n / tallest
        rows.append((name, spread, zip(places, places[1:], tops, strict=False)))
    return {'axis': axis, 'rows': rows}


# --- the dialogues that the page carries ----------------------------------------------
# A page has room for so many characters. Where all dialogues of a run fit, all are
# there. Else the choice is the same every time: for each target the highest, the lowest
# and the middle scored dialogues, some without a score, and the rest drawn by a hash of
# opener and partner: so extremes do not stand for all, and systems can be compared on
# the same openers. Of a large run not all dialogues lie in memory; they are read again.

# of the dialogues of a page, so that with its tables it stays below 5 MB
MAX_PAGE_CHARACTERS = 4_000_000
FEWEST = 12
Means = Mapping[str, float | None]  # by dimension
DIGITS = 6  # significant ones of every number


@frozen
class PageDialogues:
    """
    The dialogues on the page as JSON data, of how many they are chosen, and for each
    scorer the labels of the numbers behind its scores.
    """

    dialogues: tuple[Mapping[str, Any], ...]
    total: int
    labels: tuple[tuple[str, ...], ...]


@frozen(slots=True)
class PageCandidate:
    """
    A dialogue that could be shown: what it is of, its score, and about how many
    characters it takes.
    """

    dialogue_id: str
    pairing_id: str
    opener_id: str
    target: str
    partner: str
    value: float | None
    size: int = 1


def dialogue_candidates(
    tables: ScoreTables, ranking: Ranking, manifest: Manifest
) -> list[PageCandidate]:
    """
    Return every dialogue of a run as a candidate, with the target's mean on the first
    dimension of a ranking; of a game, with how many more points it has than its
    opponent.
    """
    dimensions, candidates = ranking.scored_dimensions, []
    for row in tables.dialogues:
        names = target_and_partner(row.pairing, manifest)
        means = [row.raw.get(name, {}) for name in names]
        value = means[0].get(dimensions[0]) if dimensions else None
        if ranking.tournament and (won := dimensions_won(means, names, dimensions)):
            value = float(len(won[0]) - len(won[1]))
        candidates.append(
            PageCandidate(
                row.id, row.pairing.id, row.opener_id, *names, value, row.size
            )
        )
    return candidates


def read_page_dialogues(
    run: RunFolder, rankings: Sequence[Ranking], candidates: Sequence[PageCandidate]
) -> PageDialogues:
    """
    Choose dialogues of a run for the page, and read them with the scores that each
    ranking is of.

    :param candidates: all dialogues of the run, with the scores of the first ranking.
    """
    picks = choose(candidates, room_for(candidates, len(rankings)))
    if len(picks) == len(candidates):
        picks = dict.fromkeys(picks, '')
    stores = [run.scores(ranking.scorer_signature) for ranking in rankings]
    labels = [store.about().evidence_labels for store in stores]
    wanted = grouped(
        (one.pairing_id, (one.dialogue_id, why)) for one, why in picks.items()
    )
    dialogues: list[dict[str, Any]] = []
    for shard in run.dialogue_shards():
        reasons = dict(wanted.get(shard.pairing_id, ()))
        if not reasons:
            continue
        chosen = [one for one in run.read_dialogues(shard) if one.id in reasons]
        scored = [store.by_dialogue(shard) if chosen else {} for store in stores]
        pairing = run.pairing(shard.pairing_id)
        names = target_and_partner(pairing, run.manifest)
        unjudged = run.manifest.first_only or names[1] in run.manifest.partners
        dialogues += (
            {
                **dialogue_data(dialogue, names),
                # two systems talk, and the second one is judged, too
                'both': names[0] != names[1] and not unjudged,
                'why': reasons[dialogue.id],
                'scored': [
                    scored_data(dialogue, by_id.get(dialogue.id), names, one, own)
                    for one, by_id, own in zip(rankings, scored, labels, strict=True)
                ],
            }
            for dialogue in chosen
        )
    numeric = tuple(tuple(own[k] for k in numeric_columns(own)) for own in labels)
    return PageDialogues(tuple(dialogues), len(candidates), numeric)


# -------------------------------------------------------------------------- the choice


def room_for(candidates: Sequence[PageCandidate], n_scorers: int = 1) -> int:
    """
    Return how many of these dialogues the page has room for.
    """
    total = sum(one.size for one in candidates) * n_scorers
    if total <= MAX_PAGE_CHARACTERS:
        return len(candidates)
    return max(FEWEST, len(candidates) * MAX_PAGE_CHARACTERS // total)


def choose(candidates: Sequence[PageCandidate], limit: int) -> dict[PageCandidate, str]:
    """
    Return at most ``limit`` candidates for the page, divided evenly among the targets,
    and why each was chosen.
    """
    by_target = grouped((one.target, one) for one in candidates)
    shares = fair_shares([len(of_target) for of_target in by_target.values()], limit)
    picks: dict[PageCandidate, str] = {}
    for share, of_target in zip(shares, by_target.values(), strict=True):
        scored = sorted(
            (one for one in of_target if one.value is not None),
            key=lambda one: (one.value, one.dialogue_id),
        )
        unscored = _in_hash_order([one for one in of_target if one.value is None])
        # a fifth of each kind, the rest by hash
        each = max(1, share // 5)
        middle = max(0, (len(scored) - each) // 2)
        kinds = {
            'highest': scored[::-1][:each],
            'lowest': scored[:each],
            'middle': scored[middle : middle + each],
            'not scored': unscored[:each],
            'random': _in_hash_order(of_target),
        }
        # each for the first reason that it has
        reasons: dict[PageCandidate, str] = {}
        for reason, some in kinds.items():
            for candidate in some:
                reasons.setdefault(candidate, reason)
        picks |= islice(reasons.items(), share)
    return picks


def fair_shares(sizes: Sequence[int], limit: int) -> list[int]:
    """
    Divide ``limit`` evenly among groups of these sizes; what a small group does not
    need goes to the others.
    """
    shares = [0] * len(sizes)
    left = limit
    for done, i in enumerate(sorted(range(len(sizes)), key=lambda i: sizes[i])):
        shares[i] = min(sizes[i], left // (len(sizes) - done))
        left -= shares[i]
    return shares


def _in_hash_order(candidates: Sequence[PageCandidate]) -> list[PageCandidate]:
    """
    Return candidates in an order that is the same for all targets: by opener and
    partner.
    """

    def key(one: PageCandidate) -> tuple[str, str]:
        partner = '' if one.partner == one.target else one.partner
        return content_id('report', one.opener_id, partner), one.dialogue_id

    return sorted(candidates, key=key)


def target_and_partner(pairing: Pairing, manifest: Manifest) -> tuple[str, str]:
    """
    Return a pairing's target and the other one; people may begin an imported dialogue.
    """
    if pairing.first in manifest.partners:
        return pairing.second, pairing.first
    return pairing.speakers


def dialogues_with_sides(
    run: RunFolder, signature: str
) -> Iterator[tuple[Dialogue, ScoredDialogue | None, list[tuple[str, str]]]]:
    """
    Yield each dialogue with its scores (`None`: not scored), and its sides: the target
    and its partner, then, unless it is a self-chat, the partner and the target.
    """
    for dialogue, scored in run.scores(signature).scored_dialogues():
        pair = target_and_partner(run.pairing(dialogue.pairing_id), run.manifest)
        yield dialogue, scored, list(dict.fromkeys((pair, pair[::-1])))


def dimensions_won(
    means: Sequence[Means], names: tuple[str, str], dimensions: Sequence[str]
) -> tuple[list[str], list[str]] | None:
    """
    Return on which dimensions each side has the larger mean; `None` where no dimension
    can be compared.
    """
    compared = [
        (d, a, b)
        for d in dimensions
        if (a := means[0].get(d)) is not None and (b := means[1].get(d)) is not None
    ]
    if not compared or names[0] == names[1]:
        return None
    return [d for d, a, b in compared if a > b], [d for d, a, b in compared if a < b]


# -------------------------------------------------------------- dialogues as JSON data


def dialogue_data(dialogue: Dialogue, names: tuple[str, str]) -> JsonObject:
    """
    Return a dialogue as JSON data for the page.

    :param names: the target, whose turns are those of the ``first``, and the other one.
    """
    return {
        'id': dialogue.id,
        'target': names[0],
        'partner': names[1],
        'opener': dialogue.opener_id,
        'ended_by': dialogue.ended_by,
        'reason': dialogue.reason,
        'turns': [
            {
                'first': own,
                'text': utterance.text,
                'given': utterance.given,
            }
            for own, utterance in zip(
                dialogue.turns_of(names[0]), dialogue.utterances, strict=True
            )
        ],
    }


def scored_data(
    dialogue: Dialogue,
    scored: ScoredDialogue | None,
    names: tuple[str, str],
    ranking: Ranking,
    labels: Sequence[str],
) -> JsonObject | None:
    """
    Return what a scorer says of a dialogue as JSON data for the page; `None` where it
    did not score it.

    `means` and `partner_means` run over the dimensions of its ranking. Each `scores`
    list does, too: a number, the reason why there is none, or `None` where nothing was
    scored. Of games, `won` has the dimensions on which each side won. Turns without
    scores and evidence are left out.

    :param names: the target and the other one.
    :param labels: the columns of evidence; those that name turns become marks.
    """
    if scored is None:
        return None
    dimensions = ranking.scored_dimensions
    by_turn, of_partner = _scores_by_turn(scored, names[0])
    means = [dialogue_means(dialogue, scored, name) for name in names]
    shown, turns = numeric_columns(labels), {}
    by_index = scored.figures
    for i in range(len(dialogue.utterances)):
        evidence, own = by_index.get(i, ()), by_turn.get(i, {})
        numbers = shown if labels else range(len(evidence))
        figures = [evidence[k] for k in numbers if k < len(evidence)]
        if own or figures:
            turns[str(i)] = {
                'scores': _score_list(own, dimensions),
                'evidence': list(map(_rounded, figures)),
                'marks': turn_marks(i, own, labels, evidence),
            }
    return {
        'means': [_rounded(means[0].get(d)) for d in dimensions],
        'partner_means': [_rounded(means[1].get(d)) for d in dimensions],
        'won': dimensions_won(means, names, dimensions) if ranking.tournament else None,
        'whole': _score_list(by_turn.get(None, {}), dimensions),
        'whole_partner': _score_list(of_partner, dimensions),
        'turns': turns,
    }


def _score_list(
    scores: Mapping[str, float | str], dimensions: Sequence[str]
) -> list[float | str | None]:
    return [scores.get(d) for d in dimensions] if scores else []


def _scores_by_turn(
    scored: ScoredDialogue, target: str
) -> tuple[dict[int | None, dict[str, float | str]], dict[str, float | str]]:
    """
    Return scores, or why there is none, by turn (`None`: the whole dialogue) and
    dimension; and apart, what the partner's whole dialogue scored.
    """
    by_turn: dict[int | None, dict[str, float | str]] = {}
    of_partner: dict[str, float | str] = {}
    for score in scored.scores:
        is_whole = score.utterance_index is None
        own = by_turn.setdefault(score.utterance_index, {})
        before = own.get(score.dimension)
        if score.value is not None:
            of_target = not is_whole or score.system == target
            values = own if of_target else of_partner
            values[score.dimension] = _rounded(score.value)
        elif not isinstance(before, float):
            reason = score.reason or 'no reason given'
            if is_whole:  # both speakers may have none
                reason = f'{score.system}: {reason}'
                reason = reason if before is None else f'{before}; {reason}'
            own[score.dimension] = reason
    return by_turn, of_partner


def _rounded(value: Any) -> Any:
    """
    Return a number with the digits that the page has; `None` stays so.
    """
    return None if value is None else float(f'{value:.{DIGITS}g}')


# ------------------------------------------------------------ turns that evidence names


# columns of evidence that name earlier turns, counted from 0: the dimension that each
# explains, whether it is a bonus, and how to say it, with and without a turn
TURN_COLUMNS = {
    'repeats_turn': (
        'diversity',
        False,
        'repeats turn {turn}',
        'is empty, which counts as a repetition',
    ),
    'contradicts_turn': (
        'consistency',
        False,
        'answers otherwise than turn {turn}: a contradiction',
        '',
    ),
    'recalls_turn': (
        'relevance',
        True,
        'recalls a concept of turn {turn}, {distance} turns later',
        '',
    ),
}


def turn_marks(
    index: int,
    scores: Mapping[str, float | str],
    labels: Sequence[str],
    evidence: Sequence[float | None],
) -> list[JsonObject]:
    """
    Return the penalties and bonuses of a turn, each with the turn that explains it.

    :param index: the place of the turn in its dialogue, from 0.
    :param scores: the turn's values (or reasons why there is none) by dimension: a turn
        that does not count has no value, and no mark.
    :param labels: the names of the scorer's columns of evidence.
    :param evidence: the turn's value in each of these columns; in those of
        `TURN_COLUMNS` the index of an earlier turn, `None` if there is none.
    """
    marks: list[JsonObject] = []
    for label, turn in zip(labels, evidence, strict=False):
        if label not in TURN_COLUMNS:
            continue
        dimension, bonus, words, no_turn = TURN_COLUMNS[label]
        value, earlier = scores.get(dimension), None if turn is None else int(turn)
        if not isinstance(value, int | float) or not value:
            continue
        if earlier is None:
            words = no_turn
        else:
            words = words.format(turn=earlier, distance=index - earlier)
        if words:
            marks.append(
                {
                    'bonus': bonus,
                    'dimension': dimension,
                    'turn': earlier,
                    'words': words,
                }
            )
    return marks


def numeric_columns(labels: Sequence[str]) -> list[int]:
    """
    Return the indices of the columns of evidence that hold numbers; the others name
    turns, or a corpus.
    """
    names = (*TURN_COLUMNS, NEAREST_CORPUS)
    return [i for i, label in enumerate(labels) if label not in names]


# --- the page -------------------------------------------------------------------------

LEFT_OUT = ('roster', 'reference', 'reference_kind', 'name')


def method_section(view: RankingView) -> Section:
    """
    Return the section with protocol, roster, signature, versions and the commands of a
    run.
    """
    ranking, scorer, manifest = view.ranking, view.scorer, view.run.manifest
    protocol = manifest.protocol.model_dump(exclude_unset=True)
    if scorer is not None:
        protocol['scorer'] = scorer.config
        protocol['ranking'] = scorer.ranking or protocol.get('ranking')
    data = {
        'command': command(ranking.protocol, manifest),
        'scorer': scorer_name(ranking.scorer_signature),
        'protocol': {
            key: value
            for key, value in protocol.items()
            if key not in LEFT_OUT and value not in (None, {}, [])
        },
        'signature': ranking.signature.split(PART_SEPARATOR, 2),
        'option_text': _option_text,
        'quoted': shlex.quote,
    }
    return Section('method', 'How it was made', data)


def command(protocol: str, manifest: Manifest) -> str:
    """
    Return the command line that makes the run, or imports it, again in another folder.
    """
    options = dict(manifest.asked)
    if files := options.pop('dialogues', []):
        words = ['parlai', 'import_dialogues', '--dialogues', *files]
    else:
        options = {'config': protocol, **options}
        words = ['parlai', 'evaluate_systems']
    for option, values in {**options, 'run_dir': 'NEW_FOLDER'}.items():
        for value in values if isinstance(values, list) else [values]:
            words += [f'--{option.replace("_", "-")}', without_folders(str(value))]
    return shlex.join(words)


def _option_text(value: Any) -> str:
    """
    Return an option's value as a command line takes it, without folders.
    """
    return without_folders(value) if isinstance(value, str) else json.dumps(value)


def answers(view: RankingView, dimension: str, remarks: Sequence[str] = ()) -> Markup:
    """
    Return the four answers about a dimension, as HTML.

    :param remarks: what else is known of whether to believe it, as half sentences.
    """
    ranking = view.ranking
    leaders = summary.leaders_on(ranking, dimension)
    first, second = (*(one.system for one in leaders.systems), '', '')[:2]
    details, card = view.details.get(dimension), ranking.judge
    return render_part(
        'answers.html.j2',
        view=view,
        dimension=dimension,
        leaders=leaders,
        outcome=judge.outcome_on(ranking, dimension),
        doubt=view.doubts.get(dimension),
        first=first,
        second=second,
        pair=details.pairs.get((first, second)) if details else None,
        digits=digits_for([one.score for one in ranking.standings[dimension]]),
        scorer=scorer_name(ranking.scorer_signature),
        models=[judge.model_text(model) for model in card.models] if card else [],
        remarks=remarks,
        n_cautions=len(summary.warnings(ranking)),
        rating_text=summary.rating_text,
    )


# the sections of a ranking in their order; each function returns one for a
# `RankingView`, or `None` where it has nothing to show
SECTIONS = (
    'parlai_ext.report.table:leaderboard_section',
    'parlai_ext.report.judge:judge_section',
    'parlai_ext.report.page:pairs_section',
    'parlai_ext.report.page:partners_section',
    'parlai_ext.report.page:spread_section',
    'parlai_ext.tournament.section:tournament_section',
    'parlai_ext.report.table:agreement_section',
    'parlai_ext.report.table:failures_section',
    'parlai_ext.stopping.looks:stopping_section',
    'parlai_ext.audit.section:audit_section',
)
# what speaks against a ranking of a run
DOUBTS = 'parlai_ext.audit.section:audit_doubts'
# of the file of pairs: the names of a pair, then the fields of a `SystemDifference`
PAIR_COLUMNS = (
    'dimension',
    'first',
    'second',
    'difference',
    'low',
    'high',
    'win_rate',
    'n_dialogues',
    'apart',
)
# of the page's own script, in this order
SCRIPTS = (
    'report_view.js',
    'report_dialogue.js',
    'report_list.js',
    'report_files.js',
    'report_start.js',
)


def render_rankings(views: Sequence[RankingView], shown: PageDialogues) -> str:
    """
    Return the report of a run as one HTML file.

    :param views: the rankings of the run, one for each scorer, the main one first.
    """
    main = views[0].ranking
    scripts = ''.join(map(template_text, SCRIPTS))
    first = next(iter(main.scored_dimensions), 'any dimension')
    dialogues = {
        'shown': shown,
        'chosen_by': 'points' if main.tournament else first,
        'both_judged': any(dialogue['both'] for dialogue in shown.dialogues),
    }
    return render_page(
        'report.html.j2',
        script=f"'use strict';\n(function () {{\n{scripts}}})();\n",
        data={
            'scorers': [*map(_scorer_data, views, shown.labels)],
            'dialogues': shown.dialogues,
        },
        views=[*map(_shown_view, views)],
        dialogues=Section('dialogues', 'Dialogues', dialogues),
        words=summary.baseline_words,
    )


def _shown_view(view: RankingView) -> dict[str, object]:
    """
    Return what the page's template is given of a ranking.
    """
    sections = [one for name in SECTIONS if (one := resolve_name(name)(view))]
    remarks = {
        name: [one.remarks[name] for one in sections if name in one.remarks]
        for name in view.ranking.dimensions
    }
    return {
        'view': view,
        'answers': [answers(view, name, own) for name, own in remarks.items()],
        'sentences': summary.sentences(view.ranking, view.doubts),
        'warnings': summary.warnings(view.ranking),
        'sections': sections,
        'method': method_section(view),
    }


def _scorer_data(view: RankingView, labels: Sequence[str]) -> JsonObject:
    """
    Return what the page's script knows of a scorer.

    `boards` are the dimensions with a leaderboard, `best` the systems of each, best
    first; `dimensions` are those with scores of dialogues, `digits` their decimals.
    """
    ranking = view.ranking
    standings = [ranking.standings[name] for name in ranking.scored_dimensions]
    pairs = [
        (dimension, *pair, *vars(own.pairs[pair]).values())
        for dimension, own in view.details.items()
        for pair in combinations(own.cells, 2)
        if pair in own.pairs
    ]
    evidence = 'The numbers from which the scorer made its scores.'
    if scorer_name(ranking.scorer_signature) == 'fed':
        evidence = 'Log-probability of each follow-up as the next utterance; '
        evidence += 'nearer 0 is likelier.'
    return {
        'id': view.id,
        'name': view.name,
        'boards': ranking.dimensions,
        'dimensions': ranking.scored_dimensions,
        'digits': [digits_for([one.score for one in rows]) for rows in standings],
        'best': [
            [one.system for one in best_first(ranking.standings[name])]
            for name in ranking.dimensions
        ],
        'labels': labels,
        'evidence': evidence,
        # in lines, since a long text is cut
        'leaderboard': file_table(ranking).csv().splitlines(keepends=True),
        'pairs': [PAIR_COLUMNS, *pairs],
    }


def write_report(
    run: RunFolder,
    ranking: Ranking,
    folder: str = '',
    tables: ScoreTables | None = None,
) -> Path:
    """
    Write the leaderboard of a ranking and the page of all rankings of the run, that of
    the protocol's scorer first; return the page's path.

    The same run and rankings give the same bytes (with a forecast, the time that
    scoring took is on the page, too).

    :param folder: of the ranking in the run folder, ending in ``/`` unless empty.
    :param tables: the scores that are ranked, where they were read already.
    """
    run.write_text(f'{folder}leaderboard.csv', leaderboard_csv(ranking))
    paths = run.root.glob(f'rankings/*/{RANKING}')
    folders = {folder, *(f'rankings/{path.parent.name}/' for path in paths)}
    folders |= {''} if (run.root / RANKING).is_file() else set()
    rankings = {
        name: ranking if name == folder else read_ranking(run, name)
        for name in sorted(folders)
    }
    candidates: list[PageCandidate] = []
    views: list[RankingView] = []
    for name, shown in rankings.items():
        own = tables if name == folder else None
        own = own or read_tables(run, shown.scorer_signature)
        if not views:
            candidates = dialogue_candidates(own, shown, run.manifest)
        views.append(view_of_ranking(run, shown, name, own))
    dialogues = read_page_dialogues(run, [*rankings.values()], candidates)
    run.write_text(PAGE, render_rankings(views, dialogues))
    return run.root / PAGE


def view_of_ranking(
    run: RunFolder, ranking: Ranking, folder: str, tables: ScoreTables
) -> RankingView:
    """
    Return a ranking as the page shows it; how fast the judge scored is known of the
    protocol's scorer, whose ranking is in no folder of its own.
    """
    about = run.scores(ranking.scorer_signature).about()
    words = [scorer_name(ranking.scorer_signature)]
    if (model := about.config.get('judge_model_file')) not in (None, 'none'):
        words.append(value_text(model))
    seconds = None if folder else seconds_per_scored_dialogue(run)
    return RankingView(
        ranking,
        run,
        dimension_details(run, ranking, tables),
        name=', '.join(words),
        scorer=about if folder else None,
        speed=None if seconds is None else f'{duration(seconds)} for each dialogue',
        doubts=resolve_name(DOUBTS)(run, ranking, folder),
    )
