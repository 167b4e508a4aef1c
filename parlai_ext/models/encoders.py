"""
The encoders that a scorer may ask for. Those of Hugging Face read texts in batches of
similar length: sentence embeddings (token vectors averaged), sequence classifiers,
regressors, the features of a context and a response, masked language models, and labels
of words. A classifier may also be a network of words.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
import transformers
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import load_file
from torch.nn import functional
from transformers.utils import is_protobuf_available, is_sentencepiece_available

from parlai_ext.core import (
    UserError,
    bytes_hash,
    chunks,
    computed_once,
    content_id,
    first_line,
    frozen,
    parse_json,
    signature_line,
)
from parlai_ext.core.records import record_from_json
from parlai_ext.models.fast_linear import quicken
from parlai_ext.models.watch import NO_WATCH, Watch
from parlai_ext.systems import hub
from parlai_ext.systems.catalogue.conversions import CONFIG, WEIGHTS, WORDS
from parlai_ext.systems.pretrained import (
    read,
    smallest_limit,
    surrounding_tokens,
)
from parlai_ext.systems.safe.load import bounded_cost

TOKENS = 16_384  # in one forward pass, padding counted
# of them, with which a processor and a GPU are about as fast a token as with more; such
# a pass takes in no input that is PADDED times as long as its shortest
ENOUGH, ENOUGH_ON_GPU = 256, 4096
PADDED = 1.15
OFFSET = {'roberta', 'xlm-roberta', 'camembert'}  # positions begin after the padding
MULTI_LABEL = 'multi_label_classification'
SEPARATOR = '[SEPT]'  # between the turns that DEnsity's response selectors read
Texts = tuple[str, ...]  # one text, or a pair
Encoded = dict[str, list[int]]
Inputs = dict[str, torch.Tensor]
Compute = Callable[[Inputs], torch.Tensor]
Input = TypeVar('Input', bound=Hashable)

# Checkpoints of BLEURT in the format of bleurt-pytorch have the architecture of BERT
# or, where word embeddings are narrower than the layers (BLEURT-20 and its distilled
# forms), of RemBERT; only the weights have other names.
BLEURT = 'bleurt'
PACKAGES = {
    'sentencepiece': is_sentencepiece_available,
    'google.protobuf': is_protobuf_available,
}
INSTALL = "pip install 'parlai_ext[metrics]'"
OWN = ('architectures', 'model_type', 'embedding_size', 'position_embedding_type')
PROJECTION = {
    r'^bleurt\.encoder\.embedding_projection\.': (
        'rembert.encoder.embedding_hidden_mapping_in.'
    ),
    r'^bleurt\.': 'rembert.',
}


@frozen
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

    :cvar loader: the class that reads the weights, as transformers' do.
    :cvar renamed: patterns of other names that published checkpoints have for weights,
        and what these become.
    :cvar signed: what the signature says besides the content of the files.
    """

    loader: Any = transformers.AutoModel
    renamed: Mapping[str, str] | None = None
    signed: Mapping[str, str] = {}
    watch: Watch = NO_WATCH

    def __init__(self, folder: Path, device: torch.device, tokens: int = TOKENS):
        extra = {'dtype': torch.float32, 'key_mapping': self.renamed}
        config, self.tokenizer, self.model = read(
            folder, device, extra, kind=self.loader
        )
        quicken(self.model)
        self.num_parameters = self.model.num_parameters()
        self.device = device
        self.tokens = tokens
        positions = getattr(config, 'max_position_embeddings', None)
        if positions is not None and config.model_type in OFFSET:
            positions -= (config.pad_token_id or 0) + 1
        # `None` where nothing limits the tokens that the model takes
        self.limit = smallest_limit(positions, self.tokenizer.model_max_length)
        self.signature = signature_line(
            {
                'model': type(self.model).__name__,
                'content': hub.files_hash(folder),
                'text_truncate': self.limit,
                **self.signed,
                'dtype': 'float32',
            }
        )

    def text_rows(
        self,
        texts: Sequence[str],
        seconds: Sequence[str] | None,
        compute: Compute,
        most_tokens: int | None = None,
    ) -> list[np.ndarray]:
        """
        Return one row for each text (or pair of texts), as `rows` does.

        :param most_tokens: texts are cut to so many tokens, where that is less than the
            model's limit.
        """
        inputs: list[Texts] = [(text,) for text in texts]
        if seconds is not None:
            inputs = list(zip(texts, seconds, strict=True))
        return self.rows(
            inputs, lambda text: self.cut_ids(text, most_tokens), compute, most_tokens
        )

    def rows(
        self,
        inputs: Sequence[Input],
        encode: Callable[[Input], Encoded],
        compute: Compute,
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
        keeper = self.watch if kept_by_watch else NO_WATCH

        def forward(batch: Sequence[Input]) -> np.ndarray:
            tensors = self.tokenizer.pad(
                [encoded[one] for one in batch], return_tensors='pt'
            )
            with torch.inference_mode():
                output = compute({k: v.to(self.device) for k, v in tensors.items()})
            return np.asarray(output.float().cpu().numpy())

        rows: dict[Input, np.ndarray] = {}
        for batch in self._batches(encoded):
            values = keeper.results(
                content_id(self.signature, how, batch),
                partial(forward, batch),
                np.ndarray.tolist,
                partial(np.array, dtype=np.float32),
            )
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
        widths = {one: len(ids['input_ids']) for one, ids in encoded.items()}
        enough = ENOUGH if self.device.type == 'cpu' else ENOUGH_ON_GPU
        batch: list[Input] = []
        for one in sorted(widths, key=widths.__getitem__):
            width, shortest = widths[one], widths[batch[0]] if batch else 0
            padded = width > PADDED * shortest and width * len(batch) >= enough
            if batch and (padded or width * (len(batch) + 1) > self.tokens):
                yield batch
                batch = []
            batch.append(one)
        if batch:
            yield batch

    def cut_tokens(self, texts: Sequence[str]) -> list[int]:
        """
        Return how many tokens of each text are beyond the model's limit, and not read.
        """
        num_beyond = cache(self.num_beyond)
        return [num_beyond((text,)) for text in texts]

    def num_beyond(self, text: Texts) -> int:
        """
        Return how many tokens of a text (or pair) are beyond the model's limit.
        """
        if self.limit is None:
            return 0
        return max(0, len(self.ids(text)['input_ids']) - self.limit)

    def cut_ids(self, text: Texts, most_tokens: int | None = None) -> Encoded:
        """
        Return the tokens of a text (or pair) that the model reads.
        """
        most = smallest_limit(most_tokens, self.limit)
        return self.ids(text, truncation=bool(most), max_length=most)

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

    signed = {'pooling': 'mean'}

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """
        Return one float32 row for each text.
        """

        def pooled(inputs: Inputs) -> torch.Tensor:
            states = self.model(**inputs).last_hidden_state
            mask = inputs['attention_mask'].unsqueeze(-1).to(states.dtype)
            return (states * mask).sum(1) / mask.sum(1).clamp(min=1e-9)

        return self.matrix(self.text_rows(texts, None, pooled))

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
            [(text,) for text in texts],
            self.cut_ids,
            lambda inputs: self.model(**inputs).pooler_output,
            'pooler',
        )
        return self.matrix(rows)

    def token_vectors(self, texts: Sequence[str], layer: int) -> list[TokenVectors]:
        """
        Return the hidden states of the tokens of each text.

        :param layer: the layer that gives them, from 1; 0 is the last one.
        :raises UserError: when the model has fewer layers.
        """
        n_layers = int(self.model.config.num_hidden_layers)
        if layer > n_layers:
            raise UserError(f'layer {layer}: the encoder has {n_layers} layers')

        def states(inputs: Inputs) -> torch.Tensor:
            output = self.model(**inputs, output_hidden_states=True)
            # the first are the embeddings, before any layer
            return output.hidden_states[layer or n_layers]

        encoded = {text: self.cut_ids((text,)) for text in dict.fromkeys(texts)}
        rows = self.rows(texts, encoded.__getitem__, states, kept_by_watch=False)
        left = self.tokenizer.padding_side == 'left'
        ends = (self.tokenizer.cls_token_id, self.tokenizer.sep_token_id)
        vectors = []
        for text, padded in zip(texts, rows, strict=True):
            ids = encoded[text]['input_ids']
            own = padded[len(padded) - len(ids) :] if left else padded[: len(ids)]
            of_text = np.array([token not in ends for token in ids], bool)
            vectors.append(TokenVectors(own, of_text))
        return vectors


class SequenceClassifier(TextModel):
    """
    Gives the probability of each label: they sum to 1, or, of a model whose labels do
    not exclude each other, each is a probability of its own.
    """

    loader = transformers.AutoModelForSequenceClassification

    @property
    def labels(self) -> tuple[str, ...]:
        """
        The labels, in the order of the columns.
        """
        names = self.model.config.id2label
        return tuple(str(names[i]) for i in range(len(names)))

    def probabilities(
        self,
        texts: Sequence[str],
        seconds: Sequence[str] | None = None,
        most_tokens: int | None = None,
    ) -> np.ndarray:
        """
        Return one row for each text (or pair of texts), one column for each label:
        independent probabilities for a multi-label model, else of sum 1.

        :param most_tokens: longer texts are cut; of a pair the longer one.
        """

        def normalised(inputs: Inputs) -> torch.Tensor:
            logits = self.model(**inputs).logits
            if self.model.config.problem_type == MULTI_LABEL or logits.shape[1] == 1:
                return logits.sigmoid()
            return logits.softmax(-1)

        rows = self.text_rows(texts, seconds, normalised, most_tokens)
        return np.array(rows, np.float32).reshape(-1, len(self.labels))


class BleurtConfig(transformers.PreTrainedConfig):
    """
    The config of a checkpoint whose ``model_type`` is ``bleurt``.
    """

    model_type = BLEURT


class BleurtSPTokenizer(transformers.DebertaV2Tokenizer):
    """
    The name that checkpoints of BLEURT-20 give to their SentencePiece tokenizer.
    """

    @classmethod
    def from_pretrained(  # type: ignore[override]
        cls, folder: Any, *args: Any, **arguments: Any
    ) -> Any:
        """
        Read the tokenizer as DeBERTa's, which it is.

        transformers reads the file of SentencePiece with the class of DeBERTa itself
        only; that of a subclass it reads otherwise.

        :raises ValueError: when a package that reads it is missing.
        """
        whole = (Path(folder) / 'tokenizer.json').is_file()
        for package, is_there in PACKAGES.items():
            if not whole and not is_there():
                raise ValueError(f'{package} is not installed; {INSTALL}')
        return transformers.DebertaV2Tokenizer.from_pretrained(
            folder, *args, **arguments
        )


transformers.AutoConfig.register(BLEURT, BleurtConfig, exist_ok=True)
transformers.AutoTokenizer.register(
    BleurtConfig, fast_tokenizer_class=BleurtSPTokenizer, exist_ok=True
)


class SequenceRegression:
    """
    Reads a sequence classifier: any that transformers knows, or a BLEURT.
    """

    @staticmethod
    def from_pretrained(folder: Path, config: Any, **arguments: Any) -> Any:
        """
        Read a model as ``AutoModelForSequenceClassification.from_pretrained`` does.
        """
        if config.model_type != BLEURT:
            kind: Any = transformers.AutoModelForSequenceClassification
            return kind.from_pretrained(folder, config=config, **arguments)
        values = {k: v for k, v in config.to_dict().items() if k not in OWN}
        values['num_labels'] = 1
        narrow = getattr(config, 'embedding_size', None)
        known: Any
        # their modules are imported here, since they load half of torch's compiler
        if narrow is None:
            arguments |= {'key_mapping': {r'^bleurt\.': 'bert.'}}
            known = transformers.BertConfig(**values)
            kind = transformers.BertForSequenceClassification
        else:
            arguments |= {'key_mapping': PROJECTION}
            known = transformers.RemBertConfig(**values, input_embedding_size=narrow)
            kind = transformers.RemBertForSequenceClassification
        return kind.from_pretrained(folder, config=known, **arguments)


class SequenceRegressor(TextModel):
    """
    Gives one number for a text or a pair of texts: the only output of a sequence
    classifier's head, as it is.

    :raises UserError: when the model has other than one output.
    """

    loader = SequenceRegression
    signed = {'output': 'logit'}

    def __init__(self, *args: Any):
        super().__init__(*args)
        outputs = self.model.config.num_labels
        if outputs != 1:
            raise UserError(f'a regressor has one output; this model has {outputs}')

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

    renamed = {r'^model\.': ''}  # of DEnsity
    signed = {'pooling': 'first token'}

    def features(
        self, pairs: Sequence[tuple[Texts, str]], most_tokens: int
    ) -> tuple[np.ndarray, list[int]]:
        """
        Return one float32 row for each context and response, and how many tokens of
        each are not read.

        :param most_tokens: of context and response together; the context loses its
            beginning, or, where that is not enough, the response its end.
        :raises UserError: when the tokenizer has no token between turns.
        """

        encoded = {pair: self._encode_pair(*pair, most_tokens) for pair in pairs}
        rows = self.rows(
            pairs,
            lambda pair: encoded[pair][0],
            lambda inputs: self.model(**inputs).last_hidden_state[:, 0],
            [SEPARATOR, most_tokens],
        )
        return self.matrix(rows), [encoded[pair][1] for pair in pairs]

    def _encode_pair(
        self, context: Texts, response: str, most_tokens: int
    ) -> tuple[Encoded, int]:
        """
        Return the tokens of a pair, and how many were cut.
        """
        if SEPARATOR not in self.tokenizer.all_special_tokens:
            raise UserError(f'its tokenizer has no special token {SEPARATOR!r}')
        between = self.tokenizer.convert_tokens_to_ids(SEPARATOR)
        before: list[int] = []
        for turn in context:
            before += [*([between] if before else []), *self.text_ids(turn)]
        after = self.text_ids(response)
        begin, end = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        room = (smallest_limit(most_tokens, self.limit) or 0) - 3
        kept_after = after[:room]
        kept_before = before[max(0, len(before) - (room - len(kept_after))) :]
        cut = len(before) + len(after) - len(kept_before) - len(kept_after)
        ids = [begin, *kept_before, end, *kept_after, end]
        return {'input_ids': ids, 'attention_mask': [1] * len(ids)}, cut


# --- masked language models: how likely is each token, when it alone is hidden? -------

HEADS = ('lm_head', 'cls')  # the output layers of RoBERTa and BERT


@frozen
class MaskedLogprobs:
    """
    Natural-log probabilities of tokens, each hidden by itself.

    :param cut: how many tokens were not read.
    """

    logprobs: tuple[float, ...]
    cut: int


class MaskedLanguageModel(TextModel):
    """
    Gives each token of a text its probability where that token is replaced by the mask
    and all others are seen (Salazar et al. 2020 call their sum a pseudo-likelihood).

    :raises UserError: when the tokenizer has no mask.
    """

    loader = transformers.AutoModelForMaskedLM
    signed = {'masked': 'one token at a time'}

    def __init__(self, *args: Any):
        super().__init__(*args)
        if self.tokenizer.mask_token_id is None:
            raise UserError('its tokenizer has no mask; it is no masked language model')

    @torch.inference_mode()
    def masked_logprobs(
        self,
        befores: Sequence[str],
        texts: Sequence[str],
        most_tokens: int,
        with_before: bool,
    ) -> list[MaskedLogprobs]:
        """
        Return the log-probabilities of each text, which stands after another one.

        :param befores: what stands before each text; tokenized by itself.
        :param most_tokens: only so many tokens at the end of text and end token are
            read.
        :param with_before: hide the tokens before the text, too.
        """

        def masked(pairs: Sequence[tuple[str, str]]) -> Iterator[MaskedLogprobs]:
            for pair in pairs:
                logprobs, cut = self.watch.results(
                    content_id(self.signature, pair, most_tokens, with_before),
                    partial(self._logprobs, *pair, most_tokens, with_before),
                )
                self.watch.tell(1, len(pairs))
                yield MaskedLogprobs(tuple(logprobs), cut)

        return computed_once(masked, list(zip(befores, texts, strict=True)))

    def _logprobs(
        self, before: str, text: str, most_tokens: int, with_before: bool
    ) -> tuple[list[float], int]:
        """
        Return the fields of a `MaskedLogprobs`.
        """
        first, second = self.text_ids(before), self.text_ids(text)
        begin, end = surrounding_tokens(self.tokenizer)
        whole = torch.tensor([*begin, *first, *second, *end])
        cut = max(0, len(whole) - (smallest_limit(most_tokens, self.limit) or 0))
        whole = whole[cut:]
        stop = len(whole) - len(end)
        # the token at the very beginning is never hidden, whichever it is
        start = 1 if with_before else max(1, stop - len(second))
        n_rows = max(1, self.tokens // len(whole))
        logprobs: list[float] = []
        for first_hidden in range(start, stop, n_rows):
            places = torch.arange(first_hidden, min(first_hidden + n_rows, stop))
            logprobs += self._hidden_logprobs(whole, places)
        # the begin token among those that were cut is none of the texts' tokens
        return logprobs, max(0, cut - len(begin))

    def _hidden_logprobs(
        self, whole: torch.Tensor, places: torch.Tensor
    ) -> list[float]:
        """
        Return the log-probability of each token at these places, where it is hidden and
        all others are seen.
        """
        rows, inputs = range(len(places)), whole.repeat(len(places), 1)
        inputs[rows, places] = self.tokenizer.mask_token_id
        inputs = inputs.to(self.device)
        mask = torch.ones_like(inputs)
        heads = [name for name in HEADS if hasattr(self.model, name)]
        if heads:  # other places do not go through an output layer that is known
            states = self.model.base_model(inputs, attention_mask=mask)[0]
            logits = getattr(self.model, heads[0])(states[rows, places])
        else:
            logits = self.model(inputs, attention_mask=mask).logits[rows, places]
        hidden = logits.float().log_softmax(-1).cpu()
        return hidden[rows, whole[places]].tolist()


# --- token classifiers asked about words: which label has each word of a text? --------


@frozen
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

    loader = transformers.AutoModelForTokenClassification
    # of CTC
    renamed = {r'^_roberta\.': 'roberta.', r'^_classifier\.': 'classifier.'}
    signed = {'words': 'sum of token states'}

    def __init__(self, *args: Any):
        super().__init__(*args)
        head = getattr(self.model, 'classifier', None)
        if not isinstance(head, torch.nn.Linear):
            raise UserError('the labels of words need a classifier of one linear layer')
        self.bias = head.bias.detach().float().cpu()

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
        cut_text = cache(self._cut_text)
        cut_texts = [cut_text(text, most_tokens) for text in texts]
        pairs = [
            (text, context)
            for (text, _), context in zip(cut_texts, contexts, strict=True)
        ]
        truncation = 'only_second' if self.limit else False
        rows = self.rows(
            pairs,
            partial(self.ids, truncation=truncation, max_length=self.limit),
            lambda inputs: self.model(**inputs).logits,
            most_tokens,
        )
        labels = []
        for (text, beyond), pair, logits in zip(cut_texts, pairs, rows, strict=True):
            words, word_of_token = self._words(text)
            sums = self.bias.repeat(len(words), 1)
            for token, word in word_of_token:
                sums[word] += torch.from_numpy(logits[token]) - self.bias
            cut = self.num_beyond(pair) + beyond
            labels.append(WordLabels(words, sums.softmax(-1).numpy(), cut))
        return labels

    def _cut_text(self, text: str, most_tokens: int) -> tuple[str, int]:
        """
        Return a text without its last tokens, and how many these are.
        """
        ids = self.ids((text,))['input_ids']
        if len(ids) <= most_tokens:
            return text, 0
        kept = self.tokenizer.decode(ids[:most_tokens], skip_special_tokens=True)
        return ' '.join(kept.split()), len(ids) - most_tokens

    def _words(self, text: str) -> tuple[tuple[str, ...], list[tuple[int, int]]]:
        """
        Return the words of a text, and for each of its tokens its place among those of
        the model's input and the word that it belongs to.
        """
        words = list(re.finditer(r'\S+', text))
        starts = [word.start() for word in words]
        encoded: Any = self.ids(
            (text,), return_offsets_mapping=True, return_special_tokens_mask=True
        )
        places = []
        for token, (start, stop) in enumerate(encoded['offset_mapping']):
            # a token of the blank before a word alone covers no character
            until = stop if stop > start else start + 1
            word = bisect_left(starts, until) - 1
            if word >= 0 and not encoded['special_tokens_mask'][token]:
                places.append((token, word))
        return tuple(word.group() for word in words), places


# --- a network of words ---------------------------------------------------------------

BATCH = 256  # texts in one forward pass: all are padded to one length
KERAS_PARTS = {'weight_ih': 'kernel', 'weight_hh': 'recurrent', 'bias_ih': 'bias'}


@frozen
class _Config:
    """
    The settings of a network, as its folder has them.
    """

    labels: tuple[str, ...]
    length: int
    lower: bool
    filters: str


class WordBiLSTM:
    """
    Gives each text the probability of each label; labels do not exclude each other.

    Words that the network does not know are left out. Of a longer text, its last words
    are read.
    """

    watch: Watch = NO_WATCH

    def __init__(self, folder: Path, device: torch.device):
        try:
            config = record_from_json(
                _Config, parse_json((folder / CONFIG).read_bytes())
            )
            words = (folder / WORDS).read_text('utf-8').removesuffix('\n').split('\n')
            weights = load_file(folder / WEIGHTS)
            with bounded_cost(folder):
                self.lstm = lstm_of_keras(weights).to(device).eval()
        except (OSError, KeyError, ValueError, RuntimeError, SafetensorError) as error:
            raise UserError(
                f'hf_model: {folder} holds no network of words: {first_line(error)}'
            ) from None
        self.config, self.labels = config, config.labels
        self.blanks = str.maketrans(dict.fromkeys(config.filters, ' '))
        self.ids = {word: i for i, word in enumerate(words, 1)}
        self.num_parameters = sum(array.numel() for array in weights.values())
        self.device = device
        self.weights = {name: array.to(device) for name, array in weights.items()}
        self.signature = signature_line(
            {
                'model': type(self).__name__,
                'content': hub.files_hash(folder),
                'text_truncate': config.length,
                'dtype': 'float32',
            }
        )

    @torch.inference_mode()
    def probabilities(self, texts: Sequence[str]) -> np.ndarray:
        """
        Return one row for each text, one column for each label.
        """
        rows = [np.zeros((0, len(self.labels)), np.float32)]
        length, w = self.config.length, self.weights
        for batch in chunks(texts, BATCH):
            word_ids = []
            for text in batch:
                lowered = text.lower() if self.config.lower else text
                words = lowered.translate(self.blanks).split(' ')
                known = [self.ids[word] for word in words if word in self.ids]
                word_ids.append(([0] * length + known)[-length:])  # padded in front
            ids = torch.tensor(word_ids)
            states, _ = self.lstm(w['embedding'][ids.to(self.device)])
            hidden = torch.relu(states.amax(1) @ w['hidden.kernel'] + w['hidden.bias'])
            logits = hidden @ w['output.kernel'] + w['output.bias']
            values: np.ndarray = logits.sigmoid().float().cpu().numpy()
            rows.append(values)
            self.watch.tell(len(batch), len(texts))
        return np.concatenate(rows)


def lstm_of_keras(weights: Mapping[str, torch.Tensor]) -> torch.nn.LSTM:
    """
    Return the two-way LSTM of weights that Keras named.
    """
    inputs, gates = weights['forward.kernel'].shape
    lstm = torch.nn.LSTM(inputs, gates // 4, batch_first=True, bidirectional=True)
    state = {}
    for way, end in (('forward', ''), ('backward', '_reverse')):
        # both order the gates alike (input, forget, cell, output)
        for name, part in KERAS_PARTS.items():
            state[f'{name}_l0{end}'] = weights[f'{way}.{part}'].transpose(0, -1)
        # Keras has one bias where torch adds two
        state[f'bias_hh_l0{end}'] = torch.zeros(gates)
    lstm.load_state_dict(state)
    return lstm


# --- adapters of a sentence encoder ---------------------------------------------------
# An adapter with which a sentence encoder reads a response after its context and gives
# it one number: low-rank changes of its linear layers, and two small layers on what it
# then says of the response. The weights of the encoder stay as they are.

LAST_TURNS = 4  # of a context, which are read
MOST_TOKENS = 144  # of context and response together
RESPONSE_TOKENS = 72  # of these, which the response may take
SCALE = 2.0  # of the low-rank changes
DOWN, UP = '.A', '.B'  # ends of the names of the two matrices of a change
LAYERS = ('hid', 'top')


class ResponseReader:
    """
    The adapter. `content` is the sha256 of its file.

    :param data: a file of tensors: for each linear layer that is changed, by its name,
        ``A`` ``[rank, in]`` and ``B`` ``[out, rank]``; ``hid`` and ``top``, the weights
        and biases of the two layers.
    :raises KeyError: when there is no ``hid`` or ``top``.
    """

    def __init__(self, data: bytes):
        tensors = {name: one.float() for name, one in load_tensors(data).items()}
        self.content = bytes_hash(data)
        self.layers = [
            (tensors[f'{name}.weight'], tensors[f'{name}.bias']) for name in LAYERS
        ]
        self.changes = {
            name.removesuffix(DOWN): (one, tensors[name.removesuffix(DOWN) + UP])
            for name, one in tensors.items()
            if name.endswith(DOWN)
        }

    def numbers(
        self, encoder: MeanPooling, pairs: Sequence[tuple[tuple[str, ...], str]]
    ) -> np.ndarray:
        """
        Return one number for each context and response; higher is better.

        :param encoder: the one that the adapter was learned with.
        """
        device = encoder.device
        layers = [[part.to(device) for part in layer] for layer in self.layers]

        def judged(inputs: Inputs) -> torch.Tensor:
            states = encoder.model(**inputs).last_hidden_state
            both = features(states, inputs, encoder.tokenizer.sep_token_id)
            first, second = layers
            return functional.linear(
                torch.tanh(functional.linear(both, *first)), *second
            )

        with changed_layers(encoder.model, self.changes, device):
            rows = encoder.rows(
                list(pairs), partial(pair_ids, encoder), judged, self.content
            )
        return np.array(rows, np.float32).reshape(len(pairs))


def pair_ids(encoder: MeanPooling, pair: tuple[tuple[str, ...], str]) -> Encoded:
    """
    Return the tokens of a context and a response. Of a long context the end is read.
    """
    tokenizer = encoder.tokenizer
    end = [tokenizer.sep_token_id]

    def text_ids(text: str) -> list[int]:
        # a text cannot end itself
        return [one for one in encoder.text_ids(text.strip()) if one not in end]

    context: list[int] = []
    for turn in [turn for turn in pair[0] if turn.strip()][-LAST_TURNS:]:
        context += [*(end if context else []), *text_ids(turn)]
    response = text_ids(pair[1])[:RESPONSE_TOKENS]
    room = MOST_TOKENS - 4 - len(response)
    ids = [tokenizer.cls_token_id, *context[-room:], *end, *end, *response, *end]
    return {'input_ids': ids, 'attention_mask': [1] * len(ids)}


def features(states: torch.Tensor, inputs: Inputs, end: int) -> torch.Tensor:
    """
    Return ``[pairs, 2 * states]``: the state of the first token and the mean over the
    response, scaled to a mean square of 1.
    """
    weight = response_tokens(inputs, end).unsqueeze(-1).to(states.dtype)
    mean = (states * weight).sum(1) / weight.sum(1)
    both = torch.cat([states[:, 0], mean], dim=1)
    return both / (both.square().mean(1, keepdim=True).sqrt() + 1e-6)


def response_tokens(inputs: Inputs, end: int) -> torch.Tensor:
    """
    Return which tokens are of the response or end it: behind them stands one end token,
    or they are it.
    """
    ends = ((inputs['input_ids'] == end) & (inputs['attention_mask'] == 1)).long()
    behind = ends.flip(1).cumsum(1).flip(1)
    return (behind == 1) & (inputs['attention_mask'] == 1)


@contextmanager
def changed_layers(
    network: Any,
    changes: Mapping[str, tuple[torch.Tensor, torch.Tensor]],
    device: torch.device,
) -> Iterator[None]:
    """
    Let linear layers of a network add their low-rank changes, for a while.

    :raises AttributeError: when the network has no such layer.
    """
    with ExitStack() as hooks:
        for name, (down, up) in changes.items():
            layer = network.get_submodule(name)
            change = partial(_with_change, down.to(device), up.to(device))
            hooks.enter_context(layer.register_forward_hook(change))
        yield


def _with_change(
    down: torch.Tensor, up: torch.Tensor, _layer: Any, given: Any, output: torch.Tensor
) -> torch.Tensor:
    low = functional.linear(given[0], down)
    return output + SCALE * functional.linear(low, up)
