"""
The learned judge where people's replies are known: half of the score is the judge's,
half BERTScore with the nearest reference.

    Overall = (learned + clipped((BERTScore - CENTRE) / SPREAD)) / 2

The shares were set beforehand and nothing here was fitted to people's judgements
(docs/learned_references.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from parlai_ext.scoring.base import ItemScore, ScoringItem, encoder_option
from parlai_ext.scoring.bertscore import BertScore
from parlai_ext.scoring.learned import MOST, Learned, LearnedOptions

# BERTScore by `minilm` of responses other than the reference, over six judged sets
CENTRE, SPREAD = 0.30, 0.13


@dataclass(frozen=True)
class LearnedReferencesOptions(LearnedOptions):
    """
    The learned judge's options, and the encoder of BERTScore.
    """

    reference_encoder: str = encoder_option()


class LearnedReferences(Learned):
    """
    The mean of the learned judge's score and BERTScore in spreads from its mean; higher
    is better. A response without one of them has no score.
    """

    name = 'learned_references'
    version = 2  # of the judge's scores with those of BERTScore's version 2
    needs = ('references',)
    options_class = LearnedReferencesOptions
    options: LearnedReferencesOptions

    def prepare(self) -> None:
        """
        Read the weights; the evidence is the judge's, and behind it BERTScore.
        """
        super().prepare()
        self.evidence_labels = (*self.evidence_labels, 'bertscore')

    def score(self, items: Sequence[ScoringItem]) -> list[ItemScore]:
        """
        Return the score of each response.
        """
        near = BertScore({'encoder': self.options.reference_encoder}, self.models)
        scores = zip(super().score(items), near.score(items), strict=True)
        return [joined_score(judged, alike) for judged, alike in scores]


def joined_score(judged: ItemScore, alike: ItemScore) -> ItemScore:
    """
    Return the mean of a judge's score and of BERTScore in spreads from its mean.
    """
    first, second = judged.values['Overall'], alike.values['Overall']
    if first is None or second is None:
        return judged if first is None else alike
    spreads = max(-MOST, min(MOST, (second - CENTRE) / SPREAD))
    value = (first + spreads) / 2
    evidence = [*judged.evidence, round(second, 4)]
    return replace(judged, values={'Overall': value}, evidence=evidence)
