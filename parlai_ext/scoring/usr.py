"""
USR: a masked language model, two retrieval classifiers, and a regression over them.

Source: Mehri and Eskenazi (2020), "USR: An Unsupervised and Reference Free Evaluation
Metric for Dialog Generation", and their code, from which the format of the inputs, the
normalisation and the coefficients come. With the three numbers that the authors
published for 300 responses of TopicalChat-USR, the regression gives their published
correlation with people's overall judgement, 0.419 (Pearson) and 0.422 (Spearman).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nltk.tokenize import NLTKWordTokenizer  # type: ignore[import-untyped]
from nltk.tokenize.punkt import PunktSentenceTokenizer  # type: ignore[import-untyped]

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import mean
from parlai_ext.core.options import option
from parlai_ext.scoring.base import (
    FROM,
    NO_KNOWLEDGE,
    Items,
    ItemScore,
    Scorer,
    model_option,
)
from parlai_ext.view.text import single_spaced

MASKED, DR_C, DR_X = 'MLM', 'DR-c', 'DR-x'
TERMS = (MASKED, DR_C, DR_X)
OVERALL, KNOWLEDGE = 'Overall', 'Uses Knowledge'
# which term predicts a quality, and its coefficient in the regression of the overall
QUALITIES: Mapping[str, tuple[str, float]] = {
    'Understandable': (MASKED, 0.6601100065238369),
    'Natural': (MASKED, 0.4035348605308456),
    'Maintains Context': (DR_C, 0.5132785702080678),
    'Engaging': (DR_C, 0.9605336086924106),
    KNOWLEDGE: (DR_X, 0.35642553823787765),
}
INTERCEPT = 3.597475447630256
# mean and standard deviation of each term over the authors' responses
NORMS: Mapping[str, tuple[float, float]] = {
    MASKED: (-1.012293440649907, 0.39053753419230813),
    DR_C: (0.8604811806918587, 0.30259338627812254),
    DR_X: (0.8472124995904354, 0.27987823011851076),
}
MASKED_TOKENS = 100  # the end of context and response that the language model reads
PAIR_TOKENS = 128
RIGHT = 1  # the label of a pair whose response follows its context
PUNKT, TREEBANK = PunktSentenceTokenizer(), NLTKWordTokenizer()


@dataclass(frozen=True)
class UsrOptions:
    """
    The three models, and how texts are given to them.
    """

    masked_lm: str = model_option(
        'hf:adamlin/usr-topicalchat-roberta_ft',
        'masked_lm',
        f'RoBERTa tuned as a language model of dialogues: {FROM}',
    )
    context_classifier: str = model_option(
        'hf:adamlin/usr-topicalchat-ctx',
        'classifier',
        f'DR-c: does the response follow last turn and knowledge?: {FROM}',
    )
    knowledge_classifier: str = model_option(
        'hf:adamlin/usr-topicalchat-uk',
        'classifier',
        f'DR-x: does the response follow the knowledge?: {FROM}',
    )
    hidden: str = option(
        'all',
        choices=('all', 'response'),
        help='whose tokens are hidden one by one: those of last turn and response, as '
        "in the authors' code, or of the response only, as in their paper; the "
        'regression was fitted to the former',
    )
    words: str = option(
        'as_given',
        choices=('as_given', 'split'),
        help='split: punctuation is parted from words as in the training data; the '
        'judged set of TopicalChat has it so already',
    )


class Usr(Scorer):
    """
    The five qualities of USR's annotators, by the term that predicts each, and their
    regression; higher is better.

    ``Understandable`` and ``Natural`` are the mean log-probability of hidden tokens
    (MLM), ``Maintains Context`` and ``Engaging`` DR-c, ``Uses Knowledge`` DR-x, both
    probabilities. Without facts or a persona there is no ``Uses Knowledge``; the models
    then read the word for no fact, as the authors' did.
    """

    name = 'usr'
    fitted_on = ('usr_topical',)  # the regression
    dimensions = (*QUALITIES, OVERALL)
    evidence_labels = TERMS
    instead = (
        'a folder with its files would do: --scorer-option masked_lm=FOLDER, likewise '
        'context_classifier and knowledge_classifier'
    )
    options_class = UsrOptions
    options: UsrOptions

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the scores of each response.
        """
        read = treebank_words if self.options.words == 'split' else single_spaced
        turns = [read((item.context or ('',))[-1].lower()) for item in items]
        known = [read(item.knowledge.lower()) for item in items]
        responses = [f'_go {read(item.text.lower())} _eos' for item in items]
        answers = self.models.masked_lm(self.options.masked_lm).masked_logprobs(
            [f'{turn} _eos' if turn else '' for turn in turns],
            [f' {response}' for response in responses],
            MASKED_TOKENS,
            self.options.hidden == 'all',
        )
        logprobs = [mean([*answer.before, *answer.text]) for answer in answers]
        cut = [answer.cut for answer in answers]
        context = self._follows(
            self.options.context_classifier,
            [f'{t} _eos {fact} _eos' for t, fact in zip(turns, known, strict=True)],
            responses,
        )
        knowledge = self._follows(
            self.options.knowledge_classifier,
            [f'{fact} _eos' for fact in known],
            responses,
        )
        rows: Any = zip(items, logprobs, context, knowledge, cut, strict=True)
        scores = []
        for item, *numbers, n_cut in rows:
            terms = dict(zip(TERMS, numbers, strict=True))
            values = {name: terms[term] for name, (term, _) in QUALITIES.items()}
            values[OVERALL] = None if None in numbers else overall(terms)
            reasons = dict.fromkeys(values, 'there is no token to be hidden')
            if not item.has_knowledge:
                values[KNOWLEDGE], reasons[KNOWLEDGE] = None, NO_KNOWLEDGE
            scores.append(ItemScore(values, reasons, numbers, n_cut))
        return scores

    def _follows(
        self, name: str, contexts: Sequence[str], responses: Sequence[str]
    ) -> list[float]:
        """
        Return the probability that each response follows its context.

        :raises UserError: when the classifier has other than two labels.
        """
        model = self.models.classifier(name)
        if len(model.labels) != 2:
            labels = len(model.labels)
            raise UserError(
                f'scorer {self.name}: classifier {name}: two labels are expected, it '
                f'has {labels}'
            )
        rows = model.probabilities(contexts, responses, PAIR_TOKENS)
        return [float(row[RIGHT]) for row in rows]


def overall(terms: Mapping[str, float]) -> float:
    """
    Return the regression's prediction of the overall judgement, about 1 to 5.
    """
    parts = []
    for term, coefficient in QUALITIES.values():
        mean, deviation = NORMS[term]
        parts.append(coefficient * (terms[term] - mean) / deviation)
    return INTERCEPT + math.fsum(parts)


def treebank_words(text: str) -> str:
    """
    Return a text with blanks between words and punctuation (NLTK's rules of the Penn
    Treebank, sentence by sentence).
    """
    return ' '.join(
        text[start:stop][first:last]
        for start, stop in PUNKT.span_tokenize(text)
        for first, last in TREEBANK.span_tokenize(text[start:stop])
    )
