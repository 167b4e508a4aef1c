"""
Runs a bench: reads which scorers, judged sets and numbers of items it asks for, scores
the items, correlates the scores with people's, and writes the result.

On the command line a scorer is ``NAME`` or ``NAME:KEY=VALUE:KEY=VALUE``; a value may
hold commas and colons, since a colon parts two options only where ``KEY=`` follows. In
a file of ``zoo_configs/bench/``, or the user's own, each scorer has a label:

    description: what the table is for
    published: Park et al. 2024, Table 1
    scorers:
      FED, complaints: {name: fed, judge_model_file: smollm2-135m-q4}
      length: {name: length}
      FED, chat: {name: fed, judge_format: chat, max_items: 20}
      fluency: {name: holistic, dimension: Fluency, sets: [fed_turn]}
    sets:
      fed_turn: {}
      dstc9_interactive: {max_items: 440}
    max_items: 150
    turns: 1
    mean_ranks:
      composite and FED: [composite, 'FED, complaints']

In an option, ``{judged_path}`` stands for the folder of the judged sets. ``published``
is the source of figures in ``zoo_configs/published/figures.yaml``, which stand beside
those of the scorers whose labels begin alike. Under ``mean_ranks`` a row stands for
several scorers together: the mean of their ranks on each set, under a label of its own.

What was scored before is read from the folder of the bench. A scorer that cannot be
built, a set without what it needs, an item that it cannot score: each is a reason in
the result, never a score, and does not stop the rest.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from parlai_ext.bench.bench_files import (
    Bench,
    ScorerAbout,
    ScorerResult,
    SetAbout,
    SetScores,
    agreement_rows,
    set_points,
    write_bench,
)
from parlai_ext.core import (
    JsonObject,
    UserError,
    content_id,
    errors_about,
    first_line,
    frozen,
    given_options,
    grouped,
    nearest,
    option,
    option_values,
    optional,
    options_of,
    read_key_values,
    require_known,
)
from parlai_ext.core.records import Record
from parlai_ext.data.judged import (
    OVERALL,
    JudgedSet,
    card_names,
    main_dimension,
    main_score,
    set_name,
)
from parlai_ext.engines import Machine
from parlai_ext.engines.engine import LOCAL, Engine, EngineFailed
from parlai_ext.files import Document, read_shipped
from parlai_ext.files.model_cards import Positive
from parlai_ext.ranking.agreement import BOOTSTRAPS, near_median
from parlai_ext.ranking.intervals import Sampling
from parlai_ext.scoring.base import ItemScore, OwnScorerFailed, Scorer, ScoringItem
from parlai_ext.scoring.registry import SCORERS, find_scorer
from parlai_ext.scoring.score_run import (
    ChosenScorer,
    ItemWork,
    StoredScores,
    item_id,
    judged_scoring_items,
    mean_score,
    stored_part,
    stored_scores,
)
from parlai_ext.view.progress import bar_of

BATCH = 32  # items, at most, that a killed bench has to score again
SCORES = 'scores'
DIMENSION = OVERALL.capitalize()
# printed beside every other scorer
TRIVIAL = ('length', 'distinct', 'repetition', 'overlap')
MEAN_RANK = 'mean_rank'  # what stands for the scorer's name in a mean of ranks
OPTION_BEGINS = re.compile(r':(?=[A-Za-z_-]+=)')


@frozen
class Variant:
    """
    A scorer with its options, under the label by which the tables call it.
    """

    label: str
    section: Mapping[str, Any]
    max_items: int | None = optional(
        low=1, help='items of a set, at most, if the bench draws more'
    )
    dimension: str | None = optional(help='the only dimension of this row')
    sets: tuple[str, ...] = option((), help='those that it scores; none: all')


class SetChoice(Record):
    """
    How much of a judged set is scored.

    :param max_items: items that are drawn, at most.
    :param turns: of each judged dialogue, for scorers of turns.
    :param scorers: those that score it; none: all.
    """

    max_items: Positive | None = None
    turns: Positive | None = None
    scorers: tuple[str, ...] = ()


class PlanKeys(Record):
    """
    What a bench file says of more than a scorer.

    :param sets: by the name of the set, its card or its own file.
    :param mean_ranks: means of the ranks of several scorers, their labels by its own.
    :param max_items: items of each set, at most.
    :param turns: of each judged dialogue.
    :param description: what the table is for.
    :param published: the source of figures beside the table.
    """

    sets: dict[str, SetChoice] = {}
    mean_ranks: dict[str, tuple[str, ...]] = {}
    max_items: Positive | None = None
    turns: Positive | None = None
    description: str = ''
    published: str = ''


class BenchKeys(PlanKeys):
    """
    The keys of a bench file, but for those of a scorer.
    """

    scorers: dict[str, dict[str, Any]] = {}


class BenchPlan(PlanKeys):
    """
    The scorers and the sets of a bench. Without sets, all that are found are meant.
    """

    variants: tuple[Variant, ...] = ()

    def choice(self, name: str) -> SetChoice:
        """
        Return how much of a set is scored.

        :param name: the set's own, whatever the plan calls it by.
        """
        usual = SetChoice(max_items=self.max_items, turns=self.turns)
        own = {set_name(called): choice for called, choice in self.sets.items()}
        return usual.model_copy(
            update=own.get(name, usual).model_dump(exclude_none=True)
        )

    def in_folder(self, judged_path: str) -> BenchPlan:
        """
        Return the plan with a folder in the place of ``{judged_path}`` in options.
        """

        def filled(value: Any) -> Any:
            is_text = isinstance(value, str)
            return value.replace('{judged_path}', judged_path) if is_text else value

        variants = tuple(
            replace(one, section={k: filled(v) for k, v in one.section.items()})
            for one in self.variants
        )
        return self.model_copy(update={'variants': variants})

    def with_trivial_scorers(self) -> BenchPlan:
        """
        Return the plan with the trivial scorers, which stand beside all others.
        """
        names = {variant.section['name'] for variant in self.variants}
        more = (Variant(name, {'name': name}) for name in TRIVIAL if name not in names)
        return self.model_copy(update={'variants': (*self.variants, *more)})


def bench_plan(
    scorers: Sequence[str],
    sets: Sequence[str],
    config: str | None = None,
    max_items: int | None = None,
    turns: int | None = None,
) -> BenchPlan:
    """
    Return the plan of the command line: scorers and sets that it names, else those of
    the file.

    :param config: a bench file, shipped or the user's own.
    :raises UserError: names the scorer, option, file or line that is wrong.
    """
    file = load_bench_file(config) if config else BenchPlan()
    labelled = {variant.label: variant for variant in file.variants}
    named = [labelled.get(one) or parse_variant(one) for one in dict.fromkeys(scorers)]
    variants = tuple(named) or file.variants
    chosen = {name: file.sets.get(name, SetChoice()) for name in sets} or file.sets
    if not variants:
        raise UserError(f'--scorers is needed: {", ".join(SCORERS)}, or --config')
    limits = {'max_items': max_items, 'turns': turns}
    given: dict[str, Any] = {name: value for name, value in limits.items() if value}
    # what the command line says holds for every set
    chosen = {name: one.model_copy(update=given) for name, one in chosen.items()}
    return file.model_copy(update={'variants': variants, 'sets': chosen, **given})


def parse_variant(spec: str) -> Variant:
    """
    Return the scorer of ``NAME:KEY=VALUE:KEY=VALUE``; the text itself is its label.

    :raises UserError: for a scorer or an option that does not exist.
    """
    name, *pairs = OPTION_BEGINS.split(spec)
    with errors_about(f'--scorers {spec}'):
        cls = find_scorer(name, named_by_user=True)
    options = read_key_values(cls.options_class, pairs, f'--scorers {spec}:')
    return Variant(spec, {'name': name, **options})


def load_bench_file(name: str) -> BenchPlan:
    """
    Return the plan of a shipped bench file, or of the user's own.

    :raises UserError: names file, line and key of the first mistake.
    """
    with errors_about('--config'):
        doc = read_shipped('bench', name)
    keys = doc.record(BenchKeys)
    set_names = [*keys.sets, *card_names()]
    variants = tuple(
        _variant(doc, label, section, set_names)
        for label, section in keys.scorers.items()
    )
    known = [*keys.scorers, *TRIVIAL]
    figures = read_shipped('published', 'figures').data['figures']
    sources = {figure['source'] for figure in figures}
    if keys.published and keys.published not in sources:
        raise doc.error('published', nearest(keys.published, sources))
    for called, choice in keys.sets.items():
        where = ('sets', called, 'scorers')
        _check_names(doc, choice.scorers, where, known, 'scorer')
    for label, members in keys.mean_ranks.items():
        ranks = ('mean_ranks', label)
        if label in known:
            raise doc.error(ranks, 'a scorer has this label')
        _check_names(doc, members, ranks, known, 'scorer')
        if len(set(members)) < len(members) or len(members) < 2:
            raise doc.error(ranks, 'two different scorers at least are expected')
    return BenchPlan(variants=variants, **keys.model_dump(exclude={'scorers'}))


def _check_names(
    doc: Document,
    names: Sequence[Any],
    where: tuple[str, ...],
    known: Sequence[str],
    what: str,
) -> None:
    """
    Check that each name is that of a scorer, or of a set, of the bench.
    """
    for i, name in enumerate(names):
        if name not in known:
            problem = f'no {what} {name!r}; {nearest(str(name), known)}'
            raise doc.error((*where, i), problem)


def _variant(
    doc: Document, label: str, section: JsonObject, set_names: Sequence[str]
) -> Variant:
    where = ('scorers', label)
    if 'name' not in section:
        raise doc.error((*where, 'name'), f'is missing; known: {", ".join(SCORERS)}')
    try:
        cls = find_scorer(str(section['name']), named_by_user=True)
    except UserError as error:
        raise doc.error((*where, 'name'), str(error)) from None
    of_row, fail = options_of(Variant), doc.error_in(where)
    given = given_options(
        cls.options_class, section, error=fail, also=('name', *of_row)
    )
    row: dict[str, Any] = given_options(Variant, section, error=fail, also=section)
    _check_names(doc, row.get('sets', ()), (*where, 'sets'), set_names, 'set')
    return Variant(label, {'name': section['name'], **given}, **row)


# --- what is drawn --------------------------------------------------------------------


def drawn_set(judged_set: JudgedSet, max_items: int | None, seed: int) -> JudgedSet:
    """
    Return a set with at most ``max_items`` items, in the order of the file.

    Items that are alike (of one context or dialogue: `JudgedSet.groups`) are drawn
    together or not at all. Groups of the same systems make a stratum; each stratum
    gives the same share. A larger draw with the same seed holds every smaller one.
    """
    if max_items is None or len(judged_set.items) <= max_items:
        return judged_set
    groups = grouped((group, k) for k, group in enumerate(judged_set.groups()))
    strata = defaultdict(list)
    for places in groups.values():
        items = [judged_set.items[place] for place in places]
        key = content_id('bench draw', seed, [item.utterances for item in items])
        strata[frozenset(item.system for item in items)].append((key, places))
    # every beginning of this list has about the same share of each stratum
    order = sorted(
        ((k + 0.5) / len(stratum), key, places)
        for stratum in strata.values()
        for k, (key, places) in enumerate(sorted(stratum))
    )
    chosen: list[int] = []
    for _, _, places in order:
        if chosen and len(chosen) + len(places) > max_items:
            break
        chosen += places
    drawn = tuple(judged_set.items[place] for place in sorted(chosen))
    return replace(judged_set, items=drawn)


def without_outliers(judged_set: JudgedSet, deviations: float) -> JudgedSet:
    """
    Return a set without the annotations that are far from the others' of their item and
    quality (`near_median`), and without texts.
    """
    items = []
    for item in judged_set.items:
        annotations = {}
        for quality, given in item.annotations.items():
            values = {a: a.value for a in given if a.value is not None}
            near = near_median(list(values.values()), deviations)
            annotations[quality] = tuple(compress(values, near))
        items.append(replace(item, annotations=annotations))
    return replace(judged_set, items=tuple(items))


# --- the run --------------------------------------------------------------------------


def run_bench(
    plan: BenchPlan,
    sets: Mapping[str, JudgedSet],
    folder: Path,
    *,
    missing: Mapping[str, str] | None = None,
    bootstraps: int = BOOTSTRAPS,
    seed: int = 0,
    outlier_deviations: float | None = None,
    machine: Machine | None = None,
    engine: Engine = LOCAL,
) -> tuple[Bench, list[ScorerResult], dict[str, JudgedSet]]:
    """
    Run a bench and write its files; the same call again does what is missing.

    :param sets: the judged sets by name.
    :param missing: why a set that was asked for is not there, by its name.
    :param bootstraps: resamples behind each interval.
    :param seed: of the items that are drawn, and of the resamples.
    :param outlier_deviations: annotations farther than that from the median of their
        item are left out (`near_median`); `None`: none are.
    :param engine: where items are scored.
    :return: the bench, the scores behind it, and the items that were drawn.
    """
    plan = plan.with_trivial_scorers()
    drawn, about = drawn_sets(plan, sets, seed, outlier_deviations)
    results = score_sets(plan, drawn, folder, seed=seed, machine=machine, engine=engine)
    results += mean_rank_results(plan.mean_ranks, results, drawn)
    bench = Bench(
        [result.about for result in results],
        about,
        list(agreement_rows(results, drawn, Sampling(bootstraps, seed))),
        seed,
        bootstraps,
        plan.description,
        missing or {},
        {
            one.about.label: one.of_sets(lambda scores: scores.reasons)
            for one in results
        },
        plan.published,
        {one.about.label: one.of_sets(lambda scores: scores.flips) for one in results},
    )
    write_bench(folder, bench, [set_points(one, results) for one in drawn.values()])
    return bench, results, drawn


def drawn_sets(
    plan: BenchPlan,
    sets: Mapping[str, JudgedSet],
    seed: int,
    outlier_deviations: float | None,
) -> tuple[dict[str, JudgedSet], list[SetAbout]]:
    """
    Return the sets with the items that are scored, and what is said of each set.
    """
    drawn, about = {}, []
    for name, whole in sets.items():
        n_annotations = whole.counts()['annotations']
        if outlier_deviations is not None:
            whole = without_outliers(whole, outlier_deviations)
        choice = plan.choice(name)
        drawn[name] = one = drawn_set(whole, choice.max_items, seed)
        about.append(SetAbout.from_set(whole, one, choice.turns, n_annotations))
    return drawn, about


# --- scores of each set ---------------------------------------------------------------


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
    results = []
    with bar_of('bench', len(plan.variants) * n_items, unit='item') as bar:
        for variant in plan.variants:
            scorer, result = _built(variant, sets, machine)
            results.append(result)
            if scorer is None:
                bar.expect(-n_items)
                continue
            work = _ScorerWork(
                variant,
                result,
                ItemWork(
                    scorer,
                    bar,
                    variant.section,
                    machine,
                    engine,
                    name=variant.label,
                    with_evidence=scorer.shows_flips,
                ),
                evidence_section=shared.get(variant.label),
                folder=folder / SCORES,
                seed=seed,
            )
            work.score_all(plan, sets)
    return results


def _built(
    variant: Variant, sets: Iterable[str], machine: Machine | None
) -> tuple[Scorer | None, ScorerResult]:
    """
    Return a scorer and its result, without scores yet: it has all its dimensions or the
    one that is chosen. Of one that cannot be built the result has the reason.
    """
    section, chosen = variant.section, variant.dimension
    name = section['name']
    about = ScorerAbout(variant.label, name, is_trivial=name in TRIVIAL)
    try:
        scorer = ChosenScorer(section).build(machine)
        if chosen is not None:
            problem = f'{scorer.name} has no dimension {chosen!r}'
            require_known(chosen, scorer.dimensions, problem)
        about = replace(
            about,
            signature=scorer.signature,
            level=scorer.level,
            dimensions=(chosen,) if chosen else scorer.dimensions,
            fitted_on=scorer.fitted_on,
            models=tuple(scorer.models_used()),
        )
        return scorer, ScorerResult(about)
    except Exception as error:  # which foreign code may raise
        reason, broke = _reason(error)
        about = replace(about, failure=reason)
        return None, ScorerResult(about, broke, dict.fromkeys(sets, reason))


def _shared_evidence(variants: Sequence[Variant]) -> dict[str, JsonObject]:
    """
    Return, by label, the section of the scorer whose evidence serves several variants
    at once. One that cannot be prepared has none.
    """
    sections = {}
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

    variant: Variant
    result: ScorerResult
    work: ItemWork
    evidence_section: Mapping[str, Any] | None
    folder: Path
    seed: int

    def score_all(self, plan: BenchPlan, sets: Mapping[str, JudgedSet]) -> None:
        """
        Put the scores of all sets, or the reasons for none, into the result.
        """
        result, bar = self.result, self.work.bar
        try:
            with stored_scores(self.folder, self.work.scorer.signature) as store:
                for name, judged_set in sets.items():
                    label = f'{self.variant.label}, {name}'
                    bar.set_description(label, refresh=False)
                    choice = plan.choice(name)
                    if reason := self._why_left_out(name, judged_set, choice):
                        result.sets[name] = reason
                        bar.expect(-len(judged_set.items))
                        continue
                    try:
                        scores = self._set_scores(store, judged_set, choice.turns)
                        result.sets[name] = scores
                    except EngineFailed:  # the scorer is not to blame
                        raise
                    except Exception as error:
                        result.sets[name], broke = _reason(error)
                        result.broke |= broke
        except EngineFailed:
            raise
        except UserError as error:  # another process has the lock
            result.sets = {**dict.fromkeys(sets, str(error)), **result.sets}

    def _why_left_out(
        self, name: str, judged_set: JudgedSet, choice: SetChoice
    ) -> str | None:
        """
        Return why this scorer does not score a set; `None` if it does.
        """
        scorer, variant = self.work.scorer, self.variant
        if choice.scorers and variant.label not in choice.scorers:
            return 'the bench file has this set scored by other scorers only'
        if variant.sets and name not in map(set_name, variant.sets):
            return 'the bench file has this scorer score other sets only'
        if scorer.level == 'pair':
            return (
                'it compares two responses; the items of a judged set are single ones'
            )
        for need in scorer.needs:
            if not any(getattr(item, need) for item in judged_set.items):
                return f'it needs {need}, which this set does not have'
        return None

    def _set_scores(
        self, store: StoredScores, judged_set: JudgedSet, turns: int | None
    ) -> SetScores:
        """
        Return the scores of one set, of so many of its items as this scorer is to
        score.
        """
        scorer = self.work.scorer
        drawn = drawn_set(judged_set, self.variant.max_items, self.seed)
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
        self.work.bar.expect(len(items) - len(parts))  # some are parts of one item
        size = len(items) if scorer.compares_items else BATCH
        if self.evidence_section:
            self._score_by_evidence(store, items, size, self.evidence_section)
        else:
            self.work.score_missing(store, items, size)
        return _combined(parts, company, scorer, self.result.about.dimensions, store)

    def _score_by_evidence(
        self,
        store: StoredScores,
        items: Mapping[str, ScoringItem],
        size: int,
        section: JsonObject,
    ) -> None:
        """
        Score the items that a store lacks from the evidence of the scorer of a section,
        which is scored where it is not stored either.
        """
        work = self.work
        missing = {one: items[one] for one in store.missing(items)}
        work.bar.expect(len(missing) - len(items))
        if not missing:
            return
        source = ChosenScorer(section).build(work.machine)
        of_source = replace(work, scorer=source, section=section, with_evidence=True)
        if source.signature == work.scorer.signature:
            of_source.score_missing(store, missing, size)
            return
        with stored_scores(self.folder, source.signature) as evidence:
            of_source.score_missing(evidence, missing, size)
        scores = evidence.scores
        derived = {n: work.scorer.score_of_evidence(scores[n]) for n in missing}
        store.add({n: stored_part(one, False) for n, one in derived.items()})


def _combined(
    parts: Sequence[Sequence[ScoringItem] | None],
    company: str,
    scorer: Scorer,
    dimensions: Sequence[str],
    store: StoredScores,
) -> SetScores:
    """
    Return one score an item in some of the scorer's dimensions: the mean over its parts
    that have a score.

    :param parts: of each item; `None`: it was not to be scored.
    """
    values: list[Mapping[str, float | None]] = []
    reasons: Counter[str] = Counter()
    flips = []
    n_cut = 0
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
        reasons,
        parts.count(None),
        flips=tuple(map(sum, zip(*flips, strict=True))),
        n_cut=n_cut,
    )


def _reason(error: Exception) -> tuple[str, bool]:
    """
    Return an exception as a reason, and whether it is a defect of code and not a user's
    mistake.
    """
    if isinstance(error, UserError):
        return str(error), isinstance(error, OwnScorerFailed)
    if isinstance(error, OSError):
        raise error
    return f'it fails ({type(error).__name__}: {first_line(error)})', True


# --- the means of ranks ---------------------------------------------------------------


def mean_rank_results(
    mean_ranks: Mapping[str, Sequence[str]],
    results: Sequence[ScorerResult],
    sets: Mapping[str, JudgedSet],
) -> Iterator[ScorerResult]:
    """
    Yield the mean ranks of several scorers as results like those of scorers. A rank
    needs all items of a set and changes with the company of a response, so that this is
    made of a bench's scores and is no scorer.

    :param mean_ranks: by label, the labels of the members.
    :param results: of the scorers; a mean rank with a member that is not among them is
        left out.
    :param sets: the judged sets by name, with the items that were scored.
    """
    by_label = {result.about.label: result for result in results}
    for label, names in mean_ranks.items():
        if not all(name in by_label for name in names):
            continue
        members = [by_label[name] for name in names]
        signatures = [member.about.signature for member in members]
        whole = [f'({one})' for one in signatures]
        fitted = {name: None for member in members for name in member.about.fitted_on}
        yield ScorerResult(
            ScorerAbout(
                label,
                MEAN_RANK,
                '|'.join([MEAN_RANK, *whole]) if None not in signatures else None,
                members[0].about.level,
                (DIMENSION,),
                fitted_on=tuple(fitted),
            ),
            sets={name: _mean_ranks(members, one) for name, one in sets.items()},
        )


def _mean_ranks(
    members: Sequence[ScorerResult], judged_set: JudgedSet
) -> SetScores | str:
    """
    Return several scorers as one, or why that cannot be: the mean of an item's scaled
    ranks, from 0 to 1.

    An item's scaled rank is the share of the items scored by that scorer that it
    exceeds, ties and the item itself counted as half, so that 0.5 is the middle. An
    item that any of the scorers left out has none: a mean over fewer of them would be
    another score.
    """
    table = []
    for member in members:
        scores = member.sets[judged_set.name]
        if isinstance(scores, str):
            return f'{member.about.label}: {scores}'
        main = main_dimension(member.about.dimensions, judged_set)
        table.append([main_score(one, main) for one in scores.values])
    scored = np.array(table, float).reshape(len(members), -1)
    ranks = scipy.stats.rankdata(scored, axis=1, nan_policy='omit')
    counts = np.isfinite(scored).sum(axis=1, keepdims=True)
    means = ((ranks - 0.5) / np.maximum(counts, 1)).mean(axis=0)
    known = [float(mean) if np.isfinite(mean) else None for mean in means]
    missing = known.count(None)
    reason = 'a member of the mean rank has no score for it'
    reasons = {reason: missing} if missing else {}
    return SetScores([{DIMENSION: value} for value in known], reasons)
