"""
Systems compared by their answers to the same prompts.

The prompt is the unit: the value of a system at a prompt is the mean over its answers,
and intervals and tests draw prompts. BLEU and distinct-2 are numbers of all answers
together; their intervals are the jackknife's.

Answers are a data frame, a row for each: ``system``, ``prompt`` (its id), ``asked``
(its text), ``text``, ``reason`` (why there is no text), ``safety`` (what a safety layer
answered to), and the columns of `AnswerMeasures.measure`. The answers of a system stand
together, and those to one prompt. No answer is in a table.
"""

import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from parlai_ext.core import JsonObject, UserError, content_id, frozen, grouped
from parlai_ext.data.corpora import Prompt, RecordedAnswer, ToxicPair, prompt_key
from parlai_ext.ranking.comparison import (
    LEVEL,
    MeanDifference,
    jackknife_values,
    paired_differences,
    prompt_means,
)
from parlai_ext.ranking.intervals import Estimate, Floats, Sampling
from parlai_ext.scoring.score_run import score_items
from parlai_ext.store import json_lines_text, json_text
from parlai_ext.toxic.measures import BLEU, AnswerMeasures, corpus_bleu
from parlai_ext.view import (
    Cell,
    Column,
    IntervalColumn,
    Table,
    count_of,
    interval_cell,
    number_column,
    p_column,
    shown_table,
    split_words,
)
from parlai_ext.view.page import render_page, terminal_lines, terminal_notes
from parlai_ext.view.progress import bar_of

DISTINCT = 'distinct_2'
MOST = {DISTINCT: 1, BLEU: 100}
ANY = 'any '  # before a measure: the share of prompts with such an answer
SCHEMA = 1
PEOPLE = 'human'  # the system of people's polite answers
TEXTS, REFERENCES = 'answers.jsonl', 'references.jsonl'
WITH_TEXTS = (TEXTS, REFERENCES)
# columns that are no measures
ABOUT = ('system', 'prompt', 'asked', 'text', 'reason', 'safety')


# ---------------------------------------------------------------- prompts and answers


def prompts_of_pairs(
    pairs: Iterable[ToxicPair], with_context: bool = False
) -> list[Prompt]:
    """
    Return the distinct prompts of pairs. Only polite answers are references.

    An id that several prompts have, such as those of two files, names none of them.

    :param with_context: the turns before a prompt are part of it.
    """

    def text_of(pair: ToxicPair) -> str:
        return '\n'.join((*(pair.context if with_context else ()), pair.prompt))

    groups = grouped((prompt_key(text_of(pair)), pair) for pair in pairs)
    holders = Counter(name for own in groups.values() for name in {p.id for p in own})
    prompts = []
    for key, own in groups.items():
        names = [pair.id for pair in own if holders[pair.id] == 1]
        first, *others = names or [content_id('prompt', key)]
        text = text_of(own[0])
        prompts.append(Prompt(first, text, polite_answers(own), tuple(others)))
    return prompts


def polite_answers(pairs: Iterable[ToxicPair]) -> tuple[str, ...]:
    """
    Return the answers of the pairs that people call polite.
    """
    return tuple(pair.answer for pair in pairs if pair.polite and pair.answer)


def prompts_of_answers(answers: Iterable[RecordedAnswer]) -> list[Prompt]:
    """
    Return the distinct prompts that recorded answers name; an id is a hash of the text.

    :raises UserError: for an answer that has only the id of its prompt.
    """
    texts: dict[str, str] = {}
    for answer in answers:
        if not answer.prompt:
            raise UserError(
                f'the prompt {answer.prompt_id} of {answer.system} has no text: '
                '--toxic-data names the file of the prompts'
            )
        texts.setdefault(prompt_key(answer.prompt), answer.prompt)
    return [Prompt(content_id('prompt', key), text) for key, text in texts.items()]


@frozen
class AnsweredSystem:
    """
    How many prompts a system answered, with how many answers.

    :param answers: with a text.
    :param failed: answers without one, since the system failed.
    :param reason: of the first of them.
    """

    name: str
    prompts: int
    answers: int
    failed: int
    reason: str | None


def answered_systems(answers: pd.DataFrame) -> list[AnsweredSystem]:
    """
    Return the systems of answers in their order.
    """
    systems = []
    for name, own in answers.groupby('system', sort=False):
        given = own[own['text'].notna()]
        reasons = own['reason'][own['text'].isna()].tolist()
        counts = given['prompt'].nunique(), len(given), len(reasons)
        systems.append(AnsweredSystem(str(name), *counts, (reasons or [None])[0]))
    return systems


def find_prompts(
    answers: Iterable[RecordedAnswer], prompts: Sequence[Prompt]
) -> list[tuple[Prompt | None, RecordedAnswer]]:
    """
    Return the prompt of each answer, by its text or else by its id; `None` for an
    answer to another prompt.
    """
    by_text = {prompt_key(prompt.text): prompt for prompt in prompts}
    by_id = {name: one for one in prompts for name in (one.id, *one.other_ids)}
    return [
        (
            (by_text.get(prompt_key(answer.prompt)) if answer.prompt else None)
            or by_id.get(answer.prompt_id or ''),
            answer,
        )
        for answer in answers
    ]


def measured_answers(
    answers: Iterable[RecordedAnswer],
    prompts: Sequence[Prompt],
    measures: AnswerMeasures,
    folder: Path,
) -> tuple[pd.DataFrame, list[str]]:
    """
    Return the answers to the prompts, measured, and lines about answers to other
    prompts and prompts without an answer.

    :param folder: where scores are kept, so that a killed call goes on.
    :raises UserError: when a system has no answer to any prompt.
    """
    found = find_prompts(answers, prompts)
    rows: list[tuple[Prompt, RecordedAnswer]] = []
    of_systems = grouped((answer.system, (p, answer)) for p, answer in found)
    for name, own in of_systems.items():
        of_prompts = grouped((p.id, (p, answer)) for p, answer in own if p)
        if not of_prompts:
            raise UserError(f'{name}: it has no answer to any of the prompts')
        rows += chain.from_iterable(of_prompts.values())
    total = len(measures.scorers) * sum(a.text is not None for _, a in rows)
    with bar_of('measure', total, unit='answer', delay=2) as bar:
        measured = measures.measure(rows, partial(score_items, folder=folder, bar=bar))
    about = pd.DataFrame(
        [(a.system, p.id, p.text, a.text, a.reason, a.deflected) for p, a in rows],
        columns=list(ABOUT),
        dtype=object,
    )
    frame = about.join(measured)
    systems = answered_systems(frame)
    notes = terminal_notes(
        'answer_notes',
        others=Counter(answer.system for p, answer in found if p is None),
        systems=systems,
        n_prompts=len(prompts),
        are_unequal=len({one.answers / max(1, one.prompts) for one in systems}) > 1,
    )
    return frame, notes


# ---------------------------------------------------------------------- the comparison


@frozen
class MeasureRow:
    """
    A measure of every system, and the differences of their pairs.

    :param n: by system, how many prompts have a value.
    """

    name: str
    is_share: bool
    values: Sequence[Estimate]
    n: Sequence[int]
    differences: Sequence[MeanDifference]


@frozen
class SafetyComparison:
    """
    What `compare_answers` returns.

    :param notes: lines about what is missing.
    """

    prompts: Sequence[Prompt]
    answers: pd.DataFrame
    systems: Sequence[AnsweredSystem]
    rows: Sequence[MeasureRow]
    bootstraps: int
    seed: int
    notes: Sequence[str]


def compare_answers(
    prompts: Sequence[Prompt],
    answers: pd.DataFrame,
    shares: Sequence[str],
    *,
    bootstraps: int,
    seed: int = 0,
    notes: Sequence[str] = (),
) -> SafetyComparison:
    """
    Return the measures of all systems with intervals, and paired differences.

    :param shares: the measures that are 0 or 1 of an answer.
    """
    systems = answered_systems(answers)
    names = [system.name for system in systems]
    rows, sampling = [], Sampling(bootstraps, seed)
    for name, values in _value_tables(prompts, systems, answers):
        is_share = name.removeprefix(ANY) in shares
        most = MOST.get(name, math.inf)
        means = prompt_means(values, sampling, shares=is_share, most=most)
        counts = (~np.isnan(values)).sum(axis=1).tolist()
        differences = paired_differences(names, values, sampling)
        rows.append(MeasureRow(name, is_share, means, counts, differences))
    return SafetyComparison(prompts, answers, systems, rows, bootstraps, seed, notes)


def measure_names(answers: pd.DataFrame) -> list[str]:
    """
    Return the columns that are measures of a single answer.
    """
    return [str(name) for name in answers if name not in (*ABOUT, BLEU)]


def _value_tables(
    prompts: Sequence[Prompt],
    systems: Sequence[AnsweredSystem],
    answers: pd.DataFrame,
) -> Iterator[tuple[str, Floats]]:
    """
    Yield the values ``[system, prompt]`` of each measure that any answer has.
    """
    places = pd.MultiIndex.from_product(
        [[one.name for one in systems], [prompt.id for prompt in prompts]]
    )

    def table(values: 'pd.Series[Any]') -> Floats:
        cells = values.reindex(places).to_numpy(float)
        return np.asarray(cells.reshape(len(systems), len(prompts)))

    groups = answers.groupby(['system', 'prompt'], sort=False)
    several = (groups.size() > 1).any()
    for name in measure_names(answers):
        means = table(groups[name].mean())
        if not np.isnan(means).all():
            yield name, means
        if several and name.startswith('toxic'):
            yield ANY + name, np.where(np.isnan(means), means, means > 0)
    for name, column, values_of in (
        (DISTINCT, 'text', distinct_values),
        (BLEU, BLEU, bleu_values),
    ):
        of_systems = {
            str(system): values_of(own.set_index('prompt')[column])
            for system, own in answers.groupby('system', sort=False)
        }
        values = table(pd.concat(of_systems))
        if name == DISTINCT or not np.isnan(values).all():
            yield name, values


def distinct_values(texts: 'pd.Series[Any]') -> 'pd.Series[Any]':
    """
    Return a value for each prompt whose mean is distinct-2: the share of different ones
    among all pairs of neighbouring words of all answers (Li et al. 2016).

    The more text, the smaller it is: it compares systems that have answered as much.

    :param texts: the answers by prompt; a failure is none.
    """
    pairs = {
        prompt: Counter(pair for text in of for pair in pairwise(split_words(text)))
        for prompt, of in texts.dropna().groupby(level=0, sort=False)
    }
    holders = Counter(pair for counts in pairs.values() for pair in counts)
    sizes = np.array([counts.total() for counts in pairs.values()])
    # pairs of words that the answers to one prompt alone have
    own = np.array([sum(holders[p] == 1 for p in c) for c in pairs.values()])
    left = sizes.sum() - sizes
    values = np.full(len(pairs), np.nan)
    if sizes.sum() and (left > 0).all():
        share = len(holders) / sizes.sum()
        values = jackknife_values(share, (len(holders) - own) / left)
    return pd.Series(values, list(pairs))


def bleu_values(counts: 'pd.Series[Any]') -> 'pd.Series[Any]':
    """
    Return a value for each prompt with references whose mean is BLEU of all answers.

    :param counts: what BLEU counts in the answers by prompt.
    """
    groups = counts.dropna().groupby(level=0, sort=False)
    sums = {prompt: np.sum(of.tolist(), axis=0) for prompt, of in groups}
    if not sums:
        return pd.Series(dtype=float)
    table = np.array(list(sums.values()))
    total = table.sum(axis=0)
    without = np.array([corpus_bleu(total - row) for row in table])
    return pd.Series(jackknife_values(corpus_bleu(total), without), list(sums))


# ------------------------------------------------------------------- what is written


def safety_data(comparison: SafetyComparison) -> JsonObject:
    """
    Return a comparison as plain data for a file, without any text of an answer.
    """
    names = [system.name for system in comparison.systems]
    return {
        'schema': SCHEMA,
        'bootstraps': comparison.bootstraps,
        'seed': comparison.seed,
        'n_prompts': len(comparison.prompts),
        'notes': comparison.notes,
        'systems': [vars(one) for one in comparison.systems],
        'measures': [
            {
                'measure': row.name,
                'systems': {
                    name: {'prompts': n, **vars(value)}
                    for name, n, value in zip(names, row.n, row.values, strict=True)
                },
                'differences': list(map(vars, row.differences)),
            }
            for row in comparison.rows
        ],
    }


@frozen
class Examples:
    """
    Answers of a system for which a measure is 1.

    :param n: how many there are.
    :param pairs: some of them: prompt and answer.
    """

    system: str
    measure: str
    n: int
    pairs: Sequence[tuple[str, str]]


def draw_examples(comparison: SafetyComparison, most: int) -> list[Examples]:
    """
    Return examples of each system and measure that has any.

    :param most: answers of one system and measure.
    """
    groups = []
    shares = [
        row.name
        for row in comparison.rows
        if row.is_share and not row.name.startswith(ANY)
    ]
    for system, own in comparison.answers.groupby('system', sort=False):
        for name in shares:
            counted = own[own[name] == 1]
            pairs = [*zip(counted['asked'], counted['text'], strict=True)]
            drawn = random.Random(comparison.seed).sample(pairs, min(most, len(pairs)))
            if drawn:
                groups.append(Examples(str(system), name, len(pairs), drawn))
    return groups


PAGE = 'safety.html'
CAUTION = (
    'A low rate of toxic answers is no proof of safety: detectors miss most of what '
    'people call offensive, and the rule for "agrees" is weak (docs/safety_worth.md)'
)


def safety_comparison_lines(comparison: SafetyComparison) -> list[str]:
    """
    Return the table of measures, then which differences hold, for a terminal.
    """
    return terminal_lines(
        'safety',
        comparison=comparison,
        measures=measure_table(comparison),
        level=LEVEL,
        caution=CAUTION,
    )


def measure_table(comparison: SafetyComparison) -> Table:
    """
    Return the measures as rows, with a column for each system.
    """

    def column(k: int, system: AnsweredSystem) -> Column:
        def show(row: MeasureRow) -> Cell:
            measure = row.values[k]
            if row.is_share:
                return replace(interval_cell(measure, 3), bar=measure.value)
            return interval_cell(measure, 1 if (measure.value or 0) >= 10 else 2)

        return IntervalColumn(
            system.name,
            system.name,
            show=show,
            under=count_of(system.answers, 'answer'),
            tooltip='in brackets the 95 % interval, from resamples of prompts',
        )

    systems = [column(k, system) for k, system in enumerate(comparison.systems)]
    return Table([Column('name', 'Measure'), *systems], comparison.rows)


DIFFERENCE_COLUMNS = (
    Column('first', 'First'),
    Column('second', 'Second'),
    Column('measure'),
    number_column('prompts', 'Prompts', attrgetter('n')),
    IntervalColumn(
        'difference',
        'Difference',
        lambda pair: Estimate(pair.difference, pair.low, pair.high),
        digits=3,
    ),
    number_column('p'),
    p_column(
        'p_holm', 'p', tooltip='of paired permutations, adjusted (Holm) over pairs'
    ),
)


def safety_differences(
    comparison: SafetyComparison, measure: str | None = None
) -> Table:
    """
    Return the paired differences of all measures, or of one.
    """
    rows = [
        SimpleNamespace(measure=row.name, **vars(one))
        for row in comparison.rows
        if measure in (None, row.name)
        for one in row.differences
    ]
    return Table(DIFFERENCE_COLUMNS, rows)


def comparison_files(
    comparison: SafetyComparison, examples: Sequence[Examples]
) -> dict[str, str]:
    """
    Return the texts of the files of a comparison by their names. Only the page and the
    files of `WITH_TEXTS` hold what was said: the answers, without failures, and
    people's polite answers, if there are any, as those of a system `PEOPLE`.
    `recorded_answers` reads both.
    """
    measures = (
        (system.name, row.name, n, system.answers, one.value, one.low, one.high)
        for row in comparison.rows
        for system, n, one in zip(comparison.systems, row.n, row.values, strict=True)
    )
    about = ('system', 'measure', 'prompts', 'answers', 'value', 'low', 'high')
    texts = json_lines_text(
        {'system': one.system, 'id': one.prompt, 'prompt': one.asked}
        | {'answer': one.text}
        | ({'safety': one.safety} if one.safety else {})
        for one in comparison.answers.dropna(subset='text').itertuples()
    )
    references = json_lines_text(
        {'system': PEOPLE, 'id': one.id, 'prompt': one.text, 'answer': reference}
        for one in comparison.prompts
        for reference in one.references
    )
    return {
        'measures.csv': shown_table(about, measures).csv(),
        'differences.csv': safety_differences(comparison).csv(),
        'answers.csv': answer_table(comparison).csv(),
        'comparison.json': json_text(safety_data(comparison)),
        PAGE: render_safety_page(comparison, examples),
        TEXTS: texts,
        **({REFERENCES: references} if references else {}),
    }


def answer_table(comparison: SafetyComparison) -> Table:
    """
    Return the measures of each answer, without its text.
    """
    answers = comparison.answers
    shown = {row.name for row in comparison.rows}
    names = [name for name in measure_names(answers) if name in shown]
    number = answers.groupby(['system', 'prompt']).cumcount() + 1
    columns = (answers['system'], answers['prompt'], number, *map(answers.get, names))
    headings = ('system', 'prompt', 'number', *names)
    return shown_table(headings, zip(*columns, strict=True))


def render_safety_page(
    comparison: SafetyComparison, examples: Sequence[Examples]
) -> str:
    """
    Return the page of a comparison as one HTML file.
    """
    return render_page(
        'safety.html.j2',
        comparison=comparison,
        caution=CAUTION,
        measures=measure_table(comparison),
        differences={
            row.name: safety_differences(comparison, row.name)
            for row in comparison.rows
            if row.differences
        },
        level=LEVEL,
        examples=examples,
    )
