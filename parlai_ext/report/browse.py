"""
The dialogues that the page carries: chosen, and made JSON data.

A page has room for so many characters. Where all dialogues of a run fit, all are there.
Else the choice is the same every time: for each target the highest, the lowest and the
middle scored dialogues, some without a score, and the rest drawn by a hash of opener
and partner: so extremes do not stand for all, and systems can be compared on the same
openers. Of a large run not all dialogues lie in memory; they are read again.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from parlai_ext.core import (
    Dialogue,
    JsonObject,
    Pairing,
    ScoredDialogue,
    content_id,
    dialogue_means,
    frozen,
    grouped,
)
from parlai_ext.results.ranking import Ranking, ScoreTables
from parlai_ext.scoring.judged_corpora import NEAREST_CORPUS
from parlai_ext.store import Manifest, RunFolder

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
        dialogues += (
            {
                **dialogue_data(dialogue, names),
                'both': are_both_judged(names, run.manifest),
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


def are_both_judged(names: tuple[str, str], manifest: Manifest) -> bool:
    """
    True if two systems talk, and the second one is judged, too.
    """
    is_partner = names[1] in manifest.partners
    return names[0] != names[1] and not (is_partner or manifest.first_only)


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
