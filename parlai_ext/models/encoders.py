"""
Hugging Face encoders that read texts in batches of similar length: sentence embeddings
(token vectors averaged), sequence classifiers, regressors, and the features of a
context and a response.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import content_id
from parlai_ext.core.signature import signature_line
from parlai_ext.core.watch import NO_WATCH, Watch
from parlai_ext.systems import hub
from parlai_ext.systems.pretrained import BOUNDLESS, read

TOKENS = 16_384  # in one forward pass, padding counted
OFFSET = {'roberta', 'xlm-roberta', 'camembert'}  # positions begin after the padding
MULTI_LABEL = 'multi_label_classification'
Texts = tuple[str, ...]  # one text, or a pair
Encoded = dict[str, list[int]]
Input = TypeVar('Input', bound=Hashable)


@dataclass(frozen=True)
class TokenVectors:
    """
    The tokens of a text as vectors.

    :param rows: float32, one row a token.
    :param of_text: which tokens are of the text; the others begin and end it.
    """

    rows: np.ndarray
    of_text: np.ndarray


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
        self.num_parameters = sum(w.numel() for w in self.model.parameters())
        self.device = device
        self.tokens = tokens
        positions = getattr(config, 'max_position_embeddings', None)
        if positions is not None and config.model_type in OFFSET:
            positions -= (config.pad_token_id or 0) + 1
        limits = (positions, self.tokenizer.model_max_length)
        # `None` where nothing limits the tokens that the model takes
        self.limit = min((n for n in limits if n and n < BOUNDLESS), default=None)
        self.signature = signature_line(
            {
                'model': type(self.model).__name__,
                'content': hub.files_hash(folder),
                'text_truncate': self.limit,
                **self.signed,
            }
        )

    def text_rows(
        self,
        texts: Sequence[str],
        seconds: Sequence[str] | None,
        compute: Callable[[dict[str, torch.Tensor]], torch.Tensor],
        most_tokens: int | None = None,
    ) -> list[np.ndarray]:
        """
        Return one row for each text (or pair of texts), as `rows` does.

        :param most_tokens: texts are cut to so many tokens, where that is less than the
            model's limit.
        """

        return self.rows(
            _pairs(texts, seconds),
            lambda text: self.cut_ids(text, most_tokens),
            compute,
            most_tokens,
        )

    def rows(
        self,
        inputs: Sequence[Input],
        encode: Callable[[Input], Encoded],
        compute: Callable[[dict[str, torch.Tensor]], torch.Tensor],
        how: object = None,
        *,
        kept_by_watch: bool = True,
    ) -> list[np.ndarray]:
        """
        Return one row for each input. Equal inputs are computed once; a batch holds
        inputs of similar length.

        :param encode: makes the token ids (and masks) of an input.
        :param how: JSON data that, with an input, decides its token ids.
        :param kept_by_watch: the rows are small enough to be kept on the disk.
        """
        encoded = {one: encode(one) for one in dict.fromkeys(inputs)}
        rows: dict[Input, np.ndarray] = {}
        for batch in self._batches(encoded):
            key = content_id(self.signature, how, batch)
            stored = self.watch.get(key) if kept_by_watch else None
            if stored is None:
                tensors = self.tokenizer.pad(
                    [encoded[one] for one in batch], return_tensors='pt'
                )
                output = compute({k: v.to(self.device) for k, v in tensors.items()})
                values = output.float().cpu().numpy()
                if self.watch.keeps and kept_by_watch:
                    self.watch.put(key, values.tolist())
            else:
                values = np.array(stored, np.float32)
            rows |= dict(zip(batch, values, strict=True))
            self.watch.tell(len(batch), len(encoded))
        return [rows[one] for one in inputs]

    def matrix(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """
        Return rows of hidden states as one float32 array, also where there are none.
        """
        return np.array(rows, np.float32).reshape(-1, self.model.config.hidden_size)

    def _batches(self, encoded: Mapping[Input, Encoded]) -> Iterator[list[Input]]:
        """
        Yield inputs of similar length, as many as go through the model together.
        """
        order = sorted(encoded, key=lambda one: len(encoded[one]['input_ids']))
        batch: list[Input] = []
        for one in order:
            width = len(encoded[one]['input_ids'])
            if batch and (len(batch) + 1) * width > self.tokens:
                yield batch
                batch = []
            batch.append(one)
        if batch:
            yield batch

    def cut_tokens(
        self,
        texts: Sequence[str],
        seconds: Sequence[str] | None = None,
        most_tokens: int | None = None,
    ) -> list[int]:
        """
        Return how many tokens of each text (or pair) are beyond the model's limit, or
        beyond ``most_tokens``, and not read.
        """
        pairs, most = _pairs(texts, seconds), self.most(most_tokens)
        if most is None:
            return [0] * len(pairs)
        lengths = {
            text: len(self.ids(text)['input_ids']) for text in dict.fromkeys(pairs)
        }
        return [max(0, lengths[text] - most) for text in pairs]

    def cut_ids(self, text: Texts, most_tokens: int | None = None) -> Encoded:
        """
        Return the tokens of a text (or pair) that the model reads.
        """
        most = self.most(most_tokens)
        return self.ids(text, truncation=bool(most), max_length=most)

    def most(self, most_tokens: int | None) -> int | None:
        """
        Return how many tokens are read at most; `None` where nothing limits them.
        """
        return min((n for n in (most_tokens, self.limit) if n), default=None)

    def ids(self, text: Texts, **how: Any) -> Encoded:
        """
        Return the tokens of a text (or pair), with those that begin and end one.
        """
        return self.tokenizer(*text, split_special_tokens=True, verbose=False, **how)

    def text_ids(self, text: str) -> list[int]:
        """
        Return the token ids of a text, without the tokens that begin and end one.
        """
        return self.ids((text,), add_special_tokens=False)['input_ids']


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

        def pooled(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
            states = self.model(**inputs).last_hidden_state
            mask = inputs['attention_mask'].unsqueeze(-1).to(states.dtype)
            return (states * mask).sum(1) / mask.sum(1).clamp(min=1e-9)

        rows = self.text_rows(texts, None, pooled)
        return self.matrix(rows)

    @torch.inference_mode()
    def pooler_states(self, texts: Sequence[str]) -> np.ndarray:
        """
        Return one float32 row for each text: what the model's own pooling layer makes
        of the last hidden state of the first token. A layer that the checkpoint lacks
        is drawn by a fixed seed.

        :raises UserError: when the model has no such layer.
        """
        if getattr(self.model, 'pooler', None) is None:
            raise UserError('the encoder has no pooling layer')
        rows = self.rows(
            _pairs(texts, None),
            self.cut_ids,
            lambda inputs: self.model(**inputs).pooler_output,
            'pooler',
        )
        return self.matrix(rows)

    @torch.inference_mode()
    def token_vectors(self, texts: Sequence[str], layer: int) -> list[TokenVectors]:
        """
        Return the hidden states of the tokens of each text.

        :param layer: the layer that gives them, from 1; 0 is the last one.
        :raises UserError: when the model has fewer layers.
        """
        n_layers = int(self.model.config.num_hidden_layers)
        if layer > n_layers:
            raise UserError(f'layer {layer}: the encoder has {n_layers} layers')

        def states(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
            output = self.model(**inputs, output_hidden_states=True)
            # the first are the embeddings, before any layer
            return output.hidden_states[layer or n_layers]

        encoded = {text: self.cut_ids((text,)) for text in dict.fromkeys(texts)}
        rows = self.rows(
            list(encoded), encoded.__getitem__, states, kept_by_watch=False
        )
        vectors = {
            text: self._token_vectors(encoded[text]['input_ids'], padded)
            for text, padded in zip(encoded, rows, strict=True)
        }
        return [vectors[text] for text in texts]

    def _token_vectors(self, ids: list[int], padded: np.ndarray) -> TokenVectors:
        """
        Return the rows of a text's tokens without those of padding.
        """
        left = self.tokenizer.padding_side == 'left'
        ends = (self.tokenizer.cls_token_id, self.tokenizer.sep_token_id)
        return TokenVectors(
            padded[len(padded) - len(ids) :] if left else padded[: len(ids)],
            np.array([token not in ends for token in ids], bool),
        )


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
        self,
        texts: Sequence[str],
        seconds: Sequence[str] | None = None,
        most_tokens: int | None = None,
    ) -> np.ndarray:
        """
        Return one row for each text (or pair of texts), one column for each label.

        :param most_tokens: longer texts are cut; of a pair the longer one.
        """
        rows = self.text_rows(texts, seconds, self._rows, most_tokens)
        return np.array(rows, np.float32).reshape(-1, len(self.labels))

    def _rows(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """
        Return the probabilities of the labels of each text: independent ones for a
        multi-label model, else of sum 1.
        """
        logits = self.model(**inputs).logits
        if self.model.config.problem_type == MULTI_LABEL or logits.shape[1] == 1:
            return logits.sigmoid()
        return logits.softmax(-1)


class SequenceRegressor(TextModel):
    """
    Gives one number for a text or a pair of texts: the only output of a sequence
    classifier's head, as it is.

    :raises UserError: when the model has other than one output.
    """

    signed = {'output': 'logit', 'dtype': 'float32'}

    def __init__(self, *args: Any):
        super().__init__(*args)
        outputs = self.model.config.num_labels
        if outputs != 1:
            raise UserError(f'a regressor has one output; this model has {outputs}')

    @torch.inference_mode()
    def numbers(
        self, texts: Sequence[str], seconds: Sequence[str] | None = None
    ) -> np.ndarray:
        """
        Return one number for each text (or pair of texts).
        """
        rows = self.text_rows(
            texts, seconds, lambda inputs: self.model(**inputs).logits[:, 0]
        )
        return np.array(rows, np.float32)


class FirstTokenEncoder(TextModel):
    """
    Maps a context and a response to the last hidden state of the first token.

    Turns are separated by a special token. All tokens are of one segment, as in the
    response selectors that are trained so.
    """

    signed = {'pooling': 'first token', 'dtype': 'float32'}

    @torch.inference_mode()
    def features(
        self,
        contexts: Sequence[Texts],
        responses: Sequence[str],
        separator: str,
        most_tokens: int,
    ) -> np.ndarray:
        """
        Return one float32 row for each context and response.

        :param separator: the special token between turns.
        :param most_tokens: of context and response together; the context loses its
            beginning, or, where that is not enough, the response its end.
        :raises UserError: when the tokenizer has no such token.
        """

        def encode(pair: tuple[Texts, str]) -> Encoded:
            ids, _ = self._pair_ids(*pair, separator, most_tokens)
            return {'input_ids': ids, 'attention_mask': [1] * len(ids)}

        pairs = list(zip(map(tuple, contexts), responses, strict=True))
        rows = self.rows(
            pairs,
            encode,
            lambda inputs: self.model(**inputs).last_hidden_state[:, 0],
            [separator, most_tokens],
        )
        return self.matrix(rows)

    def cut_tokens(  # type: ignore[override]  # of contexts and responses
        self,
        contexts: Sequence[Texts],
        responses: Sequence[str],
        separator: str,
        most_tokens: int,
    ) -> list[int]:
        """
        Return how many tokens of each context and response are not read.
        """
        pairs = zip(contexts, responses, strict=True)
        return [self._pair_ids(*pair, separator, most_tokens)[1] for pair in pairs]

    def _pair_ids(
        self, context: Texts, response: str, separator: str, most_tokens: int
    ) -> tuple[list[int], int]:
        """
        Return the token ids of a pair, and how many were cut.
        """
        if separator not in self.tokenizer.all_special_tokens:
            raise UserError(f'its tokenizer has no special token {separator!r}')
        between = self.tokenizer.convert_tokens_to_ids(separator)
        before: list[int] = []
        for turn in context:
            before += [*([between] if before else []), *self.text_ids(turn)]
        after = self.text_ids(response)
        begin, end = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        room = (self.most(most_tokens) or most_tokens) - 3
        kept_after = after[:room]
        kept_before = before[max(0, len(before) - (room - len(kept_after))) :]
        cut = len(before) + len(after) - len(kept_before) - len(kept_after)
        return [begin, *kept_before, end, *kept_after, end], cut


def _pairs(texts: Sequence[str], seconds: Sequence[str] | None) -> list[Texts]:
    """
    Return each text, or each pair of a text and its second, as a tuple.
    """
    if seconds is None:
        return [(text,) for text in texts]
    return list(zip(texts, seconds, strict=True))
