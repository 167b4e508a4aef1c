"""
Five human-centred metrics: emotional entropy, matching of style and of emotions,
agreeableness, empathy.

Source: team 4 of DSTC10 Track 5; Giorgi et al. (2023), "Psychological Metrics for
Dialog System Evaluation". They use a classifier of emotions, LIWC's function words, and
models of personality and empathy that are not to be had. Here a sentence encoder
compares texts with a few sentences of ours, and the word lists are ours. The numbers
are not theirs.
"""

from collections.abc import Sequence
from statistics import fmean

import numpy as np
from scipy.special import softmax
from scipy.stats import entropy

from parlai_ext.core import frozen, option
from parlai_ext.ranking.agreement import spearman
from parlai_ext.ranking.baselines import words_of
from parlai_ext.ranking.intervals import Floats
from parlai_ext.scoring.base import (
    EncoderScorer,
    Items,
    ItemScore,
    encoder_option,
    unit_rows,
)

# one for each emotion of Plutchik: joy, trust, fear, surprise, sadness, disgust, anger
# and anticipation
EMOTIONS = (
    'I am so happy, this is wonderful.',
    'I trust you and I feel safe.',
    'I am afraid, this is scary.',
    'Wow, I did not expect that.',
    'I am sad and I feel like crying.',
    'That is disgusting.',
    'I am angry, this makes me furious.',
    'I cannot wait, I look forward to it.',
)
# texts at the upper and at the lower end
AGREEABLE = (
    ('Thank you, that is very kind of you.', 'I like to help other people.'),
    ('You are wrong and you annoy me.', 'I do not care about other people.'),
)
EMPATHIC = (
    ('I am sorry to hear that, it must be hard for you.', 'I am so glad for you.'),
    ('That is not my problem.', 'I do not care how you feel.'),
)
FUNCTION_WORDS = tuple(
    frozenset(line.split())
    for line in """
i me my mine myself we us our you your yours he him his she her they them their
it its this that these those what which who something anything
a an the
and but or so because if while although
in on at to of for with from by about after before into over
am is are was were be been do does did have has had will would can could should
very really just too also now then here there again
no not never none nothing don't isn't can't won't didn't doesn't
all some many much more most few any every both
""".strip().split('\n')
)
SMALL = 0.0001


@frozen
class HumanCenteredOptions:
    """
    The encoder, and how sharp emotions are.
    """

    encoder: str = encoder_option()
    temperature: float = option(
        0.1, above=0, help='cosines with emotions are divided by it before the softmax'
    )


class HumanCentered(EncoderScorer):
    """
    Five scores a response: the entropy of its emotions in nats (at most ln 8), the
    likeness of its function words to those of the last turn (0 to 1), Spearman's
    coefficient of both turns' emotions, and how much nearer it is to agreeable and to
    empathic sentences than to their opposites (cosines). More is better by convention.
    """

    name = 'human_centered'
    dimensions = (
        'Emotional Entropy',
        'Style Matching',
        'Emotion Matching',
        'Agreeableness',
        'Empathy',
    )
    no_score = 'there is no word, or none before it'
    options_class = HumanCenteredOptions
    options: HumanCenteredOptions

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the scores of each response.
        """

        def cosines(texts: Sequence[str], others: Sequence[str]) -> Floats:
            rows, columns = (
                unit_rows(np.asarray(self.encoder.encode(some)), SMALL)
                for some in (texts, others)
            )
            return np.asarray(rows @ columns.T, np.float64)

        texts = [item.text for item in items]
        before = [item.context[-1] if item.context else '' for item in items]
        own, theirs = cosines(texts, EMOTIONS), cosines(before, EMOTIONS)
        ends = [
            cosines(texts, high).mean(axis=1) - cosines(texts, low).mean(axis=1)
            for high, low in (AGREEABLE, EMPATHIC)
        ]
        matching = spearman(own, theirs)
        scores = []
        for k, (text, other) in enumerate(zip(texts, before, strict=True)):
            alone = bool(words_of(text))
            both = alone and bool(words_of(other))
            rho = float(matching[k])
            shares = softmax(own[k] / self.options.temperature)
            values = (
                float(entropy(shares)) if alone else None,
                style_matching(text, other) if both else None,
                None if np.isnan(rho) or not both else rho,
                *(float(end[k]) if alone else None for end in ends),
            )
            scores.append(ItemScore(dict(zip(self.dimensions, values, strict=True))))
        return scores


def style_matching(text: str, other: str) -> float:
    """
    Return the language style matching of two texts: 1 minus the difference of the
    shares of a class of function words, by their sum, as a mean over classes.
    """
    shares = [
        [sum(word in kind for word in words) / max(1, len(words)) for words in texts]
        for kind in FUNCTION_WORDS
        for texts in [(words_of(text), words_of(other))]
    ]
    return fmean(1 - abs(a - b) / (a + b + SMALL) for a, b in shares)
