"""
What a bench runs: scorers with their options, judged sets, and how many items of each.

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

In an option, ``{judged_path}`` stands for the folder of the judged sets. ``published``
is the source of figures in ``zoo_configs/published/figures.yaml``, which stand beside
those of the scorers whose labels begin alike.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any

from parlai_ext.core import (
    JsonObject,
    JudgeModel,
    UserError,
    content_id,
    errors_about,
    frozen,
    given_options,
    grouped,
    nearest,
    option,
    optional,
    options_of,
    read_key_values,
)
from parlai_ext.core.records import Record
from parlai_ext.data.judged import JudgedSet, card_names, set_name
from parlai_ext.files import Document, read_shipped
from parlai_ext.files.model_cards import Positive
from parlai_ext.ranking.agreement import near_median
from parlai_ext.scoring.registry import SCORERS, find_scorer

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

    @property
    def is_trivial(self) -> bool:
        """
        True for a scorer that nobody should trust.
        """
        return self.section['name'] in TRIVIAL


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


@frozen
class ScorerAbout:
    """
    A scorer of a bench: what it is, or why it could not be built.

    :param fitted_on: the judged sets on which something in it was fitted.
    """

    label: str
    name: str
    signature: str | None = None
    level: str = 'turn'
    dimensions: tuple[str, ...] = ()
    is_trivial: bool = False
    fitted_on: tuple[str, ...] = ()
    failure: str | None = None
    models: tuple[JudgeModel, ...] = ()


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


# -------------------------------------------------------------------- what is drawn


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
