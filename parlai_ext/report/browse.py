"""
The dialogues that the page carries: chosen, read again, and made JSON data.

The choice is bounded and the same every time. For each target it takes the highest, the
lowest and the middle scored dialogues, some without a score, and the rest drawn by a
hash of the dialogue's id, so that extremes do not stand for all. The run folder is read
twice, so that thousands of dialogues never lie in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parlai_ext.core.dialogue_means import dialogue_means
from parlai_ext.core.nouns import Dialogue, Score, ScoredDialogue, content_id
from parlai_ext.store import RunFolder

MAX_DIALOGUES = 300
# long dialogues are fewer, so that the page stays a page
MAX_UTTERANCES = 6000
FEWEST = 12
Pairings = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class PageDialogues:
    """
    The dialogues on the page as JSON data, of how many they are chosen, and the labels
    of the numbers behind their scores.
    """

    dialogues: tuple[Mapping[str, Any], ...]
    total: int
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Candidate:
    """
    A dialogue that could be shown: its place in the run and its score.
    """

    dialogue_id: str
    pairing_id: str
    shard: int
    target: str
    value: float | None


@dataclass(frozen=True)
class Pick:
    """
    A dialogue that is shown, and why it was chosen.
    """

    candidate: Candidate
    why: str


def read_page_dialogues(
    run: RunFolder,
    scorer_signature: str,
    dimensions: Sequence[str],
    games: bool = False,
    on_read: Callable[[], object] = lambda: None,
) -> PageDialogues:
    """
    Choose dialogues of a run for the page and return them.

    :param dimensions: the first one decides what high and low mean.
    :param games: dialogues are games, and points decide it.
    :param on_read: called for each dialogue that was read.
    """
    pairings = {p['id']: p for p in run.manifest['pairings']}
    longest = max(1, int(run.manifest['protocol'].get('num_turns') or 1))
    limit = max(FEWEST, min(MAX_DIALOGUES, MAX_UTTERANCES // longest))
    candidates = []
    for candidate in _read_candidates(
        run, scorer_signature, pairings, dimensions, games
    ):
        candidates.append(candidate)
        on_read()
    picks = choose(candidates, limit)
    dialogues = _read_picks(run, scorer_signature, pairings, picks, dimensions, games)
    labels = run.scores(scorer_signature).about().get('evidence_labels', ())
    shown_labels = tuple(labels[k] for k in numeric_columns(labels))
    return PageDialogues(tuple(dialogues), len(candidates), shown_labels)


# -------------------------------------------------------------------------- the choice


def choose(candidates: Sequence[Candidate], limit: int) -> list[Pick]:
    """
    Return at most ``limit`` candidates for the page, divided evenly among the targets.
    """
    by_target: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        by_target.setdefault(candidate.target, []).append(candidate)
    shares = fair_shares([len(of_target) for of_target in by_target.values()], limit)
    picks: list[Pick] = []
    for share, of_target in zip(shares, by_target.values(), strict=True):
        picks += _choose_of_target(of_target, share)
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


def _choose_of_target(candidates: Sequence[Candidate], share: int) -> list[Pick]:
    """
    Return ``share`` picks of one target: a fifth of each kind, the rest by hash.
    """
    scored = sorted(
        (c for c in candidates if c.value is not None),
        key=lambda c: (c.value, c.dialogue_id),
    )
    unscored = _in_hash_order([c for c in candidates if c.value is None])
    each = max(1, share // 5)
    middle = max(0, (len(scored) - each) // 2)
    kinds = [
        ('highest', scored[::-1][:each]),
        ('lowest', scored[:each]),
        ('middle', scored[middle : middle + each]),
        ('not scored', unscored[:each]),
        ('random', _in_hash_order(candidates)),
    ]
    picks: dict[str, Pick] = {}
    for reason, some in kinds:
        for candidate in some:
            if len(picks) < share:
                picks.setdefault(candidate.dialogue_id, Pick(candidate, reason))
    return list(picks.values())


def _in_hash_order(candidates: Sequence[Candidate]) -> list[Candidate]:
    return sorted(candidates, key=lambda c: content_id('report', c.dialogue_id))


# ----------------------------------------------------------- reading the run folder


def _read_candidates(
    run: RunFolder,
    scorer_signature: str,
    pairings: Pairings,
    dimensions: Sequence[str],
    games: bool,
) -> Iterator[Candidate]:
    """
    Yield every collected dialogue with the target's mean on the first dimension; of a
    game, with how many more points it has than its opponent.
    """
    main = dimensions[0] if dimensions else ''
    scores = run.scores(scorer_signature)
    for shard in run.dialogue_shards():
        key = (shard.pairing_id, shard.index)
        names = target_and_partner(pairings[shard.pairing_id], run.manifest)
        scored_dialogues = scores.by_dialogue(*key)
        for dialogue in run.read_dialogues(*key):
            scored = scored_dialogues.get(dialogue.id)
            value = (
                dialogue_means(dialogue, scored, names[0]).get(main) if scored else None
            )
            if games and (won := dimensions_won(dialogue, scored, names, dimensions)):
                value = float(len(won[0]) - len(won[1]))
            yield Candidate(dialogue.id, *key, names[0], value)


def _read_picks(
    run: RunFolder,
    scorer_signature: str,
    pairings: Pairings,
    picks: Sequence[Pick],
    dimensions: Sequence[str],
    games: bool,
) -> Iterator[dict[str, Any]]:
    """
    Yield the chosen dialogues as JSON data, in the order of the run.
    """
    both_judged = run.manifest['protocol'].get('score') == 'both'
    people = run.manifest.get('partners', {})
    wanted: dict[tuple[str, int], dict[str, Pick]] = {}
    for pick in picks:
        key = (pick.candidate.pairing_id, pick.candidate.shard)
        wanted.setdefault(key, {})[pick.candidate.dialogue_id] = pick
    scores = run.scores(scorer_signature)
    labels = scores.about().get('evidence_labels', ())
    for shard in run.dialogue_shards():
        key = (shard.pairing_id, shard.index)
        picks_here = wanted.get(key, {})
        if not picks_here:
            continue
        names = target_and_partner(pairings[shard.pairing_id], run.manifest)
        starts = names[0] == pairings[shard.pairing_id]['first']
        both = both_judged and names[0] != names[1] and names[1] not in people
        scored_dialogues = scores.by_dialogue(*key)
        for dialogue in run.read_dialogues(*key):
            if dialogue.id in picks_here:
                pick = picks_here[dialogue.id]
                scored = scored_dialogues.get(dialogue.id)
                won = dimensions_won(dialogue, scored, names, dimensions)
                yield {
                    **dialogue_data(
                        dialogue, scored, names, dimensions, starts, labels
                    ),
                    'why': pick.why,
                    'value': _rounded(pick.candidate.value),
                    'both': both,
                    'won': won if games else None,
                }


def target_and_partner(
    pairing: Mapping[str, Any], manifest: Mapping[str, Any]
) -> tuple[str, str]:
    """
    Return a pairing's target and the other one; people may begin an imported dialogue.
    """
    first, second = pairing['first'], pairing['second']
    if first in manifest.get('partners', {}):
        return second, first
    return first, second


def dimensions_won(
    dialogue: Dialogue,
    scored: ScoredDialogue | None,
    names: tuple[str, str],
    dimensions: Sequence[str],
) -> tuple[list[str], list[str]] | None:
    """
    Return on which dimensions each side has the larger value; `None` where no dimension
    can be compared.
    """
    if scored is None:
        return None
    won: tuple[list[str], list[str]] = ([], [])
    compared = False
    means = [dialogue_means(dialogue, scored, name) for name in names]
    for d in dimensions:
        a, b = (side_means.get(d) for side_means in means)
        if a is not None and b is not None:
            compared = True
            if a != b:
                won[a < b].append(d)
    return won if compared and names[0] != names[1] else None


# -------------------------------------------------------------- dialogues as JSON data


def dialogue_data(
    dialogue: Dialogue,
    scored: ScoredDialogue | None,
    names: tuple[str, str],
    dimensions: Sequence[str],
    starts: bool = True,
    labels: Sequence[str] = (),
) -> dict[str, Any]:
    """
    Return a dialogue as JSON data for the page.

    Each `scores` list runs over the dimensions: a number, the reason why there is none,
    or `None` where nothing was scored.

    :param names: the target and the other one.
    :param starts: the target speaks first, as it does unless people began.
    :param labels: the columns of evidence; those that name turns become marks.
    """
    by_turn, of_partner = _scores_by_turn(scored, names[0])
    turns = []
    for i, utterance in enumerate(dialogue.utterances):
        evidence = (scored.evidence if scored else {}).get(i) or ()
        if not isinstance(evidence, tuple):
            evidence = ()  # other data than a row of figures
        figures = evidence
        if labels and evidence:
            figures = tuple(evidence[k] for k in numeric_columns(labels))
        turns.append(
            {
                'first': (i % 2 == 0) == starts,
                'text': utterance.text,
                'given': utterance.given,
                'scores': _score_list(by_turn.get(i), dimensions),
                'evidence': [_rounded(figure) for figure in figures],
                'marks': turn_marks(i, by_turn.get(i, {}), labels, evidence),
            }
        )
    return {
        'id': dialogue.id,
        'target': names[0],
        'partner': names[1],
        'ended_by': dialogue.ended_by,
        'reason': dialogue.reason,
        'whole': _score_list(by_turn.get(None), dimensions),
        'whole_partner': _score_list(of_partner, dimensions),
        'turns': turns,
    }


def _score_list(
    scores: Mapping[str, float | str] | None, dimensions: Sequence[str]
) -> list[float | str | None]:
    return [scores.get(d) for d in dimensions] if scores else []


def _scores_by_turn(
    scored: ScoredDialogue | None, target: str
) -> tuple[dict[int | None, dict[str, float | str]], dict[str, float | str]]:
    """
    Return scores, or why there is none, by turn (`None`: the whole dialogue) and
    dimension; and apart, what the partner's whole dialogue scored.
    """
    by_turn: dict[int | None, dict[str, float | str]] = {}
    of_partner: dict[str, float | str] = {}
    for score in scored.scores if scored else ():
        turn_scores = by_turn.setdefault(score.utterance_index, {})
        before = turn_scores.get(score.dimension)
        if score.value is None:
            if not isinstance(before, float):
                turn_scores[score.dimension] = _missing_reason(score, before)
        elif score.utterance_index is None and score.system != target:
            of_partner[score.dimension] = round(score.value, 4)
        else:
            turn_scores[score.dimension] = round(score.value, 4)
    return by_turn, of_partner


def _missing_reason(score: Score, before: str | None) -> str:
    """
    Return why there is no score; of a whole dialogue both speakers may have none.
    """
    reason = score.reason or 'no reason given'
    if score.utterance_index is not None:
        return reason
    line = f'{score.system}: {reason}'
    return f'{before}; {line}' if before is not None else line


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


# ------------------------------------------------------------ turns that evidence names


@dataclass(frozen=True)
class TurnColumn:
    """
    A column of evidence that names earlier turns, counted from 0: the dimension that it
    explains, whether it is a bonus or a penalty, and how to say it.
    """

    dimension: str
    bonus: bool
    words: str


TURN_COLUMNS = {
    'repeats_turn': TurnColumn('diversity', False, 'repeats turn {turn}'),
    'contradicts_turn': TurnColumn(
        'consistency', False, 'answers otherwise than turn {turn}: a contradiction'
    ),
    'recalls_turn': TurnColumn(
        'relevance', True, 'recalls a concept of turn {turn}, {distance} turns later'
    ),
}
WITHOUT_TURN = {'repeats_turn': 'is empty, which counts as a repetition'}


def turn_marks(
    index: int,
    scores: Mapping[str, float | str],
    labels: Sequence[str],
    evidence: Sequence[float | None],
) -> list[dict[str, Any]]:
    """
    Return the penalties and bonuses of a turn, each with the turn that explains it.

    :param index: the place of the turn in its dialogue, from 0.
    :param scores: the turn's values (or reasons why there is none) by dimension: a turn
        that does not count has no value, and no mark.
    :param labels: the names of the scorer's columns of evidence.
    :param evidence: the turn's value in each of these columns; in those of
        `TURN_COLUMNS` the index of an earlier turn, `None` if there is none.
    """
    marks = []
    for label, turn in zip(labels, evidence, strict=False):
        column = TURN_COLUMNS.get(label)
        value = scores.get(column.dimension) if column else None
        if column is None or not isinstance(value, int | float) or not value:
            continue
        mark = {'bonus': column.bonus, 'dimension': column.dimension, 'turn': None}
        if turn is not None:
            earlier = int(turn)
            words = column.words.format(turn=earlier, distance=index - earlier)
            marks.append({**mark, 'turn': earlier, 'words': words})
        elif label in WITHOUT_TURN:
            marks.append({**mark, 'words': WITHOUT_TURN[label]})
    return marks


def numeric_columns(labels: Sequence[str]) -> list[int]:
    """
    Return the indices of the columns of evidence that hold numbers; the others name
    turns.
    """
    return [i for i, label in enumerate(labels) if label not in TURN_COLUMNS]
