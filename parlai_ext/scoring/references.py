"""
Scorers that compare a response with references, which people wrote.

A subclass scores pairs (response, reference). Where there are several references the
best score counts (Gupta et al. 2019, "multi-reference"); the evidence says which one
gave it. An empty response and an item without a reference have no score.
"""

from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.scoring.base import Items, ItemScore, Scorer, ScoringItem

OVERALL = 'Overall'
NO_REFERENCE = 'there is no reference'
Pair = tuple[str, str]  # response and reference


class ReferenceScorer(Scorer):
    """
    One score for a response: the best one over its references.

    :cvar module: the library behind the score, as it is imported; '' without one.
    :cvar package: its name on PyPI; its version is part of the signature.
    :cvar no_score: why a response with references may have no score.
    """

    dimensions = (OVERALL,)
    needs = ('references',)
    module = ''
    package = ''
    no_score = 'no reference can be compared with the response'

    def prepare(self) -> None:
        """
        Refuse to begin without the library.
        """
        if self.module:
            self.library = metric_library(self.name, self.module, self.package)
        if self.package:
            self.signed = {self.package: version(self.package)}

    def pair_scores(self, pairs: Sequence[Pair]) -> list[float | None]:
        """
        Return the score of each response against a reference of it, higher is better.

        Neither is empty; equal pairs come once.
        """
        raise NotImplementedError

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the best score of each response over its references.
        """
        pairs = dict.fromkeys(pair for item in items for pair in response_pairs(item))
        scores = dict(zip(pairs, self.pair_scores(list(pairs)), strict=True))
        best_scores = []
        for item in items:
            of_item = response_pairs(item)
            reason = self.no_score if of_item else NO_REFERENCE
            if not (item.text).strip():
                reason = 'the response is empty'
            known = {p: score for p in of_item if (score := scores[p]) is not None}
            best = max(known, key=lambda pair: known[pair], default=None)
            best_scores.append(
                ItemScore({OVERALL: None}, {OVERALL: reason})
                if best is None
                else ItemScore(
                    {OVERALL: known[best]},
                    evidence={'reference': item.references.index(best[1])},
                )
            )
        return best_scores


def response_pairs(item: ScoringItem) -> list[Pair]:
    """
    Return the response with each of its references; none of either is empty.
    """
    response = item.text
    if not response.strip():
        return []
    return [(response, text) for text in item.references if text.strip()]


def metric_library(scorer: str, module: str, package: str) -> Any:
    """
    Import the library that a scorer needs.

    :param package: its name on PyPI.
    :raises UserError: one line that says how to install it.
    """
    try:
        return import_module(module)
    except ImportError:
        raise UserError(
            f'scorer {scorer} needs the package {package}: '
            "pip install 'parlai_ext[metrics]'"
        ) from None
