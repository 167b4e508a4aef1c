"""
A ranking and its parts as frozen records, and the file `ranking.json` that holds them.

The fields stand in the order of the file. `None` is "undefined" or, where it is a
field's default, "absent".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from parlai_ext.core import (
    PART_SEPARATOR,
    JsonObject,
    UserError,
    frozen,
    json_keys,
    record_to_json,
    scorer_name,
)
from parlai_ext.judge_check.record import DimensionCheck, JudgeCheck
from parlai_ext.ranking.agreement import Correlation, shared_reason
from parlai_ext.ranking.intervals import Estimate
from parlai_ext.ranking.standings import Rating, ScoreBounds, Separation, Standing
from parlai_ext.ranking.stopping_rule import Stopping
from parlai_ext.store import RunFolder, ScorerRecord, ShardKey

# the models in a scorer's signature, which `Scorer.signature` writes: kind:(a:b|c:d)
MODEL = re.compile(r'\|(\w+):\(([^()]*)\)')
KINDS = {'judge': 'likelihood'}
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
                KINDS.get(kind, kind),
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
