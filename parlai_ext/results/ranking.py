"""
The ranking of a scored run: its parts as frozen records and the file `ranking.json`
that holds them, the run's scores as arrays, and how these become a `Ranking`
(standings, trivial baselines, agreement, notes).

The fields of records stand in the order of the file. `None` is "undefined" or, where it
is a field's default, "absent".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from pkgutil import resolve_name
from typing import Any

import numpy as np

from parlai_ext.collect import not_run
from parlai_ext.core import (
    PART_SEPARATOR,
    Dialogue,
    HumanJudgement,
    JsonObject,
    Pairing,
    ScoredDialogue,
    UserError,
    dialogue_means,
    frozen,
    grouped,
    is_floor,
    json_keys,
    mean,
    nearest,
    record_to_json,
    require_known,
    scorer_name,
)
from parlai_ext.core.protocol import SCHEMES, Protocol, RankingOptions, ranking_options
from parlai_ext.judge_check.record import DimensionCheck, JudgeCheck, read_check
from parlai_ext.ranking.agreement import (
    Correlation,
    ReferenceValues,
    correlate_with_reference,
    mean_ranks,
    shared_reason,
)
from parlai_ext.ranking.baselines import HIGHER_IS_BETTER, baseline_values
from parlai_ext.ranking.games import Game, RawScores
from parlai_ext.ranking.intervals import (
    FEWEST_FOR_OTHERS,
    FEWEST_OPENERS,
    Estimate,
    Sampling,
    distinct_openers,
)
from parlai_ext.ranking.ratings import Rating, rank_values
from parlai_ext.ranking.standings import (
    ScoreBounds,
    Separation,
    Standing,
    rank_dimension,
    unscored_bounds,
    without_width_0,
)
from parlai_ext.ranking.stopping_rule import Stopping
from parlai_ext.scoring.judged_corpora import NEAREST_CORPUS, NEARNESS
from parlai_ext.store import (
    Plan,
    RunFolder,
    ScorerRecord,
    ScoreStore,
    ShardKey,
    no_garbage_collection,
)
from parlai_ext.view import MAX_CHARACTERS
from parlai_ext.view.page import terminal_notes

# the models in a scorer's signature, which `Scorer.signature` writes: kind:(a:b|c:d)
MODEL = re.compile(r'\|(\w+):\(([^()]*)\)')
# hashes and names of classes; the whole signature is in the recipe of the page
LEFT_OUT = ('content', 'reads', 'system', 'agent', 'model')


@frozen
class CardModel:
    """
    A model of a judge. `reads` are the settings of its input and its numbers, such as
    the template, the truncation and the precision, as they stand in the signature.

    `name` and `num_parameters` are `None` where they were not recorded, `commit` where
    the model's files are from no hub.
    """

    kind: str
    name: str | None
    num_parameters: int | None
    reads: Mapping[str, str]
    commit: str | None = None


@frozen
class Nearness:
    """
    How near a run's responses are, on average, to the corpora on which its judge was
    tried, and to which of them most are nearest.
    """

    mean: float
    threshold: float
    corpus: str


@frozen
class JudgeCard:
    """
    The scorer, its settings as they stand in the signature, and its models.

    :param nearness: `None` where it is not known.
    :param unit: what a score counts, in words; '': not recorded.
    """

    scorer: str
    settings: Mapping[str, str]
    models: tuple[CardModel, ...]
    nearness: Nearness | None = None
    unit: str = ''


def judge_card(
    signature: str, about: ScorerRecord, nearness: Nearness | None = None
) -> JudgeCard:
    """
    Return the card of the judge that made the scores of this signature.

    :param about: what lies beside the scores (`ScoreStore.about`); of models that it
        lacks only the signature is known.
    """
    settings = _signature_fields(MODEL.sub('', signature))
    settings.pop('scorer', None)
    signed = [(kind, text) for kind, text in MODEL.findall(signature) if text != 'none']
    recorded = about.models or (None,) * len(signed)
    return JudgeCard(
        scorer_name(signature),
        settings,
        tuple(
            CardModel(
                'likelihood' if kind == 'judge' else kind,
                getattr(known, 'name', None),
                getattr(known, 'num_parameters', None),
                {k: v for k, v in _signature_fields(text).items() if k not in LEFT_OUT},
                getattr(known, 'commit', None),
            )
            for (kind, text), known in zip(signed, recorded, strict=False)
        ),
        nearness,
        about.unit,
    )


def _signature_fields(text: str) -> dict[str, str]:
    """
    Return the fields of ``name:value|name:value``. A part without a colon is left out,
    and only the first colon of a part counts.
    """
    parts = [part.partition(':') for part in text.split('|')]
    return {name: value for name, colon, value in parts if colon}


SCHEMA = 2
NAME = 'ranking.json'
IMPORT_NOTE = (
    'imported dialogues: which versions of the systems made them, from what openers, '
    'with what decoding and seeds, is not known'
)


@frozen
class Agreement:
    """
    How well mean scores or ratings of `n` systems agree with a reference.

    `kind` says what the reference is: ``human`` or ``planted``. `reason` says why a
    number is `None`.
    """

    spearman: Estimate
    kendall: Estimate
    n: int
    kind: str
    reason: str | None = None

    @classmethod
    def from_correlations(
        cls, correlations: Mapping[str, Correlation], kind: str
    ) -> Agreement:
        """
        Return Spearman's and Kendall's correlation with a reference as one record.
        """
        spearman, kendall = correlations['spearman'], correlations['kendall']
        return cls(
            spearman.estimate,
            kendall.estimate,
            spearman.n,
            kind,
            shared_reason(correlations),
        )


@frozen
class Failures:
    """
    How many dialogues a system broke off, by reason, and whether it is still ranked
    (`None` for a partner).
    """

    role: str
    n_dialogues: int
    n_failed: int
    share: float
    ranked: bool | None
    reasons: Mapping[str, int]


@frozen
class MissingScores:
    """
    Collected dialogues whose scores are not there, because a file of scores is missing.

    `files` are the names of these files in the run folder; `n_dialogues` maps a target
    to how many of its judged dialogues they would hold, and `not_ranked` names those
    that have no rank because of it.
    """

    files: tuple[str, ...]
    n_dialogues: Mapping[str, int]
    not_ranked: tuple[str, ...]


@frozen
class CutContexts:
    """
    How many of a system's judged contexts were too long for the judge and were cut, and
    whether its scores are still comparable with those of others.
    """

    n_contexts: int
    n_cut: int
    share: float
    comparable: bool


@frozen
class TournamentResult:
    """
    Points and ratings of all games of a run.

    `cross_table` maps system -> opponent -> points (`None`: they never met),
    `dimension_points` system -> dimension -> points, `records` system ->
    ``games_won`` … ``matches_lost``. `rating` is the rating that ranks; its values are
    the standings of the dimension `name`. `incomplete` says what keeps the games from
    being a whole tournament.
    """

    systems: tuple[str, ...]
    dimensions: tuple[str, ...]
    n_games: int
    cross_table: Mapping[str, Mapping[str, int | None]]
    dimension_points: Mapping[str, Mapping[str, int]]
    records: Mapping[str, Mapping[str, int]]
    ratings: Mapping[str, Rating]
    incomplete: str | None
    notes: tuple[str, ...]
    rating: str
    shuffles: int
    seed: int
    name: str

    @property
    def chosen_rating(self) -> Rating:
        """
        The rating by which the systems are ranked.
        """
        return self.ratings[self.rating]

    def total_points(self, system: str) -> int:
        """
        Return a system's points over all games and dimensions.
        """
        return sum(self.dimension_points[system].values())


@frozen(kw_only=True)
class Ranking:
    """
    What a scored run says about its systems.

    `standings` and `baselines` map a dimension, or a trivial baseline, to one standing
    for each system. `reference` and `baseline_reference` hold their agreement with the
    reference. `bounds` maps dimension -> system, `unplayed` a target to the number of
    dialogues that it lacks. `separation` maps a dimension to what can be told apart on
    it. `judge` is what is known of the judge and `judge_check` how it did on perturbed
    responses (`None`: not checked). `stopping` says how a run that stops when it is
    settled came to its number of openers (`None`: it was fixed). `partners` is what the
    claims are about (``fixed`` also where they are too few to speak for others), and
    `bootstraps` the resamples, where these are not the protocol's. `outdated`, of a
    ranking that was read, are the targets that have other dialogues now.
    """

    __pydantic_config__ = json_keys(standings='dimensions')

    signature: str
    protocol: str
    partners: str | None = None
    bootstraps: int | None = None
    guessed: tuple[str, ...] = ()
    standings: Mapping[str, tuple[Standing, ...]]
    baselines: Mapping[str, tuple[Standing, ...]] = field(default_factory=dict)
    reference: Mapping[str, Agreement] = field(default_factory=dict)
    baseline_reference: Mapping[str, Mapping[str, Agreement]] = field(
        default_factory=dict
    )
    tournament: TournamentResult | None = None
    bounds: Mapping[str, Mapping[str, ScoreBounds]] = field(default_factory=dict)
    failures: Mapping[str, Failures] = field(default_factory=dict)
    truncated: Mapping[str, CutContexts] | None = None
    unplayed: Mapping[str, int] | None = None
    judge: JudgeCard | None = None
    judge_check: JudgeCheck | None = None
    separation: Mapping[str, Separation] | None = None
    missing_scores: MissingScores | None = None
    stopping: Stopping | None = None
    notes: tuple[str, ...] = ()
    outdated: tuple[str, ...] | None = None

    def check_on(self, dimension: str) -> DimensionCheck | None:
        """
        Return the judge check behind the ranking on a dimension; `None` where no check
        was made.
        """
        check = self.judge_check
        return None if check is None else check.check_of(dimension)

    @property
    def leading_check(self) -> DimensionCheck | None:
        """
        The judge check behind the first dimension.
        """
        return self.check_on(self.leading_dimension)

    @property
    def rule(self) -> dict[str, str | int | None]:
        """
        The options of the ranking that need not be the protocol's.
        """
        return {'partners': self.partners, 'bootstraps': self.bootstraps}

    @property
    def is_imported(self) -> bool:
        """
        True if the dialogues were imported.
        """
        return IMPORT_NOTE in self.notes

    @property
    def scorer_signature(self) -> str:
        """
        The scorer's part of the signature.
        """
        scorer = self.signature.partition(PART_SEPARATOR)[2]
        return scorer.rpartition(PART_SEPARATOR)[0] if self.tournament else scorer

    @property
    def rated_dimension(self) -> str | None:
        """
        The dimension that holds a tournament's rating; `None` without a tournament.
        """
        return self.tournament.name if self.tournament else None

    @property
    def dimensions(self) -> list[str]:
        """
        The dimensions: the rating first, then the overall one, then the others.
        """
        rated = self.rated_dimension
        return sorted(
            self.standings, key=lambda d: (d != rated, d.casefold() != 'overall')
        )

    @property
    def leading_dimension(self) -> str:
        """
        The first dimension; '' without any.
        """
        return next(iter(self.dimensions), '')

    @property
    def scored_dimensions(self) -> list[str]:
        """
        The dimensions on which dialogues have scores, in the order of `dimensions`.
        """
        return [d for d in self.dimensions if d != self.rated_dimension]

    @property
    def incomparable_systems(self) -> frozenset[str]:
        """
        The systems of whose contexts too many were cut to fit into the judge.
        """
        truncated = self.truncated or {}
        return frozenset(
            name for name, truncation in truncated.items() if not truncation.comparable
        )

    def leading_coefficient(self, dimension: str) -> str:
        """
        Return the coefficient that papers report: Kendall for ratings, else Spearman.
        """
        return 'kendall' if dimension == self.rated_dimension else 'spearman'


def to_json(ranking: Ranking) -> JsonObject:
    """
    Return what `ranking.json` holds.
    """
    return {'schema': SCHEMA, **record_to_json(ranking)}


def write_ranking(run: RunFolder, ranking: Ranking, folder: str = '') -> None:
    """
    Write `ranking.json` with its checksum into a folder of the run (``''`` or ending in
    ``/``).
    """
    run.write_json(f'{folder}{NAME}', to_json(ranking))


def read_ranking(
    run: RunFolder, folder: str = '', scores: str | None = None
) -> Ranking:
    """
    Return the ranking that a folder of the run holds.

    :param scores: the value of ``--scores`` with which these scores are ranked again.
    :raises UserError: when it is missing or damaged, with the command that mends it.
    """
    again = f'parlai rank_systems {run.as_option}'
    again += f' --scores {scores}' if scores else ''
    remedy = f'rank the run again: {again}'
    ranking = run.read_record(f'{folder}{NAME}', Ranking, remedy)
    if ranking is None:
        raise UserError(f'{run.root} has no {folder}{NAME}: rank it first: {again}')
    counts = dialogues_by_target(run, run.dialogue_shards())
    of_any = next(iter(ranking.standings.values()), ())
    ranked = {standing.system: standing.n_dialogues for standing in of_any}
    outdated = tuple(
        name for name in run.manifest.targets if counts[name] != ranked.get(name, 0)
    )
    return replace(ranking, outdated=outdated or None)


def dialogues_by_target(run: RunFolder, shards: Sequence[ShardKey]) -> Counter[str]:
    """
    Return how many dialogues of these files each system is judged in.
    """
    counts: Counter[str] = Counter()
    for shard in shards:
        for judged in run.plan.judged_sides(run.pairing(shard.pairing_id)):
            counts[judged.first] += shard.n_dialogues
    return counts


def choose_scores(run: RunFolder, wanted: str | None) -> tuple[str, str]:
    """
    Return the signature of the scores to rank and the folder their ranking goes to.

    ``ranking.json`` is of the protocol's own scorer, as far as is recorded; others go
    to ``rankings/<hash>/``.

    :param wanted: the scores' hash, or their scorer's name if no others have it, as it
        signs or as it was called for.
    :raises UserError: when there are none, several to choose from, or no such one.
    """
    stores = {store.root.name: store for store in run.score_stores()}
    if not stores:
        raise UserError(f'{run.root}: no scores; run `parlai score_dialogues` first')
    section = run.manifest.protocol.scorer
    records = {key: store.about() for key, store in stores.items()}
    protocols_own = [
        key
        for key, about in records.items()
        if not about.given
        and (about.config == section or 'config' not in about.model_fields_set)
    ]
    # scores that were interrupted have no record yet, and may be another scorer's
    written = [key for key in protocols_own if records[key].signature]
    protocols_own = written or protocols_own
    names = {key: scorer_name(store.signature) for key, store in stores.items()}
    matching = [
        key
        for key, name in names.items()
        if wanted in (key, name, records[key].config.get('name'))
    ]
    choice = matching if wanted else protocols_own or list(stores)
    if len(choice) != 1:
        choices = ', '.join(f'{key} ({names[key]})' for key in choice or stores)
        raise UserError(
            f'--scores: {wanted or "not given"}; choose one of {choices}; '
            f'each is a folder of {run.root / "scores"} with its signature'
        )
    name = choice[0]
    folder = '' if name in protocols_own else f'rankings/{name}/'
    return stores[name].signature, folder


# --- the scores as arrays: one mean for each dialogue, dimension and target -----------

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

    def failed_share(self, name: str) -> float:
        """
        Return which share of its dialogues a system broke off.
        """
        reasons = self.failures.get(name, Counter())
        return reasons.total() / max(1, self.n_played[name])

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
    for dimension, value in means[judged].items():
        if dimension not in tables.scores:
            shape = next(iter(tables.baselines.values())).shape
            tables.scores[dimension] = np.full(shape, np.nan)
        if value is not None:
            tables.scores[dimension][cell] = value


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


# --- arrays become a ranking ----------------------------------------------------------

# reference values of these dimensions are compared with a tournament's rating
OVERALL, RANK = 'overall', 'rank'

# system -> value
Values = Mapping[str, float]
# dimension -> a standing for each system
Standings = dict[str, tuple[Standing, ...]]


@frozen
class Reference:
    """
    Reference values or judgements by dimension, and those of a tournament's rating.

    `rating` maps a system to a value, larger is better; it is empty where the mean
    scores are ranked. `notes` name what fits nothing.
    """

    kind: str
    by_dimension: Mapping[str, ReferenceValues]
    rating: Values
    notes: tuple[str, ...] = ()

    @property
    def rating_ranks(self) -> dict[str, float | None] | None:
        """
        The ranks of the systems by `rating`, floors left out; `None` without values.
        """
        if not self.rating:
            return None
        return rank_values({n: v for n, v in self.rating.items() if not is_floor(n)})


def read_reference(
    protocol: Protocol,
    human: Sequence[HumanJudgement],
    tables: ScoreTables,
    is_tournament: bool,
) -> Reference:
    """
    Return the protocol's reference, or the human judgements that replace it, on the
    dimensions that are scored.

    In a tournament the values called ``Overall``, or ``rank`` (the smallest is best),
    are those that the rating is compared with. What fits nothing is a mistake in
    judgements that a user gave for this ranking, otherwise a note.

    :raises UserError: for human judgements on a dimension without scores, or of no
        system that is there.
    """
    kind = protocol.reference_kind or 'human'
    given: Mapping[str, ReferenceValues] = protocol.reference
    if human:
        kind, given = 'human', grouped((one.dimension, one) for one in human)
    rating: Values = {}
    matching, notes = {}, []
    for dimension, values in given.items():
        name = dimension.casefold()
        systems = {v if isinstance(v, str) else v.system for v in values}
        unknown = sorted(systems - set(tables.systems))
        problem = None
        if is_tournament and name in (OVERALL, RANK):
            rating = _rating_reference(values, best_is_smallest=name == RANK)
        elif dimension not in tables.scores:
            problem = f'no scores on dimension {dimension!r}'
            hint = nearest(dimension, tables.scores)
        elif unknown and len(unknown) == len(systems):
            problem = f'{dimension}: no target {unknown[0]!r}'
            hint = nearest(unknown[0], tables.systems)
        else:
            matching[dimension] = values
            if unknown:
                listed = ', '.join(unknown)
                notes.append(f'{dimension}: reference values of no target: {listed}')
        if problem and human:
            raise UserError(f'reference: {problem}; {hint}')
        if problem:
            notes.append(f'reference: {problem}')
    return Reference(kind, matching, rating, tuple(notes))


def _rating_reference(given: ReferenceValues, best_is_smallest: bool) -> Values:
    """
    Return one number for each system, larger is better.

    Of judgements that is the negated mean of the system's ranks, over the annotators
    who ranked it.
    """
    sign = -1.0 if best_is_smallest else 1.0
    if isinstance(given, Mapping):
        return {name: sign * value for name, value in given.items()}
    by_annotator = grouped((j.rater or '', (j.system, sign * j.value)) for j in given)
    ranks = mean_ranks(
        {
            annotator: rank_values({n: mean(v) for n, v in grouped(values).items()})
            for annotator, values in by_annotator.items()
        }
    )
    return {name: -rank for name, rank in ranks.items() if rank is not None}


# what features add to a ranking, in this order: each function is given the ranking so
# far, the scores and the reference, and returns the ranking with its part
ANALYSES = (
    'parlai_ext.tournament.rank:with_tournament',
    'parlai_ext.stopping.looks:with_stopping',
)


@frozen
class RunScores:
    """
    A scored run with the options by which it is ranked.

    :param ranked: which of the targets get a rank, in the order of the tables.
    :param bootstraps: the resamples, where they are not the protocol's.
    """

    run: RunFolder
    scorer_signature: str
    options: RankingOptions
    tables: ScoreTables
    missing: MissingScores | None
    ranked: np.ndarray
    bootstraps: int | None = None

    @property
    def sampling(self) -> Sampling:
        """
        How means are drawn anew for intervals.
        """
        options, seed = self.options, self.run.plan.protocol.seed
        games = self.tables.games_per_opener
        return Sampling(options.bootstraps, seed, options.partners, games)


def rank_run(
    run: RunFolder,
    scorer_signature: str,
    *,
    human: Sequence[HumanJudgement] = (),
    **replaced: Any,
) -> Ranking:
    """
    Rank the targets of a scored run.

    :param human: judgements that replace the protocol's own reference.
    :param replaced: options that replace those of the protocol's ``ranking:`` section,
        unless they are `None`.
    :raises UserError: for a wrong option, a run without scores, or human judgements
        that fit no target.
    """
    return rank_scores(read_run_scores(run, scorer_signature, replaced), human)


def rank_scores(scores: RunScores, human: Sequence[HumanJudgement]) -> Ranking:
    """
    Rank the targets of a run whose scores were read, as `rank_run` does.
    """
    run, scorer_signature, tables = scores.run, scores.scorer_signature, scores.tables
    plan, options = run.plan, scores.options
    reference = read_reference(plan.protocol, human, tables, options.is_tournament)
    store = run.scores(scorer_signature)
    standings, baselines, separation = ranked_dimensions(scores)
    references, baseline_references = agreements(scores, reference)
    bounds = {  # between which means the unscored dialogues leave a score
        dimension: unscored_bounds(values, tables.systems, tables.unscored(values))
        for dimension, values in tables.scores.items()
    }
    ranking = Ranking(
        signature=PART_SEPARATOR.join(
            [not_run.played_signature(run), scorer_signature]
        ),
        protocol=plan.protocol.name,
        partners=options.partners,
        bootstraps=scores.bootstraps,
        guessed=tuple(plan.manifest.guessed),
        standings=standings,
        baselines=baselines,
        separation=separation,
        reference=references,
        baseline_reference=baseline_references,
        bounds={dimension: own for dimension, own in bounds.items() if own},
        failures=count_failures(tables, scores.ranked),
        truncated=count_truncated(tables, options.max_truncated_share),
        unplayed=not_run.missing_by_target(run, plan),
        judge=judge_card(scorer_signature, store.about(), tables.nearness),
        judge_check=read_check(store),
        missing_scores=scores.missing,
    )
    for analysis in ANALYSES:
        ranking = resolve_name(analysis)(ranking, scores, reference)
    return replace(ranking, notes=(*ranking_notes(scores, ranking), *reference.notes))


def rank_by_own_rule(run: RunFolder, scorer_signature: str) -> Ranking:
    """
    Rank the targets of a run by the options that were written down with scores.
    """
    rule: Any = run.scores(scorer_signature).about().ranking
    return rank_run(run, scorer_signature, **rule)


def read_run_scores(
    run: RunFolder, scorer_signature: str, replaced: JsonObject
) -> RunScores:
    """
    Read the scores of a run.

    :param replaced: options that replace those of the protocol.
    :raises UserError: for a wrong option, or a run without scores.
    """
    options = ranking_options(run.plan.protocol.ranking, replaced)
    tables = read_tables(run, scorer_signature)
    if not tables.scores:
        raise UserError(f'{run.root}: no scores; run `parlai score_dialogues` first')
    # few partners cannot speak for others, whatever the protocol asks for
    num_partners = max(
        (~np.isnan(values)).any(axis=2).sum(axis=1).max(initial=0)
        for values in tables.scores.values()
    )
    if num_partners < FEWEST_FOR_OTHERS:
        options = replace(options, partners='fixed')
    missing = missing_scores(
        run.scores(scorer_signature), tables, options.max_failed_share
    )
    not_ranked = missing.not_ranked if missing else ()
    ranked = [
        name not in not_ranked and tables.failed_share(name) <= options.max_failed_share
        for name in tables.systems
    ]
    return RunScores(
        run,
        scorer_signature,
        options,
        tables,
        missing,
        np.array(ranked),
        None if replaced.get('bootstraps') is None else options.bootstraps,
    )


def chosen_dimension(
    names: Collection[str], asked: str | None = None, option: str = ''
) -> str:
    """
    Return the dimension that an option asks for, in whatever case, else the overall
    one, else the first.

    :param names: one at least.
    :raises UserError: when there is none of the name that is asked for.
    """
    if asked and asked in names:
        return asked
    wanted = (asked or OVERALL).casefold()
    dimension = min(names, key=lambda name: name.casefold() != wanted)
    if asked and dimension.casefold() != wanted:
        require_known(asked, names, f'{option} {asked}: no such scores')
    return dimension


def ranked_dimensions(
    scores: RunScores,
) -> tuple[Standings, Standings, dict[str, Separation]]:
    """
    Return the standings on each dimension and by each baseline, and what can be told
    apart on each dimension.
    """
    tables = scores.tables
    n_dialogues = [tables.n_dialogues[system] for system in tables.systems]
    scored, trivial = (
        {
            name: rank_dimension(
                values,
                tables.systems,
                scores.sampling,
                ranked=scores.ranked.tolist(),
                counts=list(zip(n_dialogues, tables.unscored(values), strict=True)),
                higher_is_better=higher_is_better.get(name, True),
            )
            for name, values in arrays.items()
        }
        for arrays, higher_is_better in (
            (tables.scores, {}),
            (tables.baselines, HIGHER_IS_BETTER),
        )
    )
    standings = {name: without_width_0(rows) for name, (rows, _) in scored.items()}
    baselines = {name: rows for name, (rows, _) in trivial.items()}
    separation = {name: apart for name, (_, apart) in scored.items() if apart}
    return standings, baselines, separation


def missing_scores(
    store: ScoreStore, tables: ScoreTables, max_failed_share: float
) -> MissingScores | None:
    """
    Return which files of scores are missing, and which targets have no rank because too
    many of their dialogues are in them; `None` where all files are there.
    """
    run = store.run
    missing = [shard for shard in run.dialogue_shards() if not store.has(shard)]
    if not missing:
        return None
    files = [str(store.path(shard).relative_to(run.root)) for shard in missing]
    counts = dialogues_by_target(run, missing)
    n_dialogues = {name: counts[name] for name in tables.systems if counts[name]}
    not_ranked = [
        name
        for name, n in n_dialogues.items()
        if n > max_failed_share * tables.n_dialogues[name]
    ]
    return MissingScores(tuple(files), n_dialogues, tuple(not_ranked))


def count_failures(tables: ScoreTables, ranked: np.ndarray) -> dict[str, Failures]:
    """
    Return, for each system that broke off a dialogue, how often and why.
    """
    rank = dict(zip(tables.systems, ranked.tolist(), strict=True))
    failures = {}
    for name, reasons in sorted(tables.failures.items()):
        failures[name] = Failures(
            role='target' if name in rank else 'partner',
            n_dialogues=tables.n_played[name],
            n_failed=reasons.total(),
            share=tables.failed_share(name),
            ranked=rank.get(name),
            reasons=dict(sorted(reasons.items())),
        )
    return failures


def count_truncated(tables: ScoreTables, max_share: float) -> dict[str, CutContexts]:
    """
    Return the targets some of whose contexts were cut to fit into the judge.
    """
    truncated = {}
    for name, n_cut in sorted(tables.n_cut.items()):
        if n_cut:
            n_contexts = tables.n_contexts[name]
            share = n_cut / n_contexts
            truncated[name] = CutContexts(n_contexts, n_cut, share, share <= max_share)
    return truncated


def ranking_notes(scores: RunScores, ranking: Ranking) -> list[str]:
    """
    Return what a reader of the ranking must be told, such as the dimensions on which
    scores of a system do not vary.
    """
    run, standings = scores.run, ranking.standings
    planted = run.plan.protocol.planted_systems
    truncated = ranking.truncated or {}
    constant = {
        name: [
            row.system
            for row in rows
            if row.low_fixed is None and (row.n_openers or 0) >= FEWEST_OPENERS
        ]
        for name, rows in standings.items()
    }
    empty = [n for n, rows in standings.items() if all(r.score is None for r in rows)]
    return terminal_notes(
        'ranking_notes',
        empty=empty,
        reasons=scores.tables.reasons.most_common(3),
        manifest=run.manifest,
        run=run.as_option,
        import_note=IMPORT_NOTE,
        not_run=not_run.not_run_notes(run),
        most_partners=max(
            (row.n_partners or 0 for rows in standings.values() for row in rows),
            default=0,
        ),
        floors=[n for n in scores.tables.systems if is_floor(n) and n not in planted],
        missing=scores.missing,
        stopping=ranking.stopping,
        cut={name: one for name, one in truncated.items() if one.comparable},
        constant=constant,
    )


def agreements(
    scores: RunScores, reference: Reference
) -> tuple[dict[str, Agreement], dict[str, dict[str, Agreement]]]:
    """
    Return how well scores agree with the reference, by dimension, and how well
    baselines do, by name and dimension.

    Floors are part of a correlation only where a planted order names them; a baseline
    whose lower values are better changes its sign, as it does in the ranking.
    """
    tables, ranked = scores.tables, scores.ranked
    floors = np.array([is_floor(name) for name in tables.systems])
    claimed = ranked if reference.kind == 'planted' else ranked & ~floors
    names = list(compress(tables.systems, claimed))

    def agreement(values: np.ndarray, dimension: str) -> Agreement:
        correlations = correlate_with_reference(
            values[claimed], names, reference.by_dimension[dimension], scores.sampling
        )
        return Agreement.from_correlations(correlations, reference.kind)

    matching = reference.by_dimension
    references = {d: agreement(tables.scores[d], d) for d in matching}
    baselines = {
        name: {d: agreement(values, d) for d in matching}
        for name, values in tables.signed_baselines.items()
    }
    return references, baselines
