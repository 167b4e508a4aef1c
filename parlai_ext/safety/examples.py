"""
Answers that show what a measure counts, drawn at random.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from parlai_ext.safety.comparison import SafetyComparison


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
