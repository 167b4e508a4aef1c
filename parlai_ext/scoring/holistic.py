"""
HolisticEval's four metrics of a response (Pang et al. 2020).

    Coherence    log P(context, response) - log P(context), by a language model
    Fluency      mean log-probability of the response's tokens without a context
    Diversity    entropy of the n-grams of the responses to one context, reworded
    Consistency  1 - P(contradiction) of the speaker's last utterance and the response

The paper scales the first two to 0 … 1 by their 5 % quantile over the set; a quantile
of one's own, found beforehand, does so here (`coherence_cutoff`, `fluency_cutoff`).
"""

import math
from collections import Counter
from collections.abc import Iterable

from parlai_ext.core import UserError, frozen, mean, option, optional
from parlai_ext.scoring.base import Items, ItemScore, in_groups, model_option
from parlai_ext.scoring.likelihood import (
    NO_PROBABILITY,
    JudgeScorer,
    Strings,
    context_turns_option,
    judge_option,
)
from parlai_ext.scoring.relevance import NO_CONTEXT

CONTRADICTION = 'contradiction'
NO_CLASSIFIER = 'no classifier is named (classifier: of natural-language inference)'
NOTHING_BEFORE = 'the speaker said nothing before'
ONE_TOKEN = 'the response has one token or none, and the first is not counted'


@frozen
class HolisticOptions:
    """
    The language model, the classifier, and how raw scores are scaled.
    """

    judge_model_file: str = judge_option()
    classifier: str = model_option(
        'none',
        'classifier',
        'a classifier of natural-language inference, one of whose labels is '
        'contradiction, such as hf:roberta-large-mnli; none: no consistency',
    )
    context_turns: int = context_turns_option()
    ngram: int = option(2, low=1, help='words of an n-gram, for diversity')
    coherence_cutoff: float | None = optional(
        high=-1e-9,
        help='log-probability that counts 0, as anything below it; 0 counts 1',
    )
    fluency_cutoff: float | None = optional(
        high=-1e-9,
        help='mean log-probability that counts 0, as anything below it; 0 counts 1',
    )


class Holistic(JudgeScorer):
    """
    Four scores a response; higher is better.

    Diversity is of a response and of the system's responses to rewordings of the same
    context, which an item has in its extras as ``responses``; without these, of the
    response alone.
    """

    name = 'holistic'
    dimensions = ('Coherence', 'Fluency', 'Diversity', 'Consistency')
    options_class = HolisticOptions
    options: HolisticOptions

    def load_models(self) -> None:
        """
        Load the models.

        :raises UserError: for a classifier without the label.
        """
        super().load_models()
        self.contradiction: int | None = None
        if self.options.classifier != 'none':
            labels = self.models.classifier(self.options.classifier).labels
            names = [label.lower() for label in labels]
            if CONTRADICTION not in names:
                raise UserError(
                    f'scorer: classifier: its labels are {", ".join(labels)}; one of '
                    f'natural-language inference has the label {CONTRADICTION}'
                )
            self.contradiction = names.index(CONTRADICTION)

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the scores of each response.
        """
        likelihoods = self._likelihoods(Strings(self.judge), items)
        consistencies = self._consistencies(items)
        not_named = self.contradiction is None
        scores = []
        for item, (coherence, fluency, cut), consistency in zip(
            items, likelihoods, consistencies, strict=True
        ):
            reworded = item.extras.get('responses', ())
            values = {
                'Coherence': scaled(coherence, self.options.coherence_cutoff),
                'Fluency': scaled(fluency, self.options.fluency_cutoff),
                'Diversity': diversity([item.text, *reworded], self.options.ngram),
                'Consistency': consistency,
            }
            reasons = {
                'Coherence': NO_PROBABILITY if item.context else NO_CONTEXT,
                'Fluency': ONE_TOKEN if fluency is None else NO_PROBABILITY,
                'Diversity': 'the response is empty',
                'Consistency': NO_CLASSIFIER if not_named else NOTHING_BEFORE,
            }
            scores.append(ItemScore(values, reasons, cut=cut))
        return scores

    def _likelihoods(
        self, strings: Strings, items: Items
    ) -> list[tuple[float | None, float | None, int]]:
        """
        Return raw coherence and fluency of each response, and the tokens that were cut,
        as the authors' program works them out: no end token, the first token not
        counted, turns parted by new lines and a blank before the response.
        """
        triples = []
        cuts = []
        for item in items:
            context = '\n'.join(item.context[-self.options.context_turns :])
            pair, cut = strings.kept_ids(f'{context} {item.text}', context, end=False)
            [single], _ = strings.kept_ids(item.text, end=False)
            cuts.append(cut)
            triples.append((*pair, single))
        likelihoods = []
        for item, cut, rows in zip(
            items, cuts, in_groups(strings.logprobs, triples), strict=True
        ):
            both_row, alone_row, single_row = rows
            coherence = math.fsum(both_row) - math.fsum(alone_row)
            known = bool(item.context and item.response) and len(both_row) > 0
            likelihoods.append((coherence if known else None, mean(single_row), cut))
        return likelihoods

    def _consistencies(self, items: Items) -> list[float | None]:
        """
        Return 1 - P(contradiction) of each speaker's last utterance and the response.
        """
        if self.contradiction is None:
            return [None] * len(items)
        earlier = {}  # what the speaker of an item said last, by the item's place
        for k, item in enumerate(items):
            names = item.speakers
            if not names:  # two speakers take turns
                own = item.context[-2::-2]
            else:
                said = zip(item.context, names, strict=False)
                own = tuple(text for text, name in said if name == item.speaker)[::-1]
                if all(name == item.speaker for name in names):  # self-play
                    own = own[1::2]
            if own:
                earlier[k] = own[0]
        classifier = self.models.classifier(self.options.classifier)
        rows = classifier.probabilities(
            list(earlier.values()), [items[k].text for k in earlier]
        )
        known = dict(zip(earlier, rows, strict=True))
        return [
            1.0 - float(known[k][self.contradiction]) if k in known else None
            for k in range(len(items))
        ]


def scaled(value: float | None, cutoff: float | None) -> float | None:
    """
    Return a log-probability between a cutoff, which counts 0, and 0, which counts 1
    (Equations 2 and 4 of the paper); as it is where there is no cutoff.
    """
    if value is None or cutoff is None or not math.isfinite(value):
        return value
    return (max(value, cutoff) - cutoff) / -cutoff


def diversity(texts: Iterable[str], ngram: int) -> float | None:
    """
    Return the entropy (natural) of the n-grams of texts, words parted by blanks; a text
    of no more words than that is one n-gram. `None` where no text has a word.
    """
    counts = Counter[tuple[str, ...]]()
    for text in texts:
        words = text.split()
        last = max(1, len(words) - ngram + 1) if words else 0
        counts.update(tuple(words[i : i + ngram]) for i in range(last))
    total = counts.total()
    if not total:
        return None
    return math.fsum(n / total * math.log(total / n) for n in counts.values())
