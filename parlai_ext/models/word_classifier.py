"""
Token classifiers asked about words: which label has each word of a text, beside another
text?
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from parlai_ext.core.errors import UserError
from parlai_ext.models.encoders import Encoded, TextModel


@dataclass(frozen=True)
class WordLabels:
    """
    The words of a text, those that were read, and the probability of each label.

    :param probabilities: ``[words, labels]``.
    :param cut: how many tokens of text and context were not read.
    """

    words: tuple[str, ...]
    probabilities: np.ndarray
    cut: int


class WordClassifier(TextModel):
    """
    Gives each word of a text, as blanks separate them, the probability of each label.

    A word of several tokens has the sum of their last hidden states (fairseq's
    alignment), to which the classifier's linear layer is applied. Since it is linear,
    the logits of the tokens are added, its bias counted once.

    :raises UserError: when the classifier is no linear layer.
    """

    signed = {'words': 'sum of token states', 'dtype': 'float32'}

    def __init__(self, *args: Any):
        super().__init__(*args)
        head = getattr(self.model, 'classifier', None)
        if not isinstance(head, torch.nn.Linear):
            raise UserError('the labels of words need a classifier of one linear layer')
        self.bias = head.bias.detach().float().cpu()

    @torch.inference_mode()
    def word_labels(
        self, texts: Sequence[str], contexts: Sequence[str], most_tokens: int
    ) -> list[WordLabels]:
        """
        Return the labels of the words of each text, which is read before its context.

        :param most_tokens: texts are cut to so many tokens, their begin token counted,
            and to half of the model's limit; the context has what is left.
        """
        if self.limit:
            most_tokens = min(most_tokens, self.limit // 2)
        cut_texts = {
            text: self._cut(text, most_tokens) for text in dict.fromkeys(texts)
        }
        pairs = [
            (cut_texts[text][0], context)
            for text, context in zip(texts, contexts, strict=True)
        ]
        rows = self.rows(
            pairs,
            self._encoded_pair,
            lambda inputs: self.model(**inputs).logits,
            most_tokens,
        )
        labels = []
        for text, pair, logits in zip(texts, pairs, rows, strict=True):
            words, word_of_token = self._words(pair[0])
            sums = self.bias.repeat(len(words), 1)
            for token, word in word_of_token:
                sums[word] += torch.from_numpy(logits[token]) - self.bias
            whole = len(self.ids(pair)['input_ids'])
            over = max(0, whole - self.limit) if self.limit else 0
            cut = over + cut_texts[text][1]
            labels.append(WordLabels(words, sums.softmax(-1).numpy(), cut))
        return labels

    def _cut(self, text: str, most_tokens: int) -> tuple[str, int]:
        """
        Return a text cut to a number of tokens, and how many it has lost.
        """
        ids = self.ids((text,))['input_ids']
        if len(ids) <= most_tokens:
            return text, 0
        kept = self.tokenizer.decode(ids[:most_tokens], skip_special_tokens=True)
        return ' '.join(kept.split()), len(ids) - most_tokens

    def _encoded_pair(self, pair: tuple[str, str]) -> Encoded:
        return self.ids(
            pair,
            truncation='only_second' if self.limit else False,
            max_length=self.limit,
        )

    def _words(self, text: str) -> tuple[tuple[str, ...], list[tuple[int, int]]]:
        """
        Return the words of a text, and for each of its tokens its place among those of
        the model's input and the word that it belongs to.
        """
        words_until = [0]  # how many words have begun before or at each character
        for before, character in zip(f' {text}', text, strict=False):
            begins = before.isspace() and not character.isspace()
            words_until.append(words_until[-1] + begins)
        encoded = self.tokenizer(
            text,
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
            split_special_tokens=True,
            verbose=False,
        )
        places = []
        for token, (start, stop) in enumerate(encoded['offset_mapping']):
            # a token of the blank before a word alone covers no character
            until = stop if stop > start else min(start + 1, len(text))
            word = words_until[until] - 1
            if word >= 0 and not encoded['special_tokens_mask'][token]:
                places.append((token, word))
        return tuple(text.split()), places
