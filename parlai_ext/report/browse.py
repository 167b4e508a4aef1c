"""
The dialogues that the page carries: chosen, read again, and made plain data.

Two passes over the run folder, so that thousands of dialogues never lie in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from parlai_ext.core.dialogue_means import dialogue_means
from parlai_ext.core.nouns import Dialogue, Score, ScoredDialogue
from parlai_ext.report.marks import marks, numeric
from parlai_ext.report.sample import Candidate, Pick, choose

if TYPE_CHECKING:
    from parlai_ext.store import RunFolder

MAX_DIALOGUES = 300
# long dialogues are fewer, so that the page stays a page
MAX_UTTERANCES = 6000
FEWEST = 12
Pairings = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Shelf:
    """
    The dialogues on the page as JSON data, of how many they are chosen, and what the
    columns of their evidence are.
    """

    dialogues: tuple[Mapping[str, Any], ...]
    total: int
    labels: tuple[str, ...] = ()


def fill_shelf(
    run: RunFolder,
    scorer_signature: str,
    dimensions: Sequence[str],
    games: bool = False,
    seen: Callable[[], object] = lambda: None,
) -> Shelf:
    """
    Choose dialogues of a run for the page and return them.

    :param dimensions: the first one decides what high and low mean.
    :param games: dialogues are games, and points decide it.
    :param seen: called for each dialogue that was read.
    """
    pairings = {p['id']: p for p in run.manifest['pairings']}
    longest = max(1, int(run.manifest['protocol'].get('num_turns') or 1))
    limit = max(FEWEST, min(MAX_DIALOGUES, MAX_UTTERANCES // longest))
    found = []
    for one in candidates(run, scorer_signature, pairings, dimensions, games):
        found.append(one)
        seen()
    picks = choose(found, limit)
    shown = tuple(_read(run, scorer_signature, pairings, picks, dimensions, games))
    labels = run.scores(scorer_signature).about().get('evidence_labels', ())
    kept = tuple(labels[k] for k in numeric(labels))
    return Shelf(shown, len(found), kept)


def candidates(
    run: RunFolder,
    scorer_signature: str,
    pairings: Pairings,
    dimensions: Sequence[str],
    games: bool = False,
) -> Iterator[Candidate]:
    """
    Yield every collected dialogue with the judged system's mean on the first dimension;
    of a game, with how many more points it has than the other one.
    """
    main = dimensions[0] if dimensions else ''
    scores = run.scores(scorer_signature)
    for pairing_id, index in _shards(run):
        names = sides(pairings[pairing_id], run.manifest)
        scored = scores.by_dialogue(pairing_id, index)
        for dialogue in run.read_dialogues(pairing_id, index):
            one = scored.get(dialogue.id)
            value = dialogue_means(dialogue, one, names[0]).get(main) if one else None
            if games and (won := points_won(dialogue, one, names, dimensions)):
                value = float(len(won[0]) - len(won[1]))
            yield Candidate(dialogue.id, pairing_id, index, names[0], value)


def points_won(
    dialogue: Dialogue,
    scored: ScoredDialogue | None,
    names: tuple[str, str],
    dimensions: Sequence[str],
) -> tuple[list[str], list[str]] | None:
    """
    Return on which dimensions each side has the larger value; `None` of no game.
    """
    if scored is None:
        return None
    won: tuple[list[str], list[str]] = ([], [])
    compared = False
    means = [dialogue_means(dialogue, scored, name) for name in names]
    for d in dimensions:
        a, b = (own.get(d) for own in means)
        if a is not None and b is not None:
            compared = True
            if a != b:
                won[a < b].append(d)
    return won if compared and names[0] != names[1] else None


def sides(pairing: Mapping[str, Any], manifest: Mapping[str, Any]) -> tuple[str, str]:
    """
    Return a pairing's target and the other one; people may begin an imported dialogue.
    """
    first, second = pairing['first'], pairing['second']
    if first in manifest.get('partners', {}):
        return second, first
    return first, second


def as_data(
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
    or `None` where nothing was asked.

    :param names: the target and the other one.
    :param starts: the target speaks first, as it does unless people began.
    :param labels: the columns of evidence; those that name turns become marks.
    """
    by_place, others = _by_place(scored, names[0])
    turns = []
    for i, utterance in enumerate(dialogue.utterances):
        figures = (scored.evidence if scored else {}).get(i) or ()
        told = {
            'first': (i % 2 == 0) == starts,
            'text': utterance.text,
            'given': utterance.given,
            'scores': _row(by_place.get(i, {}), dimensions),
            'evidence': [rounded(v) for v in _numbers(figures, labels)],
            'marks': marks(i, by_place.get(i, {}), labels, figures),
        }
        turns.append(told)
    return {
        'id': dialogue.id,
        'target': names[0],
        'partner': names[1],
        'ended_by': dialogue.ended_by,
        'reason': dialogue.reason,
        'whole': _row(by_place.get(None, {}), dimensions),
        'whole_partner': [others.get(d) for d in dimensions] if others else [],
        'turns': turns,
    }


def _numbers(
    figures: Sequence[float | None], labels: Sequence[str]
) -> Sequence[float | None]:
    if not labels or not figures:
        return figures
    return [figures[k] for k in numeric(labels)]


def _row(
    found: Mapping[str, float | str], dimensions: Sequence[str]
) -> list[float | str | None]:
    return [found.get(d) for d in dimensions] if found else []


def _by_place(
    scored: ScoredDialogue | None, target: str
) -> tuple[dict[int | None, dict[str, float | str]], dict[str, float]]:
    """
    Return scores, or why there is none, by turn (`None`: the whole dialogue) and
    dimension; and apart, what the other one's whole dialogue scored.
    """
    by_place: dict[int | None, dict[str, float | str]] = {}
    others: dict[str, float] = {}
    for score in scored.scores if scored else ():
        found = by_place.setdefault(score.utterance_index, {})
        before = found.get(score.dimension)
        if score.value is None:
            if not isinstance(before, float):
                found[score.dimension] = _why(score, before)
        elif score.utterance_index is None and score.system != target:
            others[score.dimension] = round(score.value, 4)
        else:
            found[score.dimension] = round(score.value, 4)
    return by_place, others


def rounded(value: float | None) -> float | None:
    """
    Return a number with the decimals that a page needs.
    """
    return None if value is None else round(value, 4)


def _why(score: Score, before: float | str | None) -> str:
    """
    Return why there is no score; of a whole dialogue both speakers may have none.
    """
    reason = score.reason or 'no reason given'
    if score.utterance_index is not None:
        return reason
    said = f'{score.system}: {reason}'
    return f'{before}; {said}' if before is not None else said


def _read(
    run: RunFolder,
    scorer_signature: str,
    pairings: Pairings,
    picks: Sequence[Pick],
    dimensions: Sequence[str],
    games: bool,
) -> Iterator[dict[str, Any]]:
    """
    Yield the chosen dialogues in the order of the run.
    """
    both_judged = run.manifest['protocol'].get('score') == 'both'
    people = run.manifest.get('partners', {})
    wanted: dict[tuple[str, int], dict[str, Pick]] = {}
    for pick in picks:
        place = (pick.candidate.pairing_id, pick.candidate.shard)
        wanted.setdefault(place, {})[pick.candidate.dialogue_id] = pick
    scores = run.scores(scorer_signature)
    labels = scores.about().get('evidence_labels', ())
    for pairing_id, index in _shards(run):
        here = wanted.get((pairing_id, index), {})
        if not here:
            continue
        names = sides(pairings[pairing_id], run.manifest)
        starts = names[0] == pairings[pairing_id]['first']
        both = both_judged and names[0] != names[1] and names[1] not in people
        scored = scores.by_dialogue(pairing_id, index)
        for dialogue in run.read_dialogues(pairing_id, index):
            if dialogue.id in here:
                pick = here[dialogue.id]
                one = scored.get(dialogue.id)
                data = as_data(dialogue, one, names, dimensions, starts, labels)
                won = points_won(dialogue, one, names, dimensions) if games else None
                value = rounded(pick.candidate.value)
                more = {'why': pick.why, 'value': value, 'both': both, 'won': won}
                yield {**data, **more}


def _shards(run: RunFolder) -> Iterator[tuple[str, int]]:
    for shard in run.dialogue_shards():
        yield shard.pairing_id, shard.index
