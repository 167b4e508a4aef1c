"""
The scores of every scorer of a bench on every judged set, those that are missing.

What was scored before is read from the folder of the bench. A scorer that cannot be
built, a set without what it needs, an item that it cannot score: each is a reason in
the result, never a score, and does not stop the rest.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parlai_ext.bench.plan import BenchPlan, ScorerAbout, Variant, drawn_set
from parlai_ext.core.errors import UserError, first_line, nearest
from parlai_ext.core.nouns import content_id
from parlai_ext.core.options import option_values
from parlai_ext.data.judged.cards import set_name
from parlai_ext.data.judged.judged_set import JudgedSet
from parlai_ext.engines.engine import Engine, EngineFailed
from parlai_ext.engines.local import LOCAL
from parlai_ext.engines.machine import Machine
from parlai_ext.scoring.base import ItemScore, Scorer, ScoringItem
from parlai_ext.scoring.judged_items import judged_scoring_items, mean_score
from parlai_ext.scoring.registry import find_scorer
from parlai_ext.scoring.score_run import build_scorer
from parlai_ext.scoring.stored_scores import (
    StoredScores,
    item_id,
    item_job,
    score_batches,
    stored_part,
    stored_scores,
)
from parlai_ext.view.progress import Bar, bar_of

BATCH = 32  # items, at most, that a killed bench has to score again
SCORES = 'scores'
OTHERS_ONLY = 'the bench file has this set scored by other scorers only'
OTHER_SETS_ONLY = 'the bench file has this scorer score other sets only'


@dataclass(frozen=True)
class SetScores:
    """
    The scores of one scorer on one set, one mapping for each item of the set.

    :param values: by dimension; `None` where an item has no score.
    :param reasons: how often which reason stands for a missing score.
    :param n_scored: scorings that were done now; the others were stored.
    :param n_cut: items of which no model saw the whole.
    :param n_left_out: items that this scorer was not to score; they have no score.
    :param flips: in how many pairs a choice changes with the order, and of how many, of
        a scorer that shows it.
    """

    values: Sequence[Mapping[str, float | None]]
    reasons: Mapping[str, int] = field(default_factory=dict)
    n_scored: int = 0
    n_cut: int = 0
    n_left_out: int = 0
    flips: tuple[int, ...] = ()


@dataclass
class ScorerResult:
    """
    What became of one scorer: scores or a reason by set. `broke` is true if its code
    failed in a way that its author did not foresee.
    """

    variant: Variant
    about: ScorerAbout
    broke: bool = False
    sets: dict[str, SetScores | str] = field(default_factory=dict)

    def of_sets(self, name: str) -> dict[str, Any]:
        """
        Return a field of the scores of each set where it holds something.
        """
        return {
            set_name: value
            for set_name, scores in self.sets.items()
            if isinstance(scores, SetScores) and (value := getattr(scores, name))
        }


def score_sets(
    plan: BenchPlan,
    sets: Mapping[str, JudgedSet],
    folder: Path,
    *,
    seed: int = 0,
    machine: Machine | None = None,
    engine: Engine = LOCAL,
) -> list[ScorerResult]:
    """
    Score the sets by every scorer of a plan.

    :param sets: the sets by name, the items drawn that are to be scored.
    :param folder: of the bench; scores are stored in it.
    """
    n_items = sum(len(one.items) for one in sets.values())
    shared = _shared_evidence(plan.variants)
    results: list[ScorerResult] = []
    with bar_of('bench', len(plan.variants) * n_items, unit='item') as bar:
        for variant in plan.variants:
            try:
                scorer = build_scorer(variant.section, machine, named_by_user=True)
                result = ScorerResult(variant, _about(variant, scorer))
            except Exception as error:  # which foreign code may raise
                results.append(_failed(variant, sets, error))
                bar.expect(-n_items)
                continue
            results.append(result)
            work = _ScorerWork(
                result,
                scorer,
                evidence_section=shared.get(variant.label),
                folder=folder / SCORES,
                seed=seed,
                machine=machine,
                bar=bar,
                engine=engine,
            )
            try:
                work.score_all(plan, sets)
            except EngineFailed:
                raise
            except UserError as error:  # another process has the lock
                result.sets = {**dict.fromkeys(sets, str(error)), **result.sets}
    return results


def _about(variant: Variant, scorer: Scorer) -> ScorerAbout:
    """
    Return what a scorer is, in all its dimensions or the one that is chosen.

    :raises UserError: when it has none of that name.
    """
    chosen = variant.dimension
    if chosen not in (None, *scorer.dimensions):
        hint = nearest(str(chosen), scorer.dimensions)
        raise UserError(f'{scorer.name} has no dimension {chosen!r}; {hint}')
    return ScorerAbout(
        variant.label,
        variant.section['name'],
        scorer.signature,
        scorer.level,
        (chosen,) if chosen else scorer.dimensions,
        variant.is_trivial,
        scorer.fitted_on,
        models=tuple(scorer.models_used()),
    )


def _failed(variant: Variant, sets: Iterable[str], error: Exception) -> ScorerResult:
    """
    Return the result of a scorer that cannot be built.
    """
    reason, broke = _reason(error)
    about = ScorerAbout(
        variant.label,
        variant.section['name'],
        is_trivial=variant.is_trivial,
        failure=reason,
    )
    return ScorerResult(variant, about, broke, dict.fromkeys(sets, reason))


def _shared_evidence(variants: Sequence[Variant]) -> dict[str, dict[str, Any]]:
    """
    Return, by label, the section of the scorer whose evidence serves several variants
    at once. One that cannot be prepared has none.
    """
    sections: dict[str, dict[str, Any]] = {}
    for variant in variants:
        name = variant.section['name']
        with suppress(UserError):
            cls = find_scorer(name, named_by_user=True)
            options = cls.from_section(variant.section).options
            if cls.variants:
                section = {'name': name, **option_values(options)}
                sections[variant.label] = cls.with_evidence(section)
    keys = Counter(map(content_id, sections.values()))
    return {
        label: section
        for label, section in sections.items()
        if keys[content_id(section)] > 1
    }


@dataclass
class _ScorerWork:
    """
    One scorer at work on all sets.

    :param evidence_section: of the scorer whose evidence serves several variants.
    :param folder: of the stored scores.
    """

    result: ScorerResult
    scorer: Scorer
    evidence_section: Mapping[str, Any] | None
    folder: Path
    seed: int
    machine: Machine | None
    bar: Bar
    engine: Engine

    def score_all(self, plan: BenchPlan, sets: Mapping[str, JudgedSet]) -> None:
        """
        Put the scores of all sets, or the reasons for none, into the result.

        :raises UserError: when another process works with this scorer.
        """
        result, variant = self.result, self.result.variant
        own_sets = [set_name(name) for name in variant.sets]
        with stored_scores(self.folder, self.scorer.signature) as store:
            for name, judged_set in sets.items():
                self.bar.set_description(f'{variant.label}, {name}', refresh=False)
                choice = plan.choice(name)
                reason = unfit_reason(self.scorer, judged_set)
                if choice.scorers and variant.label not in choice.scorers:
                    reason = OTHERS_ONLY
                elif own_sets and set_name(choice.name) not in own_sets:
                    reason = OTHER_SETS_ONLY
                if reason:
                    result.sets[name] = reason
                    self.bar.expect(-len(judged_set.items))
                    continue
                try:
                    scores = self._set_scores(store, judged_set, choice.turns)
                    result.sets[name] = scores
                except EngineFailed:  # the scorer is not to blame
                    raise
                except Exception as error:
                    result.sets[name], broke = _reason(error)
                    result.broke |= broke

    def _set_scores(
        self, store: StoredScores, judged_set: JudgedSet, turns: int | None
    ) -> SetScores:
        """
        Return the scores of one set, of so many of its items as this scorer is to
        score.
        """
        scorer = self.scorer
        drawn = drawn_set(judged_set, self.result.variant.max_items, self.seed)
        chosen = set(map(id, drawn.items))
        parts = [
            judged_scoring_items(item, scorer, most=turns, seed=self.seed)
            if id(item) in chosen
            else None
            for item in judged_set.items
        ]
        every = [one for group in parts for one in group or ()]
        company = ''  # stands for the other items, where a score depends on them
        if scorer.compares_items:
            company = content_id(sorted(map(item_id, every)))
        items = {
            item_id(one, company): one for one in every if not one.lacking(scorer.needs)
        }
        missing = store.missing(list(items))
        self.bar.expect(len(missing) - len(parts))  # some are parts of one item
        if missing:
            self._score_missing(store, {one: items[one] for one in missing})
        return _combined(
            parts, company, scorer, self.result.about.dimensions, store, len(missing)
        )

    def _score_missing(
        self, store: StoredScores, items: Mapping[str, ScoringItem]
    ) -> None:
        """
        Score items, by id, in batches and keep each batch at once.
        """
        scorer = source = self.scorer
        section, derives = self.evidence_section, self.evidence_section is not None
        if section is not None:
            source = build_scorer(section, self.machine, named_by_user=True)
        sources: AbstractContextManager[StoredScores] = nullcontext(store)
        if source.signature != scorer.signature:
            sources = stored_scores(self.folder, source.signature)
        job = item_job(
            source,
            section or self.result.variant.section,
            self.machine,
            with_evidence=derives or source.shows_flips,
        )
        size = len(items) if scorer.compares_items else BATCH
        with sources as source_store:
            missing = source_store.missing(items, derives)
            self.bar.expect(len(missing) - len(items))
            score_batches(
                job,
                source_store,
                {one: items[one] for one in missing},
                size,
                self.result.variant.label,
                self.bar,
                self.engine,
            )
            if source_store is not store:
                derived = {
                    name: scorer.score_of_evidence(source_store.scores[name])
                    for name in items
                }
                store.add({n: stored_part(one, False) for n, one in derived.items()})


def unfit_reason(scorer: Scorer, judged_set: JudgedSet) -> str | None:
    """
    Return why a scorer cannot score any item of a set; `None` if it can.
    """
    if scorer.level == 'pair':
        return 'it compares two responses; the items of a judged set are single ones'
    if judged_set.level == 'system':
        return 'the set has judgements of systems only, and no text'
    for need in scorer.needs:
        if not any(getattr(item, need) for item in judged_set.items):
            return f'it needs {need}, which this set does not have'
    return None


def _combined(
    parts: Sequence[Sequence[ScoringItem] | None],
    company: str,
    scorer: Scorer,
    dimensions: Sequence[str],
    store: StoredScores,
    n_scored: int,
) -> SetScores:
    """
    Return one score an item in some of the scorer's dimensions: the mean over its parts
    that have a score.

    :param parts: of each item; `None`: it was not to be scored.
    """
    values: list[Mapping[str, float | None]] = []
    reasons: Counter[str] = Counter()
    n_cut = 0
    flips: list[Sequence[int]] = []
    for group in parts:
        if group is None:
            values.append(dict.fromkeys(dimensions))
            continue
        scores = [
            ItemScore({}, dict.fromkeys(dimensions, f'the item has no {lacking}'))
            if (lacking := one.lacking(scorer.needs))
            else store.scores[item_id(one, company)]
            for one in group
        ]
        mean = mean_score(scores, dimensions)
        values.append(mean.values)
        n_cut += mean.cut > 0
        reasons.update(map(str, list(mean.reasons.values())[:1]))
        flips += [
            score.evidence['flips']
            for score in scores
            if scorer.shows_flips and score.evidence
        ]
    return SetScores(
        values,
        dict(reasons),
        n_scored,
        n_cut,
        parts.count(None),
        flips=tuple(map(sum, zip(*flips, strict=True))),
    )


def _reason(error: Exception) -> tuple[str, bool]:
    """
    Return an exception as a reason, and whether it is a defect of code and not a user's
    mistake.
    """
    if isinstance(error, UserError):
        return str(error), False
    if isinstance(error, OSError):
        raise error
    return f'it fails ({type(error).__name__}: {first_line(error)})', True
