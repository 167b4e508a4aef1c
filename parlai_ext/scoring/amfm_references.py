"""
Deep AM-FM with references (Zhang, D'Haro et al. 2021), as the Track's baseline has it.

    AM      = the largest cosine of the embeddings of the response and of a reference
    FM      = the largest ratio of two losses: the response's and a reference's, each
              without context, the smaller one above
    Overall = (AM + FM) / 2

The program (compute_wr.py) mixes the references of neighbouring items up where an item
has several; with one reference each, the numbers are the same.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from parlai_ext.scoring.amfm import am_encode, am_fm_score, am_state_option
from parlai_ext.scoring.base import ItemScore, ScoringItem
from parlai_ext.scoring.likelihood import JudgeScorer
from parlai_ext.scoring.model_options import encoder_option, judge_option
from parlai_ext.scoring.references import NO_REFERENCE
from parlai_ext.scoring.relevance import best_cosines
from parlai_ext.scoring.string_logprobs import Strings

ZERO = 'the embedding of the response or of every reference is zero'


@dataclass(frozen=True)
class AmFmReferencesOptions:
    """
    The two models, and what of the encoder is compared.
    """

    encoder: str = encoder_option()
    judge_model_file: str = judge_option()
    am_state: str = am_state_option()


class AmFmReferences(JudgeScorer):
    """
    Three scores a response: AM (from -1 to 1), FM (above 0, at most 1) and their mean.
    FM says how alike the two losses are, not which is better.
    """

    name = 'amfm_references'
    needs = ('references',)
    dimensions = ('Overall', 'AM', 'FM')
    options_class = AmFmReferencesOptions
    options: AmFmReferencesOptions

    def score(self, items: Sequence[ScoringItem]) -> list[ItemScore]:
        """
        Return the scores of each response.
        """
        encoder = self.models.embedder(self.options.encoder)
        encode = am_encode(encoder, self.options.am_state)
        cosines = best_cosines(encode, items, [item.references for item in items])
        strings = Strings(self.judge)
        texts = [text for i in items for text in (i.response or '', *i.references)]
        ids = [strings.ids(text, end=True) for text in texts]
        ids = [one[strings.num_over_limit(one) :] for one in ids]
        losses = dict(zip(texts, map(mean_loss, strings.logprobs(ids)), strict=True))
        scores = []
        for item, am in zip(items, cosines, strict=True):
            fm = largest_ratio(item, losses)
            overall = None if am is None or fm is None else (am + fm) / 2
            values = {'Overall': overall, 'AM': am, 'FM': fm}
            scores.append(am_fm_score(item.references, values, (ZERO, NO_REFERENCE)))
        return scores


def largest_ratio(
    item: ScoringItem, losses: Mapping[str, float | None]
) -> float | None:
    """
    Return the largest ratio of the losses of a response and one of its references.
    """
    own = losses[item.response or '']
    if own is None:
        return None
    others = [losses[text] for text in item.references]
    ratios = [min(own, one) / max(own, one) for one in others if one is not None]
    return max(ratios, default=None)


def mean_loss(logprobs: Sequence[float]) -> float | None:
    """
    Return the mean loss of a string's tokens; `None` where it is not above 0 or not
    finite.
    """
    if not logprobs:
        return None
    loss = -math.fsum(logprobs) / len(logprobs)
    return loss if 0 < loss < math.inf else None
