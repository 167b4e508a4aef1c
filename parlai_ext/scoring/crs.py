"""
Correlation Re-Scaling: sub-metrics weighed, for each quality, by how far they agree
with people on judged sets.

Source: MME-CRS (Zhang et al. 2022, arXiv:2206.09403), team 5 of DSTC10 Track 5. Its
seven sub-metrics need models that were not released; the weighing is for any. Which
power, and how scores of different scales are added, is our reading (docs/crs.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import fmean

from parlai_ext.core.nouns import content_id
from parlai_ext.core.options import option
from parlai_ext.files.yaml_file import Document
from parlai_ext.scoring.base import ItemScore, ScoringItem
from parlai_ext.scoring.composite import (
    Scale,
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

LEAST = 1 / 3  # the largest weight of a set is this or more


@dataclass(frozen=True)
class Correlations:
    """
    How far each sub-metric agrees with people on one set.
    """

    likelihood: float = option(help='of how likely responses are')
    relevance: float = option(help='of how near they are to the last turn')
    length: float = option(help='of their words')
    distinct: float = option(help='of how different their words are')


METRICS = tuple(field.name for field in fields(Correlations))


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
            known = dict(zip(METRICS, evidence, strict=True))
            values = {}
            if known['likelihood'] is not None:
                values = {
                    quality: overall_score(terms, known, 0.0)
                    for quality, terms in self.terms.items()
                }
                values[OVERALL] = fmean(values.values())
            reasons = dict.fromkeys(self.dimensions, NO_PROBABILITY)
            scores.append(ItemScore(values, reasons, evidence, answer.num_truncated))
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
    data = doc.typed(doc.data, (), dict)
    given = doc.typed(data.get('metrics'), ('metrics',), dict)
    scales = {
        name: doc.options(Scale, given.get(name), ('metrics', name)) for name in METRICS
    }
    terms = {}
    qualities = doc.typed(data.get('correlations'), ('correlations',), dict)
    for quality, sets in qualities.items():
        where = ('correlations', quality)
        on_sets = [
            rescaled_weights(vars(doc.options(Correlations, values, (*where, name))))
            for name, values in doc.typed(sets, where, dict).items()
        ]
        if not on_sets:
            raise doc.error(where, 'one set or more is expected')
        terms[quality] = {
            name: Term(**vars(scale), weight=fmean(one[name] for one in on_sets))
            for name, scale in scales.items()
        }
    if not terms or OVERALL in terms:
        raise doc.error(('correlations',), f'qualities are expected, not {OVERALL}')
    return terms
