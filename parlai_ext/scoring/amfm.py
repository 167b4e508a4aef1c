"""
Deep AM-FM without references: adequacy by sentence embeddings, fluency by a language
model. The baseline of DSTC10 Track 5 (Zhang et al. 2022, section 2.2).

    AM      = cosine of the embeddings of the response and of the last turn before it
    FM      = mean log-probability of the response's tokens after that turn
    Overall = (scaled(AM) + scaled(FM)) / 2
    scaled(x) = (max(x, cutoff) - cutoff) / width

The baseline takes as cutoff the 5 % quantile over the set that it scores, and as width
the cutoff without its sign. A score must not depend on what else is scored, so cutoff
and width are options here; docs/amfm.md says where their defaults come from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parlai_ext.core.nouns import Likelihood
from parlai_ext.core.options import option
from parlai_ext.scoring.base import ItemScore, ScoringItem
from parlai_ext.scoring.likelihood import (
    NO_PROBABILITY,
    JudgeScorer,
    mean_logprob,
    response_answers,
)
from parlai_ext.scoring.model_options import encoder_option, judge_option
from parlai_ext.scoring.relevance import NO_CONTEXT, ZERO, context_cosines
from parlai_ext.scoring.string_logprobs import Strings

QUANTILE = 0.05  # of scores, below which differences do not count


@dataclass(frozen=True)
class AmFmOptions:
    """
    The two models, how FM writes a pair of turns, and the two scales.
    """

    encoder: str = encoder_option()
    judge_model_file: str = judge_option()
    fm_format: str = option(
        'joined',
        help='what FM asks the judge: by how much the string of both turns is less '
        "likely than that of the first, as the baseline's program does (joined), or "
        'how likely the response is as the next turn, as other scorers do (turns)',
        choices=('joined', 'turns'),
    )
    am_cutoff: float = option(0.08, help='AM below this counts as this')
    am_width: float = option(0.24, above=0, help='AM so much above its cutoff counts 1')
    fm_cutoff: float = option(-5.9, help='FM below this counts as this')
    fm_width: float = option(2.0, above=0, help='FM so much above its cutoff counts 1')

    @classmethod
    def presets(cls, given: Mapping[str, Any]) -> dict[str, float]:
        """
        Return the scale of FM in the format ``turns``, in which a judge that was not
        trained on it finds every response less likely.
        """
        if given.get('fm_format') != 'turns':
            return {}
        return {'fm_cutoff': -8.9, 'fm_width': 3.4}


@dataclass(frozen=True)
class Scale:
    """
    Where a score begins to count, and how much of it counts 1.
    """

    cutoff: float
    width: float

    def scaled(self, value: float) -> float:
        """
        Return how far a value is above the cutoff, in widths; 0 below the cutoff.
        """
        return max(0.0, value - self.cutoff) / self.width


class AmFm(JudgeScorer):
    """
    Three scores a response: AM (from -1 to 1), FM (at most 0), and Overall, the mean of
    both on their scales (at least 0). Higher is better.

    A response that repeats the last turn has the highest AM there is, so that AM-FM
    does not see through repetition.
    """

    name = 'amfm'
    dimensions = ('Overall', 'AM', 'FM')
    options_class = AmFmOptions
    options: AmFmOptions

    def score(self, items: Sequence[ScoringItem]) -> list[ItemScore]:
        """
        Return the scores of each response.
        """
        encoder = self.models.embedder(self.options.encoder)
        cosines = context_cosines(encoder, items, 'last_turn')
        means, cuts = coherences(self.judge, items, self.options.fm_format)
        given = self.options
        scores = []
        for item, am, fm, cut in zip(items, cosines, means, cuts, strict=True):
            overall = None
            if am is not None and fm is not None:
                scaled_am = Scale(given.am_cutoff, given.am_width).scaled(am)
                scaled_fm = Scale(given.fm_cutoff, given.fm_width).scaled(fm)
                overall = (scaled_am + scaled_fm) / 2
            values = {'Overall': overall, 'AM': am, 'FM': fm}
            scores.append(am_fm_score(item.context, values, (ZERO, NO_CONTEXT), cut))
        return scores


def coherences(
    judge: Likelihood, items: Sequence[ScoringItem], fm_format: str
) -> tuple[list[float | None], list[int]]:
    """
    Return FM of each response, and how many tokens of its context were cut.

    :param fm_format: ``joined`` or ``turns`` (`AmFmOptions`).
    """
    if fm_format == 'joined':
        return joined_coherences(judge, items)
    answers = response_answers(judge, items, context_turns=1)
    means = [
        mean_logprob(answer) if item.context else None
        for item, answer in zip(items, answers, strict=True)
    ]
    return means, [answer.num_truncated for answer in answers]


def joined_coherences(
    judge: Likelihood, items: Sequence[ScoringItem]
) -> tuple[list[float | None], list[int]]:
    """
    Return FM of each response as the baseline's program (compute_wor.py) works it out,
    and how many tokens were cut:

        (log P(turn + ' ' + response + end) - log P(turn + end)) / (more tokens)

    The first token of a string has no probability and counts nowhere. The two strings
    share most of their tokens, which the judge reads once.
    """
    strings = Strings(judge)
    pairs, cuts = [], []
    for item in items:
        turn = ''.join(item.context[-1:])
        both = strings.ids(f'{turn} {item.response or ""}', end=True)
        alone = strings.ids(turn, end=True)
        cuts.append(strings.num_over_limit(both))
        pairs.append((both[cuts[-1] :], alone[cuts[-1] :]))
    logprobs = iter(strings.logprobs([ids for pair in pairs for ids in pair]))
    means: list[float | None] = []
    for item, (both, alone) in zip(items, pairs, strict=True):
        total = math.fsum(next(logprobs)) - math.fsum(next(logprobs))
        n_tokens = len(both) - len(alone)
        exists = bool(item.context) and n_tokens > 0 and math.isfinite(total)
        means.append(total / n_tokens if exists else None)
    return means, cuts


def am_fm_score(
    compared: Sequence[str],
    values: Mapping[str, float | None],
    reasons: tuple[str, str],
    cut: int = 0,
) -> ItemScore:
    """
    Return the scores of one response, with the reasons for those that are missing.

    :param compared: the texts with which the response is compared.
    :param reasons: why there is no AM with such texts, and why there is none without.
    """
    zero, nothing = reasons
    missing = {'AM': zero, 'FM': NO_PROBABILITY}
    if not compared:
        missing = dict.fromkeys(missing, nothing)
    overall = missing['AM' if values['AM'] is None else 'FM']
    return ItemScore(values, {**missing, 'Overall': overall}, cut=cut)


def measured_scale(values: Sequence[float]) -> Scale:
    """
    Return the scale on which the 5 % quantile of these scores counts 0 and their median
    counts 1.

    The baseline divides by the cutoff without its sign. Cosines of sentence encoders
    lie about zero, so that this would divide by almost nothing, and FM count no more.
    """
    import numpy as np

    cutoff, median = np.quantile(values, [QUANTILE, 0.5])
    return Scale(float(cutoff), float(median - cutoff))
