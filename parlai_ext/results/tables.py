"""
A run folder as arrays: one mean score for each dialogue, dimension and target.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from parlai_ext.core import (
    SCHEMES,
    Dialogue,
    Pairing,
    ScoredDialogue,
    dialogue_means,
    frozen,
)
from parlai_ext.ranking.baselines import HIGHER_IS_BETTER, baseline_values
from parlai_ext.ranking.games import Game, RawScores
from parlai_ext.ranking.intervals import distinct_openers
from parlai_ext.results.ranking import Nearness
from parlai_ext.scoring.judged_corpora import NEAREST_CORPUS, NEARNESS
from parlai_ext.store import Plan, RunFolder, no_garbage_collection
from parlai_ext.view import MAX_CHARACTERS

# what a turn and a number take beside the text on a page: keys, quotes, commas
TURN_CHARACTERS, NUMBER_CHARACTERS = 60, 10


@frozen(kw_only=True)
class TableDialogue(Game):
    """
    A dialogue of the run; its raw scores are the means of each judged speaker, without
    any where it is not scored.

    :param size: about how many characters of a page it takes.
    """

    pairing: Pairing
    opener_id: str
    size: int = 1


@dataclass
class ScoreTables:
    """
    The dialogue means of a run by dimension and by trivial baseline.

    Each is a dense array ``[target, opponent, opener]``, NaN where there is no dialogue
    or no score. With two `games_per_opener`, the openers are there twice: first for the
    games that the target began, then for those that its opponent began.
    `n_dialogues` counts a target's collected dialogues, `n_played` those in which a
    system took part and `failures` why those that it broke off ended. `n_contexts`
    counts the judged utterances of a target, `n_cut` those whose context was too long
    for the judge, `reasons` why scores are missing. `dialogues` has every dialogue,
    self-chats among them.
    """

    systems: tuple[str, ...]
    opponents: tuple[str, ...]
    scores: dict[str, np.ndarray]
    baselines: dict[str, np.ndarray]
    n_dialogues: dict[str, int]
    n_played: Counter[str] = field(default_factory=Counter)
    failures: dict[str, Counter[str]] = field(default_factory=dict)
    n_contexts: Counter[str] = field(default_factory=Counter)
    n_cut: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str | None] = field(default_factory=Counter)
    dialogues: list[TableDialogue] = field(default_factory=list)
    games_per_opener: int = 1
    nearness: Nearness | None = None

    @property
    def games(self) -> list[TableDialogue]:
        """
        The scored dialogues.
        """
        return [row for row in self.dialogues if row.raw]

    @property
    def signed_baselines(self) -> dict[str, np.ndarray]:
        """
        The trivial baselines, their signs changed where lower values are better.
        """
        return {
            name: values if HIGHER_IS_BETTER[name] else -values
            for name, values in self.baselines.items()
        }

    def count(
        self, pairing: Pairing, dialogue: Dialogue, scored: ScoredDialogue | None
    ) -> None:
        """
        Count who played a dialogue, who broke it off, and the scores that it lacks.
        """
        for name in {*pairing.speakers}:
            self.n_played[name] += 1
        if dialogue.ended_by is not None:
            reasons = self.failures.setdefault(dialogue.ended_by, Counter())
            reasons[dialogue.reason or 'no reason given'] += 1
        for score in scored.scores if scored else ():
            if score.value is None:
                self.reasons[score.reason] += 1

    def cells(
        self, values: np.ndarray, systems: Sequence[str], opponents: Sequence[str]
    ) -> np.ndarray:
        """
        Return the part of an array that is of these targets and opponents, in their
        order.
        """
        rows = [self.systems.index(name) for name in systems]
        columns = [self.opponents.index(name) for name in opponents]
        return values[rows][:, columns]

    def unscored(self, values: np.ndarray) -> list[int]:
        """
        Return, for each target, how many of its dialogues have no score.
        """
        scored = np.isfinite(values).sum(axis=(1, 2))
        counts = [self.n_dialogues[name] for name in self.systems]
        return [n - int(k) for n, k in zip(counts, scored, strict=True)]

    def distinct_openers(self) -> dict[str, int]:
        """
        Return, for each target, over how many openers it has a score.
        """
        scored = np.any([np.isfinite(own) for own in self.scores.values()], axis=0)
        seen = distinct_openers(scored, self.games_per_opener)
        return dict(zip(self.systems, seen.tolist(), strict=True))


@no_garbage_collection()
def read_tables(run: RunFolder, scorer_signature: str) -> ScoreTables:
    """
    Return the tables of a run: the means of each dialogue, counts, and how near
    responses are to the judge's corpora. An opponent that is no column, as in
    self-play, is in column 0.

    :param scorer_signature: of the scores.
    """
    plan, store = run.plan, run.scores(scorer_signature)
    tables, about = _empty_tables(plan), store.about()
    nearness, nearest = 0.0, Counter[int]()  # of responses to the judge's corpora
    if about.corpora:
        place_of = about.evidence_labels.index
        near_place, corpus_place = place_of(NEARNESS), place_of(NEAREST_CORPUS)
    place_of_opener = {o.id: j for j, o in enumerate(plan.openers)}
    rows = {name: i for i, name in enumerate(tables.systems)}
    columns = {name: i for i, name in enumerate(tables.opponents)}
    for dialogue, scored in store.scored_dialogues():
        pairing = run.pairing(dialogue.pairing_id)
        sides = plan.judged_sides(pairing)
        tables.count(pairing, dialogue, scored)
        means = {}
        if scored is not None:
            means = {
                side.first: dialogue_means(dialogue, scored, side.first)
                for side in sides
            }
            for row in scored.evidence.values() if about.corpora else ():
                nearness += row[near_place]
                nearest[int(row[corpus_place])] += 1
        tables.dialogues.append(
            TableDialogue(
                *pairing.speakers,
                means,
                dialogue.id,
                pairing=pairing,
                opener_id=dialogue.opener_id,
                size=page_size(dialogue, scored),
            )
        )
        opener = place_of_opener[dialogue.opener_id]
        for k, side in enumerate(sides):
            if side.first in rows:
                # over one opener, the target's second game is the one it did not begin
                later = k * len(plan.openers) if plan.both_judged else 0
                cell = rows[side.first], columns.get(side.second, 0), opener + later
                _enter_dialogue(tables, cell, side, dialogue, scored, means)
    if about.corpora and nearest:
        [(corpus, _)] = nearest.most_common(1)
        names, least = about.corpora.names, about.corpora.threshold
        tables.nearness = Nearness(nearness / nearest.total(), least, names[corpus])
    return tables


def page_size(dialogue: Dialogue, scored: ScoredDialogue | None) -> int:
    """
    Return about how many characters a dialogue takes on a page, with its scores.
    """
    shown = [min(len(turn.text), MAX_CHARACTERS) for turn in dialogue.utterances]
    size = TURN_CHARACTERS * len(shown) + sum(shown)
    if scored is not None:
        rows = [scored.scores, *scored.figures.values()]
        size += NUMBER_CHARACTERS * sum(map(len, rows))
    return size


def _empty_tables(plan: Plan) -> ScoreTables:
    """
    Return the tables of a plan without a dialogue.
    """
    systems = tuple(system.name for system in plan.roster.targets)
    # with both speakers judged, a target begins one dialogue over an opener and
    # its opponent the other
    games_per_opener = 2 if plan.both_judged else 1
    shape = (len(systems), len(plan.opponents), len(plan.openers) * games_per_opener)
    return ScoreTables(
        systems,
        plan.opponents,
        scores={},  # arrays are added as dimensions are met
        baselines={name: np.full(shape, np.nan) for name in HIGHER_IS_BETTER},
        n_dialogues=dict.fromkeys(systems, 0),
        games_per_opener=games_per_opener,
    )


def _enter_dialogue(
    tables: ScoreTables,
    cell: tuple[int, int, int],
    pairing: Pairing,
    dialogue: Dialogue,
    scored: ScoredDialogue | None,
    means: RawScores,
) -> None:
    """
    Enter one dialogue into the arrays, as one of the first system of ``pairing``.

    :param cell: the place in the arrays.
    :param scored: the scores of the dialogue, `None` where it has none.
    """
    judged = pairing.first
    tables.n_dialogues[judged] += 1
    if dialogue.ended_by != judged:  # of a dialogue it broke off, nothing counts
        trivial = baseline_values(*produced_and_heard(pairing, dialogue))
        for name, value in trivial.items():
            tables.baselines[name][cell] = np.nan if value is None else value
    if scored is None:
        return
    contexts = {
        score.utterance_index
        for score in scored.scores
        if score.system == judged and score.utterance_index is not None
    }
    tables.n_contexts[judged] += len(contexts)
    tables.n_cut[judged] += sum(i in scored.truncated for i in contexts)
    for dimension, mean in means[judged].items():
        if dimension not in tables.scores:
            shape = next(iter(tables.baselines.values())).shape
            tables.scores[dimension] = np.full(shape, np.nan)
        if mean is not None:
            tables.scores[dimension][cell] = mean


def produced_and_heard(
    pairing: Pairing, dialogue: Dialogue
) -> tuple[list[str], list[list[str]]]:
    """
    Return what the first system of a pairing produced itself in a dialogue, and for
    each utterance the turns of the other before it.
    """
    produced, heard, before = [], [], []
    is_self_play = SCHEMES[pairing.scheme].is_self_play(*pairing.speakers)
    for i, turn in enumerate(dialogue.utterances):
        if i % 2 if is_self_play else turn.speaker != pairing.first:
            before.append(turn.text)
        elif not turn.given:
            produced.append(turn.text)
            heard.append(before[:])
    return produced, heard
