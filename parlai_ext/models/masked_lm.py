"""
Masked language models: how likely is each token of a text, when it alone is hidden?
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import content_id
from parlai_ext.models.encoders import TextModel
from parlai_ext.systems.pretrained import surrounding_tokens

HEADS = ('lm_head', 'cls')  # the output layers of RoBERTa and BERT


@dataclass(frozen=True)
class MaskedLogprobs:
    """
    Natural-log probabilities of the tokens of a text, each hidden by itself.

    :param before: of the tokens before the text, those that were read.
    :param text: of the tokens of the text.
    :param cut: how many tokens were not read.
    """

    before: tuple[float, ...]
    text: tuple[float, ...]
    cut: int


class MaskedLanguageModel(TextModel):
    """
    Gives each token of a text its probability where that token is replaced by the mask
    and all others are seen (Salazar et al. 2020 call their sum a pseudo-likelihood).

    :raises UserError: when the tokenizer has no mask.
    """

    signed = {'masked': 'one token at a time', 'dtype': 'float32'}

    def __init__(self, *args: Any):
        super().__init__(*args)
        if self.tokenizer.mask_token_id is None:
            raise UserError('its tokenizer has no mask; it is no masked language model')

    @torch.inference_mode()
    def masked_logprobs(
        self,
        befores: Sequence[str],
        texts: Sequence[str],
        most_tokens: int | None = None,
        with_before: bool = True,
    ) -> list[MaskedLogprobs]:
        """
        Return the log-probabilities of each text, which stands after another one.

        :param befores: what stands before each text; tokenized by itself.
        :param most_tokens: only so many tokens at the end of text and end token are
            read.
        :param with_before: hide the tokens before the text, too.
        """
        pairs = list(zip(befores, texts, strict=True))
        different = list(dict.fromkeys(pairs))
        known = {}
        for pair in different:
            key = content_id(self.signature, pair, most_tokens, with_before)
            stored = self.watch.get(key)
            if stored is None:
                stored = self._logprobs(*pair, most_tokens, with_before)
                self.watch.put(key, stored)
            before, text, cut = stored
            known[pair] = MaskedLogprobs(tuple(before), tuple(text), cut)
            self.watch.tell(1, len(different))
        return [known[pair] for pair in pairs]

    def _logprobs(
        self, before: str, text: str, most_tokens: int | None, with_before: bool
    ) -> tuple[list[float], list[float], int]:
        """
        Return the fields of a `MaskedLogprobs`.
        """
        first, second = self.text_ids(before), self.text_ids(text)
        begin, end = surrounding_tokens(self.tokenizer)
        whole = torch.tensor([*begin, *first, *second, *end])
        # the token at the very beginning is never hidden, whichever it is
        limits = [n for n in (self.limit, most_tokens) if n]
        cut = max(0, len(whole) - min(limits, default=len(whole)))
        whole = whole[cut:]
        stop = len(whole) - len(end)
        start_of_text = max(1, stop - len(second))
        start = 1 if with_before else start_of_text
        logprobs = self._hidden_one_by_one(whole, range(start, stop))
        num_before = start_of_text - start
        # the begin token among those that were cut is none of the texts' tokens
        return (
            logprobs[:num_before],
            logprobs[num_before:],
            max(0, cut - len(begin)),
        )

    def _hidden_one_by_one(self, ids: torch.Tensor, places: range) -> list[float]:
        """
        Return the log-probability of the token in each of these places.
        """
        logprobs: list[float] = []
        rows = max(1, self.tokens // len(ids))
        for at in range(0, len(places), rows):
            some = torch.tensor(places[at : at + rows])
            inputs = ids.repeat(len(some), 1)
            inputs[range(len(some)), some] = self.tokenizer.mask_token_id
            hidden = self._logits_at(inputs, some).float().log_softmax(-1).cpu()
            logprobs += hidden[range(len(some)), ids[some]].tolist()
        return logprobs

    def _logits_at(self, inputs: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """
        Return the logits of one place of each row; where the output layer is known,
        the others do not go through it.
        """
        inputs = inputs.to(self.device)
        rows, mask = range(len(inputs)), torch.ones_like(inputs)
        names = [name for name in HEADS if hasattr(self.model, name)]
        if not names:
            return self.model(inputs, attention_mask=mask).logits[rows, places]
        states = self.model.base_model(inputs, attention_mask=mask)[0]
        return getattr(self.model, names[0])(states[rows, places])
