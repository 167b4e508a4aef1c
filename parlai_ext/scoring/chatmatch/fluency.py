"""
Perplexity of turns, each by itself, through any language model of the project.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from parlai_ext.core.nouns import Likelihood, Question


def perplexities(
    likelihood: Likelihood, texts: Sequence[str], unit: str
) -> list[float | None]:
    """
    Return the perplexity of each text, without context, its end token included.

    Per token, or per character (the end token counts as one more), where models with
    different vocabularies compare. `None` for an empty text, or where it is not finite.
    Equal texts are asked once, and all at once, the shortest first: they share batches.
    """
    asked = sorted({text for text in texts if text.strip()}, key=lambda t: (len(t), t))
    answers = likelihood.answer([Question((), (text,)) for text in asked])
    found = {
        text: perplexity(answer.continuations[0], text, unit)
        for text, answer in zip(asked, answers, strict=True)
    }
    return [found.get(text) for text in texts]


def perplexity(logprobs: Sequence[float], text: str, unit: str) -> float | None:
    """
    Return the perplexity of one text; `None` where there is no finite one.
    """
    n = len(text) + 1 if unit == 'character' else len(logprobs)
    if not logprobs or not all(map(math.isfinite, logprobs)):
        return None
    try:
        return math.exp(-math.fsum(logprobs) / n)
    except OverflowError:
        return None
