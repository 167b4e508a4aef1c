"""
Systems compared by their answers to the same prompts.

The prompt is the unit: the value of a system at a prompt is the mean over its answers,
and intervals and tests draw prompts. BLEU and distinct-2 are numbers of all answers
together; their intervals are the jackknife's.
"""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import fsum
from typing import Any

import numpy as np

from parlai_ext.ranking.detection import Measure
from parlai_ext.ranking.prompt_means import (
    BOOTSTRAPS,
    MeanDifference,
    jackknife_values,
    paired_differences,
    prompt_means,
)
from parlai_ext.ranking.table import Floats
from parlai_ext.store.lines import dumps
from parlai_ext.toxic.detectors import split_words
from parlai_ext.toxic.measures import BLEU, MeasuredAnswer, Prompt, corpus_bleu

DISTINCT = 'distinct_2'
ANY = 'any '  # before a measure: the share of prompts with such an answer
SCHEMA = 1
PEOPLE = 'human'  # the system of people's polite answers
Answers = Mapping[str, Sequence[MeasuredAnswer]]  # by the id of the prompt


@dataclass(frozen=True)
class SystemAnswers:
    """
    The answers of a system to the prompts, and how many are missing.

    :param n_failed: answers without a text, since the system failed.
    :param reason: of the first of them.
    """

    name: str
    answers: Answers
    n_failed: int = 0
    reason: str | None = None

    @property
    def n_answers(self) -> int:
        return sum(map(len, self.answers.values()))


@dataclass(frozen=True)
class MeasureRow:
    """
    A measure of every system, and the differences of their pairs.

    :param n: by system, how many prompts have a value.
    """

    name: str
    is_share: bool
    values: Sequence[Measure]
    n: Sequence[int]
    differences: Sequence[MeanDifference]


@dataclass(frozen=True)
class SafetyComparison:
    """
    What `compare_answers` returns.

    :param notes: lines about what is missing.
    """

    prompts: Sequence[Prompt]
    systems: Sequence[SystemAnswers]
    rows: Sequence[MeasureRow]
    bootstraps: int
    seed: int
    notes: Sequence[str] = field(default_factory=list)

    def row(self, name: str) -> MeasureRow:
        """
        Return the row of a measure.
        """
        return next(row for row in self.rows if row.name == name)


def compare_answers(
    prompts: Sequence[Prompt],
    systems: Sequence[SystemAnswers],
    shares: Sequence[str],
    *,
    bootstraps: int = BOOTSTRAPS,
    seed: int = 0,
    notes: Sequence[str] = (),
) -> SafetyComparison:
    """
    Return the measures of all systems with intervals, and paired differences.

    :param shares: the measures that are 0 or 1 of an answer.
    """
    rows = []
    for name, values in _value_tables(prompts, systems, shares):
        is_share = name.removeprefix(ANY) in shares
        drawn = {'bootstraps': bootstraps, 'seed': seed}
        rows.append(
            MeasureRow(
                name,
                is_share,
                prompt_means(values, shares=is_share, **drawn),
                [int(n) for n in (~np.isnan(values)).sum(axis=1)],
                paired_differences(values, **drawn),
            )
        )
    return SafetyComparison(prompts, systems, rows, bootstraps, seed, notes)


def _value_tables(
    prompts: Sequence[Prompt], systems: Sequence[SystemAnswers], shares: Sequence[str]
) -> Iterator[tuple[str, Floats]]:
    """
    Yield the values ``[system, prompt]`` of each measure that any answer has.
    """
    several = any(len(of) > 1 for one in systems for of in one.answers.values())
    names = dict.fromkeys(
        name
        for one in systems
        for of_prompt in one.answers.values()
        for measured in of_prompt
        for name in measured.values
    )
    for name in names:
        table = np.array([_means(prompts, one.answers, name) for one in systems])
        if not np.isnan(table).all():
            yield name, table
        if several and name.startswith('toxic'):
            yield ANY + name, np.where(np.isnan(table), table, table > 0)
    yield DISTINCT, np.array([distinct_values(prompts, s.answers) for s in systems])
    table = np.array([bleu_values(prompts, one.answers) for one in systems])
    if not np.isnan(table).all():
        yield BLEU, table


def _means(prompts: Sequence[Prompt], answers: Answers, name: str) -> Floats:
    """
    Return the mean over the answers to each prompt; NaN where there is none.
    """
    means = np.full(len(prompts), np.nan)
    for i, prompt in enumerate(prompts):
        values = [one.values.get(name) for one in answers.get(prompt.id, ())]
        known = [value for value in values if value is not None]
        if known:
            means[i] = fsum(known) / len(known)
    return means


def distinct_values(prompts: Sequence[Prompt], answers: Answers) -> Floats:
    """
    Return a value for each prompt whose mean is distinct-2: the share of different ones
    among all pairs of neighbouring words of all answers (Li et al. 2016).

    The more text, the smaller it is: it compares systems that have answered as much.
    """
    pairs = [
        Counter(
            pair
            for one in answers.get(prompt.id, ())
            for pair in pairwise(split_words(one.answer.text or ''))
        )
        for prompt in prompts
    ]
    holders = Counter(pair for counts in pairs for pair in counts)
    sizes = np.array([counts.total() for counts in pairs], np.float64)
    # pairs of words that the answers to one prompt alone have
    own = np.array([sum(holders[p] == 1 for p in counts) for counts in pairs])
    values = np.full(len(prompts), np.nan)
    there = np.array([prompt.id in answers for prompt in prompts])
    left = sizes.sum() - sizes[there]
    if sizes.sum() and (left > 0).all():
        without = (len(holders) - own[there]) / left
        values[there] = jackknife_values(len(holders) / sizes.sum(), without)
    return values


def bleu_values(prompts: Sequence[Prompt], answers: Answers) -> Floats:
    """
    Return a value for each prompt with references whose mean is BLEU of all answers.
    """
    values = np.full(len(prompts), np.nan)
    counts = {}
    for i, prompt in enumerate(prompts):
        counted = [one.bleu for one in answers.get(prompt.id, ()) if one.bleu]
        if counted:
            counts[i] = np.sum(counted, axis=0)
    if counts:
        values[list(counts)] = prompt_bleus(np.array(list(counts.values())))
    return values


def collected_mean(
    values: Sequence[Sequence[Sequence[float]]], *, shares: bool
) -> Measure:
    """
    Return the mean over prompts of the mean over the values of each prompt.

    :param values: of each prompt, of each answer: one number.
    :param shares: the values are 0 or 1.
    """
    means = np.array([np.mean(of_prompt) for of_prompt in values], np.float64)
    return prompt_means(means[None], shares=shares)[0]


def collected_bleu(counts: Sequence[Sequence[Sequence[float]]]) -> Measure:
    """
    Return BLEU of all answers.

    :param counts: of each prompt, of each answer: what BLEU counts.
    """
    if not counts:
        return Measure(None, None, None)
    sums = np.array([np.sum(of_prompt, axis=0) for of_prompt in counts])
    return prompt_means(prompt_bleus(sums)[None], shares=False)[0]


def prompt_bleus(counts: Floats) -> Floats:
    """
    Return a value for each prompt whose mean is BLEU of all answers.

    :param counts: ``[prompt, count]``: what BLEU counts in the answers to it.
    """
    total = counts.sum(axis=0)
    without = np.array([corpus_bleu(total - row) for row in counts])
    return jackknife_values(corpus_bleu(total), without)


def answer_texts(comparison: SafetyComparison) -> str:
    """
    Return all answers with their prompts as JSON lines, as `recorded_answers` reads
    them.
    """
    texts = {prompt.id: prompt.text for prompt in comparison.prompts}
    return _text_lines(
        (system.name, prompt, texts[prompt], one.answer.text or '')
        for system in comparison.systems
        for prompt, answers in system.answers.items()
        for one in answers
    )


def reference_texts(comparison: SafetyComparison) -> str:
    """
    Return people's polite answers in the same way, as those of a system `PEOPLE`.
    """
    return _text_lines(
        (PEOPLE, prompt.id, prompt.text, reference)
        for prompt in comparison.prompts
        for reference in prompt.references
    )


def _text_lines(rows: Iterable[tuple[str, ...]]) -> str:
    keys = ('system', 'id', 'prompt', 'answer')
    return ''.join(dumps(dict(zip(keys, row, strict=True))) + '\n' for row in rows)


def comparison_data(comparison: SafetyComparison) -> dict[str, Any]:
    """
    Return a comparison as plain data for a file, without any text of an answer.
    """
    names = [system.name for system in comparison.systems]
    return {
        'schema': SCHEMA,
        'bootstraps': comparison.bootstraps,
        'seed': comparison.seed,
        'n_prompts': len(comparison.prompts),
        'notes': list(comparison.notes),
        'systems': [
            {
                'name': one.name,
                'prompts': len(one.answers),
                'answers': one.n_answers,
                'failed': one.n_failed,
                'reason': one.reason,
            }
            for one in comparison.systems
        ],
        'measures': [
            {
                'measure': row.name,
                'systems': {
                    name: {'prompts': n, **vars(value)}
                    for name, n, value in zip(names, row.n, row.values, strict=True)
                },
                'differences': [
                    {
                        **vars(one),
                        'first': names[one.first],
                        'second': names[one.second],
                    }
                    for one in row.differences
                ],
            }
            for row in comparison.rows
        ],
    }


@dataclass(frozen=True)
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


def draw_examples(
    comparison: SafetyComparison, shares: Sequence[str], most: int
) -> list[Examples]:
    """
    Return examples of each system and measure that has any.

    :param shares: the measures that are 0 or 1 of an answer.
    :param most: answers of one system and measure.
    """
    texts = {prompt.id: prompt.text for prompt in comparison.prompts}
    groups = []
    for system in comparison.systems:
        for name in shares:
            pairs = [
                (texts[prompt], one.answer.text or '')
                for prompt, answers in system.answers.items()
                for one in answers
                if one.values.get(name) == 1
            ]
            drawn = random.Random(comparison.seed).sample(pairs, min(most, len(pairs)))
            if drawn:
                groups.append(Examples(system.name, name, len(pairs), drawn))
    return groups
