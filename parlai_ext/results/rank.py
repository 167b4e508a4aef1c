"""
A scored run becomes a `Ranking`: standings, trivial baselines, agreement, notes.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from pkgutil import resolve_name
from typing import Any

import numpy as np

from parlai_ext.collect import not_run
from parlai_ext.core import (
    PART_SEPARATOR,
    HumanJudgement,
    JsonObject,
    Protocol,
    RankingOptions,
    UserError,
    frozen,
    grouped,
    is_floor,
    mean,
    nearest,
    ranking_options,
    require_known,
)
from parlai_ext.judge_check.record import read_check
from parlai_ext.ranking.agreement import (
    ReferenceValues,
    correlate_with_reference,
    mean_ranks,
)
from parlai_ext.ranking.baselines import HIGHER_IS_BETTER
from parlai_ext.ranking.intervals import FEWEST_FOR_OTHERS, FEWEST_OPENERS, Sampling
from parlai_ext.ranking.ratings import rank_values
from parlai_ext.ranking.standings import (
    Separation,
    Standing,
    rank_dimension,
    unscored_bounds,
    without_width_0,
)
from parlai_ext.results.ranking import (
    IMPORT_NOTE,
    Agreement,
    CutContexts,
    Failures,
    MissingScores,
    Ranking,
    dialogues_by_target,
    judge_card,
)
from parlai_ext.results.tables import ScoreTables, read_tables
from parlai_ext.store import Plan, RunFolder, ScoreStore
from parlai_ext.view.page import terminal_notes

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
    plan: Plan
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
        options, seed = self.options, self.plan.protocol.seed
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
    failed = [sum(tables.failures.get(n, {}).values()) for n in tables.systems]
    played = [max(1, tables.n_played[name]) for name in tables.systems]
    ranked = np.array(failed) / np.array(played) <= options.max_failed_share
    ranked &= ~np.isin(tables.systems, missing.not_ranked if missing else ())
    return RunScores(
        run,
        scorer_signature,
        run.plan,
        options,
        tables,
        missing,
        ranked,
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
        n_failed = sum(reasons.values())
        failures[name] = Failures(
            role='target' if name in rank else 'partner',
            n_dialogues=tables.n_played[name],
            n_failed=n_failed,
            share=n_failed / tables.n_played[name],
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
    planted, standings = scores.plan.protocol.planted_systems, ranking.standings
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
        manifest=scores.run.manifest,
        run=scores.run.as_option,
        import_note=IMPORT_NOTE,
        not_run=not_run.not_run_notes(scores.run),
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
