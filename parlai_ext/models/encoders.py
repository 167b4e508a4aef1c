"""
Hugging Face encoders that read texts in batches of similar length: sentence embeddings
(token vectors averaged) and sequence classifiers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from parlai_ext.core.nouns import content_id
from parlai_ext.core.signature import signature_line
from parlai_ext.core.watch import NO_WATCH, Watch
from parlai_ext.systems import hub
from parlai_ext.systems.pretrained import BOUNDLESS, read

TOKENS = 16_384  # in one forward pass, padding counted
OFFSET = {'roberta', 'xlm-roberta', 'camembert'}  # positions begin after the padding
MULTI_LABEL = 'multi_label_classification'
Texts = tuple[str, ...]  # one text, or a pair


class TextModel:
    """
    Tokenizer and weights in float32; `signature` fixes the numbers they give.

    :cvar signed: what the signature says besides the content of the files.
    """

    signed: ClassVar[Mapping[str, str]] = {}
    watch: Watch = NO_WATCH

    def __init__(
        self, folder: Path, kind: Any, device: torch.device, tokens: int = TOKENS
    ):
        allowed = ', which no model of a scorer may run'
        extra = {'dtype': torch.float32}
        config, self.tokenizer, self.model = read(
            folder, device, extra, allowed=allowed, kind=kind
        )
        self.device = device
        self.tokens = tokens
        self.limit = _limit(config, self.tokenizer)
        self.signature = signature_line(
            {
                'model': type(self.model).__name__,
                'content': hub.files_hash(folder),
                'text_truncate': self.limit,
                **self.signed,
            }
        )

    @property
    def num_parameters(self) -> int:
        """
        How many weights the model has.
        """
        return sum(weight.numel() for weight in self.model.parameters())

    def by_batch(
        self,
        texts: Sequence[Texts],
        compute: Callable[[dict[str, torch.Tensor]], torch.Tensor],
    ) -> list[np.ndarray]:
        """
        Return one row for each text (or pair). Equal texts are computed once; a batch
        holds texts of similar length.
        """
        different = list(dict.fromkeys(texts))
        encoded = {text: self._encoded(text) for text in different}
        order = sorted(different, key=lambda text: len(encoded[text]['input_ids']))
        rows: dict[Texts, np.ndarray] = {}
        start = 0
        while start < len(order):
            stop = start + 1
            while stop < len(order) and self.tokens >= (stop + 1 - start) * len(
                encoded[order[stop]]['input_ids']
            ):
                stop += 1
            batch = order[start:stop]
            key = content_id(self.signature, batch)
            kept = self.watch.get(key)
            if kept is None:
                inputs = self.tokenizer.pad(
                    [encoded[text] for text in batch], return_tensors='pt'
                )
                output = compute({key: v.to(self.device) for key, v in inputs.items()})
                values = output.float().cpu().numpy()
                if self.watch.keeps:
                    self.watch.put(key, values.tolist())
            else:
                values = np.array(kept, np.float32)
            rows |= dict(zip(batch, values, strict=True))
            self.watch.tell(len(batch), len(order))
            start = stop
        return [rows[text] for text in texts]

    def num_tokens_over_limit(self, texts: Sequence[Texts]) -> list[int]:
        """
        Return how many tokens of each text (or pair) are beyond the model's limit and
        not read.
        """
        if self.limit is None:
            return [0] * len(texts)
        lengths = {
            text: len(self._tokens(text)['input_ids']) for text in dict.fromkeys(texts)
        }
        return [max(0, lengths[text] - self.limit) for text in texts]

    def _encoded(self, text: Texts) -> dict[str, list[int]]:
        return self._tokens(text, truncation=bool(self.limit), max_length=self.limit)

    def _tokens(self, text: Texts, **how: Any) -> dict[str, list[int]]:
        tokens: dict[str, list[int]] = self.tokenizer(
            *text, split_special_tokens=True, verbose=False, **how
        )
        return tokens


class MeanPooling(TextModel):
    """
    Maps a text to the mean of its last hidden states, in float32.

    Texts longer than the model takes are cut at their end; `cut_tokens` counts.
    """

    signed = {'pooling': 'mean', 'dtype': 'float32'}

    @torch.inference_mode()
    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """
        Return one float32 row for each text.
        """
        rows = self.by_batch([(text,) for text in texts], self._pooled)
        width = int(self.model.config.hidden_size)
        return np.stack(rows) if rows else np.zeros((0, width), np.float32)

    def cut_tokens(self, texts: Sequence[str]) -> list[int]:
        """
        Return how many tokens of each text are too many for the model.
        """
        return self.num_tokens_over_limit([(text,) for text in texts])

    def _pooled(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """
        Return the mean of the last hidden states of each text, padding left out.
        """
        states = self.model(**inputs).last_hidden_state
        mask = inputs['attention_mask'].unsqueeze(-1).to(states.dtype)
        return (states * mask).sum(1) / mask.sum(1).clamp(min=1e-9)


class SequenceClassifier(TextModel):
    """
    Gives the probability of each label: they sum to 1, or, of a model whose labels do
    not exclude each other, each is a probability of its own.
    """

    signed = {'dtype': 'float32'}

    @property
    def labels(self) -> tuple[str, ...]:
        """
        The labels, in the order of the columns.
        """
        names = self.model.config.id2label
        return tuple(str(names[i]) for i in range(len(names)))

    @torch.inference_mode()
    def probabilities(
        self, texts: Sequence[str], seconds: Sequence[str] | None = None
    ) -> np.ndarray:
        """
        Return one row for each text (or pair of texts), one column for each label.
        """
        rows = self.by_batch(_pairs(texts, seconds), self._rows)
        return np.stack(rows) if rows else np.zeros((0, len(self.labels)), np.float32)

    def cut_tokens(
        self, texts: Sequence[str], seconds: Sequence[str] | None = None
    ) -> list[int]:
        """
        Return how many tokens of each text (or pair) are too many for the model.
        """
        return self.num_tokens_over_limit(_pairs(texts, seconds))

    def _rows(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """
        Return the probabilities of the labels of each text: independent ones for a
        multi-label model, else of sum 1.
        """
        logits = self.model(**inputs).logits
        if self.model.config.problem_type == MULTI_LABEL or logits.shape[1] == 1:
            return logits.sigmoid()
        return logits.softmax(-1)


def _pairs(texts: Sequence[str], seconds: Sequence[str] | None) -> list[Texts]:
    """
    Return each text, or each pair of a text and its second, as a tuple.
    """
    if seconds is None:
        return [(text,) for text in texts]
    return list(zip(texts, seconds, strict=True))


def _limit(config: Any, tokenizer: Any) -> int | None:
    """
    Return how many tokens a model takes; `None` where nothing limits them.
    """
    positions = getattr(config, 'max_position_embeddings', None)
    if positions is not None and config.model_type in OFFSET:
        positions -= (config.pad_token_id or 0) + 1
    limits = (positions, tokenizer.model_max_length)
    return min((n for n in limits if n and n < BOUNDLESS), default=None)
