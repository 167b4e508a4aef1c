"""
What people think of the systems: what they said (ratings of dialogues, comparisons of
two), a ranking with intervals, how far people agree, and for how long systems pass for
humans.

    judgements.csv    system, dimension, value, rater, dialogue_id: one row for each
                      annotator, dialogue and dimension; of comparisons the share that
                      the dialogue won
    comparisons.csv   one row for each comparison
    judged.jsonl      a judged set of the user's own, for the bench: one line for each
                      dialogue and judged system, with all annotations
    judged.yaml       its card, which `run_bench --sets` and `--judged-card` name

Annotators stand where the automatic ranking has partners: the wide interval holds for
annotators like these, the narrow one for these; fewer than `FEWEST_FOR_OTHERS` of them
do not speak for others, so that all is said of these. What is drawn anew beside them
are contexts (openers), with all that was said about them.

Comparisons are ranked by Bradley-Terry. The score of a system is the share of
comparisons that it would win if it met each other system equally often.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field, replace
from itertools import compress
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from parlai_ext.core import HumanJudgement, UserError, frozen, grouped, require_known
from parlai_ext.files import COLUMNS
from parlai_ext.people.rating_set import ShownTurn
from parlai_ext.ranking.agreement import (
    SYSTEM_MEANS,
    AnnotatorAgreement,
    agreement_of_halves,
    correlate,
    krippendorff_alpha,
    near_median,
)
from parlai_ext.ranking.intervals import (
    FEWEST_FOR_OTHERS,
    FEWEST_PARTNERS,
    Draws,
    Floats,
    Sampling,
    draw_ratios,
    draw_sums,
)
from parlai_ext.ranking.ratings import bradley_terry_strengths
from parlai_ext.ranking.standings import (
    Standing,
    best_first,
    rank_draws,
    without_width_0,
)
from parlai_ext.store import json_lines_text
from parlai_ext.view import (
    Column,
    Table,
    csv_text,
    number_column,
    shown_table,
    spreadsheet_text,
)
from parlai_ext.view.page import terminal_lines
from parlai_ext.view.progress import bar_of

if TYPE_CHECKING:
    import pandas as pd


COMPARISON_COLUMNS = (  # the winner of a tie is empty
    *map(Column, ('rater', 'dimension', 'first', 'second', 'winner')),
    Column('first_dialogue_id', of=attrgetter('first_dialogue')),
    Column('second_dialogue_id', of=attrgetter('second_dialogue')),
    Column('item'),
)
TIE = 0.5
FILE, CARD = 'judged.jsonl', 'judged.yaml'
PARTNER = 'user'  # whose turns no scorer of turns judges
MISSING = 'N/A'


@frozen
class Comparison:
    """
    One annotator's choice between dialogues of two systems.

    :param value: 1 if the first is preferred, 0 if the second, 0.5 for a tie.
    :param item: the pair that was shown; the same for all who saw it.
    """

    rater: str
    dimension: str
    first: str
    second: str
    value: float
    first_dialogue: str
    second_dialogue: str
    item: str

    @property
    def winner(self) -> str:
        """
        The preferred system, empty for a tie.
        """
        if self.value == TIE:
            return ''
        return self.first if self.value > TIE else self.second


Judgement = HumanJudgement | Comparison
# system, dialogue, and the turn where turns are judged
Unit = tuple[str, str, int | None]


def judged_units(one: Judgement) -> tuple[tuple[Unit, float], ...]:
    """
    Return what a judgement is of, each with its value: a system ('' as its dialogue),
    dialogue or turn with its rating, or the two dialogues of a comparison with how far
    each is preferred.
    """
    if isinstance(one, HumanJudgement):
        return (((one.system, one.dialogue_id or '', one.utterance_index), one.value),)
    return (
        ((one.first, one.first_dialogue, None), one.value),
        ((one.second, one.second_dialogue, None), 1 - one.value),
    )


@frozen
class Judgements:
    """
    All that was imported: ratings and comparisons, and what a reader should know.

    :param lower_is_better: dimensions of problems, of which fewer are better.
    :param contexts: what the dialogues were about, such as the opener, by their ids:
        dialogues of one context are drawn together for intervals.
    """

    every: Sequence[Judgement] = ()
    contexts: Mapping[str, str] = field(default_factory=dict)
    lower_is_better: frozenset[str] = frozenset()
    notes: Sequence[str] = ()

    @property
    def ratings(self) -> list[HumanJudgement]:
        """
        The ratings among the judgements.
        """
        return [one for one in self.every if isinstance(one, HumanJudgement)]

    @property
    def comparisons(self) -> list[Comparison]:
        """
        The comparisons among the judgements.
        """
        return [one for one in self.every if isinstance(one, Comparison)]

    @property
    def sides(self) -> set[tuple[str, str]]:
        """
        The systems that were judged, each with the id of the dialogue.
        """
        units = (unit for one in self.every for unit, _ in judged_units(one))
        return {(system, dialogue) for system, dialogue, _ in units if dialogue}

    @property
    def dimensions(self) -> tuple[str, ...]:
        """
        What was judged, in the order of the answers.
        """
        return tuple(dict.fromkeys(one.dimension for one in self.every))

    def chosen(self, wanted: Sequence[str], renamed: Mapping[str, str]) -> Judgements:
        """
        Return the judgements on these dimensions alone (none: all), some with other
        names.

        :raises UserError: for a dimension that was not judged, or a name that another
            one has.
        """
        if not wanted and not renamed:
            return self
        kept = [name for name in self.dimensions if not wanted or name in wanted]
        for option, known, given in (
            ('--dimensions', self.dimensions, wanted),
            ('--rename', kept, renamed),
        ):
            for name in given:
                require_known(name, known, f'{option} {name}: not judged')
        names = {name: renamed.get(name, name) for name in kept}
        if len(set(names.values())) < len(names):
            new = ', '.join(names.values())
            raise UserError(f'--rename: two dimensions of one name: {new}')
        return replace(
            self,
            every=[
                replace(one, dimension=names[one.dimension])
                for one in self.every
                if one.dimension in names
            ],
            lower_is_better=frozenset(
                names[n] for n in self.lower_is_better if n in names
            ),
        )

    def without_outliers(self, deviations: float) -> Judgements:
        """
        Return the judgements without the ratings that are far from the others' of the
        same dialogue or turn (`near_median`); a note says how many they were.
        """
        every_rating = self.ratings
        items = grouped(
            ((one.system, one.dialogue_id, one.utterance_index, one.dimension), one)
            for one in every_rating
        )
        kept = [
            rating
            for ratings in items.values()
            for rating in compress(
                ratings, near_median([r.value for r in ratings], deviations)
            )
        ]
        note = (
            f'{len(every_rating) - len(kept)} of {len(every_rating)} ratings left out: '
            f'farther than {deviations:g} deviations from the median of their item'
        )
        every: list[Judgement] = [*kept, *self.comparisons]
        return replace(self, every=every, notes=(*self.notes, note))

    def without_own(self, own: AbstractSet[tuple[str, str | None]]) -> Judgements:
        """
        Return the judgements that no annotator gave on a dialogue of their own, with a
        note on how many others there were.

        :param own: annotators with the dialogues in which they spoke.
        """
        kept = [
            one
            for one in self.every
            if own.isdisjoint(
                (one.rater, name) for (_, name, _), _ in judged_units(one)
            )
        ]
        left_out = len(self.every) - len(kept)
        note = (
            f'{left_out} of {len(self.every)} judgements are of annotators on their '
            'own chats; they are left out'
        )
        notes = (*self.notes, note) if left_out else self.notes
        return replace(self, every=kept, notes=notes)

    def by_dialogue(self) -> list[HumanJudgement]:
        """
        Return one judgement for each annotator, dialogue and dimension, sorted: a
        rating, or the share of comparisons that the dialogue won.
        """
        values = grouped(
            ((system, one.dimension, one.rater or '', dialogue), value)
            for one in self.every
            for (system, dialogue, _), value in judged_units(one)
        )
        return [
            HumanJudgement(
                system, dimension, sum(given) / len(given), rater, dialogue or None
            )
            for (system, dimension, rater, dialogue), given in sorted(values.items())
        ]


def judgements_csv(judgements: Sequence[HumanJudgement]) -> str:
    """
    Return judgements as the CSV that `--human-scores` reads. No spreadsheet takes the
    name of an annotator for a formula.
    """
    rows = (
        (
            j.system,
            j.dimension,
            f'{j.value:.6g}',
            spreadsheet_text(j.rater or ''),
            j.dialogue_id or '',
        )
        for j in judgements
    )
    return csv_text([COLUMNS, *rows])


def judged_lines(
    judgements: Sequence[HumanJudgement],
    turns: Mapping[tuple[str, str], Sequence[ShownTurn]],
) -> str:
    """
    Return the JSON lines of the judged dialogues; the places in a list of annotations
    are the annotators in the order of their names.

    :param turns: of each judged system and dialogue; others are left out.
    """
    annotators = sorted({j.rater or '' for j in judgements})
    dimensions = sorted({j.dimension for j in judgements})
    given_to = grouped(
        ((j.system, j.dialogue_id or ''), ((j.dimension, j.rater or ''), j.value))
        for j in judgements
    )
    records = []
    for system, dialogue in sorted(given_to.keys() & turns.keys()):
        given = dict(given_to[system, dialogue])
        records.append(
            {
                'dialogue_id': dialogue,
                'system': system,
                'dialog': [
                    {'speaker': system if turn.own else PARTNER, 'text': turn.text}
                    for turn in turns[system, dialogue]
                ],
                'annotations': {
                    name: [given.get((name, one), MISSING) for one in annotators]
                    for name in dimensions
                },
            }
        )
    return json_lines_text(records)


def judged_card(dimensions: Sequence[str]) -> str:
    """
    Return the card of the judged set as YAML.
    """
    name = dimensions[0] if len(dimensions) == 1 else 'Overall'
    overall = json.dumps(name) if name in dimensions else None
    lines = terminal_lines('judged_card', file=FILE, overall=overall)
    return '\n'.join(lines) + '\n'


# --- the ranking ----------------------------------------------------------------------

Units = Mapping[Unit, Mapping[str, float]]  # annotator -> value, of each unit


@frozen
class PeopleRanking:
    """
    The ranking of one dimension by people.

    :param method: ``mean rating`` or ``share of comparisons won (Bradley-Terry)``.
    :param num_answers: ratings or comparisons.
    :param alpha: of the answers to the same item, or about the same dialogue.
    :param halves_systems, halves_dialogues: over the means of systems, of dialogues.
    """

    dimension: str
    method: str
    num_answers: int
    num_annotators: int
    num_items: int
    standings: tuple[Standing, ...]
    alpha: AnnotatorAgreement
    halves_systems: AnnotatorAgreement
    halves_dialogues: AnnotatorAgreement
    higher_is_better: bool = True


def rank_by_people(
    judged: Judgements, bootstraps: int, seed: int = 0
) -> list[PeopleRanking]:
    """
    Return a ranking for each dimension that was judged; ratings and comparisons of the
    same dimension are ranked apart.
    """
    ratings = grouped((one.dimension, one) for one in judged.ratings)
    comparisons = grouped((one.dimension, one) for one in judged.comparisons)
    groups: list[Sequence[Judgement]] = [*ratings.values(), *comparisons.values()]
    with bar_of('rank', bootstraps * len(groups), delay=1, unit='resample') as bar:
        sampling = Sampling(bootstraps, seed, count=bar.update)
        return [_ranking(some, judged, sampling) for some in groups]


def _ranking(
    answers: Sequence[Judgement], judged: Judgements, sampling: Sampling
) -> PeopleRanking:
    """
    Rank systems by the mean of their ratings, or by Bradley-Terry of comparisons.
    """
    dimension, seed = answers[0].dimension, sampling.seed
    units = unit_means(answers)
    dialogues = {unit: unit[:2] for unit in units}
    comparisons = [one for one in answers if isinstance(one, Comparison)]
    is_problem = not comparisons and dimension in judged.lower_is_better
    if comparisons:
        method = 'share of comparisons won (Bradley-Terry)'
        pairs = pair_values(comparisons)
        num_items, alpha = len(pairs), krippendorff_alpha(pairs, 'nominal')
        draws = comparison_draws(comparisons, judged.contexts, sampling)
    else:
        method = 'mean rating'
        if is_problem:
            method = 'share of answers with it, fewer are better'
        num_items, alpha = len(units), krippendorff_alpha(units, 'ordinal')
        draws = rating_draws(units, judged.contexts, sampling)
    num_dialogues = Counter(system for system, _ in set(dialogues.values()))
    systems = sorted(num_dialogues)
    num_annotators = len({name for given in units.values() for name in given})
    if num_annotators < FEWEST_FOR_OTHERS:
        draws = replace(draws, partners='fixed')
    standings, _ = rank_draws(
        draws,
        systems,
        [(num_dialogues[name], 0) for name in systems],
        higher_is_better=not is_problem,
    )
    return PeopleRanking(
        dimension,
        method,
        len(answers),
        num_annotators,
        num_items,
        standings=without_width_0(standings),
        alpha=alpha,
        halves_systems=agreement_of_halves(units, {u: u[0] for u in units}, seed=seed),
        halves_dialogues=agreement_of_halves(units, dialogues, seed=seed),
        higher_is_better=not is_problem,
    )


def pair_values(
    comparisons: Iterable[Comparison],
) -> dict[tuple[str, str], dict[str, float]]:
    """
    Return what each annotator said of each pair of dialogues.
    """
    pairs = grouped(
        ((one.item, one.first_dialogue), (one.rater, one.value)) for one in comparisons
    )
    return {pair: dict(said) for pair, said in pairs.items()}


def unit_means(judgements: Iterable[Judgement]) -> Units:
    """
    Return the mean of each annotator's judgements of each unit.
    """
    units = grouped(
        (unit, (one.rater or '', value))
        for one in judgements
        for unit, value in judged_units(one)
    )
    return {
        unit: {name: sum(some) / len(some) for name, some in grouped(given).items()}
        for unit, given in units.items()
    }


def rating_draws(
    units: Units, contexts: Mapping[str, str], sampling: Sampling
) -> Draws:
    """
    Return the mean ratings of the systems, in the order of their names, and bootstrap
    draws of them.
    """
    rows = [
        (system, contexts.get(dialogue, dialogue), annotator, value)
        for (system, dialogue, _), given in units.items()
        for annotator, value in given.items()
    ]
    systems, openers, annotators, values = zip(*rows, strict=True)
    ones = np.ones(len(rows))
    _, sums, counts = sparse_tables(systems, openers, annotators, values, ones)
    return draw_ratios(sums, counts, sampling)


def sparse_tables(
    tables: Sequence[Any],
    contexts: Sequence[str],
    annotators: Sequence[str],
    *values: Any,
) -> tuple[Any, ...]:
    """
    Return the different names of tables, sorted, and for each column of values sparse
    tables ``[context, annotator]`` of their sums, in the order of the names.

    :param tables: the name of the table that each value is in.
    """
    import pandas as pd

    place, names = pd.factorize(pd.Index(tables), sort=True)
    context, rater = (
        pd.factorize(np.array(n), sort=True)[0] for n in (contexts, annotators)
    )
    shape = (context.max() + 1, rater.max() + 1)
    parts = [np.flatnonzero(place == k) for k in range(len(names))]
    return names.tolist(), *(
        [
            scipy.sparse.csr_array((column[p], (context[p], rater[p])), shape=shape)
            for p in parts
        ]
        for column in map(np.asarray, values)
    )


def comparison_draws(
    comparisons: Sequence[Comparison],
    contexts: Mapping[str, str],
    sampling: Sampling,
) -> Draws:
    """
    Return the win shares of the systems, in the order of their names, and bootstrap
    draws of them.
    """
    import pandas as pd

    played = [(c.first, c.second) for c in comparisons]
    values = np.array([c.value for c in comparisons])
    openers = [contexts.get(c.first_dialogue, c.item) for c in comparisons]
    annotators = [c.rater for c in comparisons]
    pairs, won, lost = sparse_tables(played, openers, annotators, values, 1 - values)
    tables = [*won, *lost]
    systems, places = np.unique(pairs, return_inverse=True)
    first, second = places.reshape(-1, 2).T

    def shares(sums: Floats) -> Floats:
        wins = np.zeros((len(sums), len(systems), len(systems)))
        wins[:, first, second] += sums[:, : len(pairs)]
        wins[:, second, first] += sums[:, len(pairs) :]
        return win_shares(wins)

    means = shares(np.array([[table.sum() for table in tables]]))[0]
    fixed, sampled = (shares(sums) - means for sums in draw_sums(tables, sampling))
    names = zip(played, openers, annotators, strict=True)
    cells = pd.DataFrame([(s, *others) for pair, *others in names for s in pair])
    num_contexts, num_annotators = cells.groupby(0).nunique().to_numpy(np.int64).T
    return Draws(
        means,
        fixed,
        sampled if len(set(annotators)) >= FEWEST_PARTNERS else fixed,
        num_contexts,
        num_annotators,
    )


def win_shares(wins: Floats) -> Floats:
    """
    Return ``[draw, system]``: the mean chance of each system to win against another.

    :param wins: ``[draw, i, j]``: comparisons that i won against j, half for a tie.
    """
    strengths = bradley_terry_strengths(wins)
    chances = 1 / (1 + np.exp(strengths[:, None, :] - strengths[:, :, None]))
    return np.asarray((chances.sum(axis=2) - 0.5) / (wins.shape[1] - 1))


RANKING_COLUMNS = (
    Column('rank', 'rank', show=Standing.open_ranks),
    number_column('group', 'group'),
    Column('system', 'system'),
    number_column('score', 'score'),
    Column('low', '95 % interval', show=Standing.interval),
)


def people_lines(
    ranking: PeopleRanking, planted: Mapping[str, float] | None = None
) -> list[str]:
    """
    Return the lines of one dimension: the systems, and how far annotators agree.

    :param planted: the order that was planted in the run, larger is better.
    """
    agreement = None
    if planted:  # over the systems that have both
        sign = 1 if ranking.higher_is_better else -1
        pairs = [
            (sign * row.score, planted[row.system])
            for row in ranking.standings
            if row.system in planted and row.score is not None
        ]
        left, right = np.array(pairs, float).reshape(-1, 2).T
        agreement = correlate(left, right, SYSTEM_MEANS, ['spearman'])['spearman']
    return terminal_lines(
        'people',
        ranking=ranking,
        of_these_only=ranking.num_annotators < FEWEST_FOR_OTHERS,
        table=Table(RANKING_COLUMNS, best_first(ranking.standings)),
        planted=agreement,
    )


# --- Spot The Bot ---------------------------------------------------------------------
# Spot The Bot (Deriu et al. 2020): for how many exchanges systems pass for humans, and
# which ones win against which.
#
# An annotator says of both speakers of a segment (the first exchanges of a dialogue)
# whether they are a human (2), a bot (0), or undecided (1). Who was not called a bot
# after so many exchanges is spotted later, if at all; who was, at some time before.

HUMAN, FEATURES = 'Human', ('Fluent', 'Sensible', 'Specific')
UNSPOTTED, *WINS = TABLES = ('unspotted', *(f'wins_{d}' for d in (HUMAN, *FEATURES)))
Judged = Sequence[HumanJudgement]


def survival(segments: Sequence[tuple[int, bool]]) -> dict[int, float]:
    """
    Return Turnbull's estimate of the chance to be unspotted after so many exchanges.

    Each annotation says only whether the spotting lies before or after the end of its
    segment, (0, t] or (t, ∞). For such data the nonparametric maximum of the likelihood
    is the isotonic regression of the shares spotted (Ayer et al. 1955).

    :param segments: length in exchanges, and whether the system was spotted, of each.
    """
    total = Counter(length for length, _ in segments)
    spotted = Counter(length for length, is_spotted in segments if is_spotted)
    lengths = sorted(total)
    fit = scipy.optimize.isotonic_regression(
        [spotted[length] / total[length] for length in lengths],
        weights=[total[length] for length in lengths],
    )
    return {n: 1 - share for n, share in zip(lengths, fit.x.tolist(), strict=True)}


def win_rates(ratings: Judged) -> pd.DataFrame:
    """
    Return ``[system, system]``: how often the first was rated above the second by an
    annotator of their dialogue, as share of the times when either was; NaN where none
    was.

    :param ratings: of one dimension. Of an annotator who judged a segment twice, the
        first ratings of both speakers belong together, and so on.
    """
    import pandas as pd

    segment = ['dialogue_id', 'utterance_index', 'rater']
    rows = pd.DataFrame(list(ratings))
    rows['nth'] = rows.groupby([*segment, 'system'], dropna=False).cumcount()
    table = rows.set_index([*segment, 'nth', 'system'])['value'].unstack()
    values = table.to_numpy()
    counts = (values[:, :, None] > values[:, None, :]).sum(axis=0)
    wins = pd.DataFrame(counts, table.columns, table.columns)
    return wins / (wins + wins.T)


def spot_the_bot_tables(ratings: Judged) -> Iterator[tuple[str, str, Table]]:
    """
    Yield name, title and table of the survival, and of the win rates in each dimension;
    nothing without ratings of segments.
    """
    by_dimension = grouped(
        (r.dimension, r) for r in ratings if r.utterance_index is not None
    )
    segments = grouped(
        (r.system, ((r.utterance_index or 0) // 2 + 1, r.value == 0))
        for r in by_dimension.get(HUMAN, ())
    )
    if not segments:
        return
    import pandas as pd

    names = sorted(segments)
    curves = pd.DataFrame({name: survival(segments[name]) for name in names})
    title = 'unspotted after so many exchanges (Turnbull)'
    yield UNSPOTTED, title, _by_system(curves.sort_index().T)
    for dimension, name in zip((HUMAN, *FEATURES), WINS, strict=True):
        if own := by_dimension.get(dimension):
            rates = win_rates(own).reindex(names, columns=names)
            if rates.isna().all(axis=None):
                continue
            title = f'{dimension}: wins of the row against the column, of those decided'
            yield name, title, _by_system(rates.assign(mean=rates.mean(axis=1)))


def _by_system(frame: pd.DataFrame) -> Table:
    """
    Return a row for each system, the index of the frame.
    """
    return shown_table(['system', *map(str, frame.columns)], frame.itertuples())
