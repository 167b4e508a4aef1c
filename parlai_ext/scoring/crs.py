"""
Correlation Re-Scaling: sub-metrics weighed, for each quality, by how far they agree
with people on judged sets.

Source: MME-CRS (Zhang et al. 2022, arXiv:2206.09403), team 5 of DSTC10 Track 5. Its
seven sub-metrics need models that were not released; the weighing is for any. Which
power, and how scores of different scales are added, is our reading (docs/crs.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from parlai_ext.core.nouns import content_id
from parlai_ext.core.options import option
from parlai_ext.files.yaml_file import Document
from parlai_ext.scoring.base import ItemScore, ScoringItem
from parlai_ext.scoring.composite import (
    Term,
    TermModels,
    fitted_sets,
    overall_score,
)
from parlai_ext.scoring.likelihood import (
    NO_PROBABILITY,
    JudgeScorer,
    mean_logprob,
    response_answers,
)
from parlai_ext.scoring.relevance import context_cosines
from parlai_ext.scoring.shipped_file import read_shipped_file
from parlai_ext.scoring.trivial import OVERALL, Distinct, Length

METRICS = ('likelihood', 'relevance', 'length', 'distinct')
LEAST = 1 / 3  # the largest weight of a set is this or more


@dataclass(frozen=True)
class CrsOptions(TermModels):
    """
    The models of the sub-metrics, and the file of correlations.
    """

    correlations: str = option(
        'crs',
        help='how far the sub-metrics agree with people: a shipped name, or a file',
        metavar='NAME|FILE',
        path=True,
    )


class Crs(JudgeScorer):
    """
    A score for each quality of the file, and their mean, from -2 to 2; higher is
    better. The evidence is the value of each sub-metric.
    """

    name = 'crs'
    dimensions: tuple[str, ...] = (OVERALL,)
    evidence_labels = METRICS
    options_class = CrsOptions
    options: CrsOptions

    def prepare(self) -> None:
        """
        Read the correlations, and weigh the sub-metrics by them.
        """
        doc = read_shipped_file('composite', self.options.correlations, 'correlations')
        self.terms = read_terms(doc)
        self.dimensions = (OVERALL, *self.terms)
        self.fitted_on = fitted_sets(doc)
        numbers = [
            [quality, metric, *vars(term).values()]
            for quality, terms in self.terms.items()
            for metric, term in terms.items()
        ]
        self.signed = {'correlations': content_id('crs', numbers)}

    def score(self, items: Sequence[ScoringItem]) -> list[ItemScore]:
        """
        Return the scores of each response.
        """
        answers = response_answers(self.judge, items, self.options.context_turns)
        encoder = self.models.embedder(self.options.encoder)
        cosines = context_cosines(encoder, items, 'last_turn')
        trivial = Length(), Distinct()
        scores = []
        for item, answer, cosine in zip(items, answers, cosines, strict=True):
            counts = [scorer.item_score(item) for scorer in trivial]
            evidence = (mean_logprob(answer), cosine, *counts)
            values = dict(zip(METRICS, evidence, strict=True))
            found: dict[str, float | None] = dict.fromkeys(self.dimensions)
            if values['likelihood'] is not None:
                qualities = {
                    quality: overall_score(terms, values, 0.0)
                    for quality, terms in self.terms.items()
                }
                found = {OVERALL: fmean(qualities.values()), **qualities}
            reasons = dict.fromkeys(self.dimensions, NO_PROBABILITY)
            scores.append(ItemScore(found, reasons, evidence, answer.num_truncated))
        return scores


def rescaled_weights(correlations: Mapping[str, float]) -> dict[str, float]:
    """
    Return the weights of sub-metrics on one set, which sum to 1: their correlations,
    none below 0, to the lowest whole power at which the largest weight is `LEAST`.
    """
    weights = {name: max(0.0, value) for name, value in correlations.items()}
    powered, power = weights, 1
    while 0 < max(powered.values()) < LEAST * sum(powered.values()) and power < 100:
        power += 1
        powered = {name: value**power for name, value in weights.items()}
    total = sum(powered.values())
    return {name: value / total if total else 0.0 for name, value in powered.items()}


def read_terms(doc: Document) -> dict[str, dict[str, Term]]:
    """
    Return how each sub-metric is scaled and weighed, for each quality: by the mean of
    its weights on the sets of this quality.
    """

    def numbers(where: tuple[str, ...], names: Sequence[str]) -> dict[str, float]:
        data = doc.typed(doc.data, (), dict)
        for key in where:
            data = data.get(key) if isinstance(data, dict) else None
        data = doc.typed(data, where, dict)
        if sorted(data) != sorted(names):
            raise doc.error(where, f'the keys {", ".join(names)} are expected')
        return {name: doc.typed(data[name], (*where, name), float) for name in names}

    scales = {
        name: numbers(('metrics', name), ('centre', 'spread')) for name in METRICS
    }
    for name, scale in scales.items():
        if scale['spread'] <= 0:
            raise doc.error(('metrics', name, 'spread'), 'a number above 0 is expected')
    where = 'correlations'
    qualities = doc.typed(doc.data.get(where), (where,), dict)
    terms = {}
    for quality, sets in qualities.items():
        on_sets = [
            rescaled_weights(numbers((where, quality, name), METRICS))
            for name in doc.typed(sets, (where, quality), dict)
        ]
        if not on_sets:
            raise doc.error((where, quality), 'one set or more is expected')
        terms[quality] = {
            name: Term(**scales[name], weight=fmean(one[name] for one in on_sets))
            for name in METRICS
        }
    if not terms or OVERALL in terms:
        raise doc.error((where,), f'qualities are expected, not {OVERALL}')
    return terms
