"""
The kinds of encoders that a scorer may ask for, and how the checkpoints of each are
read: as transformers writes them, or as some authors published theirs. Two kinds of
classifiers are none of its: a network of words, and ParlAI's.

Checkpoints of BLEURT in the format of bleurt-pytorch have the architecture of BERT or,
where word embeddings are narrower than the layers (BLEURT-20 and its distilled forms),
of RemBERT; only the weights have other names.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import transformers
from parlai.core.agents import create_agent
from parlai.core.params import ParlaiParser
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    DebertaV2Tokenizer,
    PreTrainedConfig,
    RemBertConfig,
    RemBertForSequenceClassification,
)
from transformers.utils import is_protobuf_available, is_sentencepiece_available

from parlai_ext.compat import prepare_parlai
from parlai_ext.core import (
    System,
    UserError,
    errors_about,
    first_line,
    frozen,
    options_from_opt,
    parse_json,
    signature_line,
)
from parlai_ext.core.records import record_from_json
from parlai_ext.engines import Machine
from parlai_ext.models import encoders
from parlai_ext.models.watch import NO_WATCH, Watch
from parlai_ext.systems import hub
from parlai_ext.systems.catalogue.conversions import CONFIG, MODEL_TYPE, WEIGHTS, WORDS
from parlai_ext.systems.hub import PREFIX, ModelOptions
from parlai_ext.systems.identity import identity
from parlai_ext.systems.parlai_agents import cost_of_model
from parlai_ext.systems.pretrained import chosen_device, fetch_named_weights
from parlai_ext.systems.safe.load import bounded_cost, guarded
from parlai_ext.systems.zoo import fetch_path


def _renamed(kind: Any, names: Mapping[str, str]) -> Any:
    """
    Return a class of transformers that also reads weights with other names.

    :param names: patterns of names in a checkpoint, and what they become.
    """
    read = partial(kind.from_pretrained, key_mapping=names)
    return SimpleNamespace(from_pretrained=read)


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


class BleurtConfig(PreTrainedConfig):
    """
    The config of a checkpoint whose ``model_type`` is ``bleurt``.
    """

    model_type = BLEURT


class BleurtSPTokenizer(DebertaV2Tokenizer):
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
        return DebertaV2Tokenizer.from_pretrained(folder, *args, **arguments)


AutoConfig.register(BLEURT, BleurtConfig, exist_ok=True)
AutoTokenizer.register(
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
            kind: Any = AutoModelForSequenceClassification
            return kind.from_pretrained(folder, config=config, **arguments)
        values = {k: v for k, v in config.to_dict().items() if k not in OWN}
        values['num_labels'] = 1
        narrow = getattr(config, 'embedding_size', None)
        known: Any
        if narrow is None:
            arguments |= {'key_mapping': {r'^bleurt\.': 'bert.'}}
            kind, known = BertForSequenceClassification, BertConfig(**values)
        else:
            arguments |= {'key_mapping': PROJECTION}
            known = RemBertConfig(**values, input_embedding_size=narrow)
            kind = RemBertForSequenceClassification
        return kind.from_pretrained(folder, config=known, **arguments)


# --- classifiers that are none of Hugging Face's -------------------------------------

BATCH = 256  # texts in one forward pass: all are padded to one length


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
                self.lstm = _lstm(weights).to(device).eval()
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
        for start in range(0, len(texts), BATCH):
            batch = [self.word_ids(text) for text in texts[start : start + BATCH]]
            # padded in front
            ids = torch.tensor([([0] * length + known)[-length:] for known in batch])
            states, _ = self.lstm(w['embedding'][ids.to(self.device)])
            hidden = torch.relu(states.amax(1) @ w['hidden.kernel'] + w['hidden.bias'])
            logits = hidden @ w['output.kernel'] + w['output.bias']
            values: np.ndarray = logits.sigmoid().float().cpu().numpy()
            rows.append(values)
            self.watch.tell(len(batch), len(texts))
        return np.concatenate(rows)

    def word_ids(self, text: str) -> list[int]:
        """
        Return the ids of the words of a text that the network knows.
        """
        lowered = text.lower() if self.config.lower else text
        words = lowered.translate(self.blanks).split(' ')
        return [self.ids[word] for word in words if word in self.ids]


def _lstm(weights: Mapping[str, torch.Tensor]) -> torch.nn.LSTM:
    """
    Return the LSTM. Keras and torch order its gates alike (input, forget, cell,
    output); Keras has one bias where torch adds two.
    """
    inputs, gates = weights['forward.kernel'].shape
    lstm = torch.nn.LSTM(inputs, gates // 4, batch_first=True, bidirectional=True)
    parts = {'weight_ih': 'kernel', 'weight_hh': 'recurrent', 'bias_ih': 'bias'}
    state = {
        f'{name}_l0{end}': weights[f'{way}.{part}'].transpose(0, -1)
        for way, end in (('forward', ''), ('backward', '_reverse'))
        for name, part in parts.items()
    }
    for end in ('', '_reverse'):
        state[f'bias_hh_l0{end}'] = torch.zeros(gates)
    lstm.load_state_dict(state)
    return lstm


class ParlaiClassifier:
    """
    Gives each text the probability of each label; they sum to 1.

    :raises UserError: when the file holds another model.
    """

    watch: Watch = NO_WATCH

    def __init__(self, system: System, machine: Machine):
        prepare_parlai()
        opt = {
            **system.opt,
            'model_file': str(fetch_path(system.opt['model_file'])),
            'print_scores': True,
            'datatype': 'valid',
            'batchsize': 1,
            'no_cuda': machine.no_cuda,
        }
        # not `load_system`: it has the options of a ranker, and would need candidates
        with guarded(roster_opt=opt), cost_of_model(opt):  # the file is read as data
            parsed = ParlaiParser(True, True).parse_kwargs(**opt)
            self.agent: Any = create_agent(parsed, requireModelExists=True)
        if not hasattr(self.agent, 'class_list'):
            raise UserError(f'{type(self.agent).__name__} is no classifier')
        self.labels = tuple(map(str, self.agent.class_list))
        self.size = machine.batchsize
        self.signature = f'system={identity(system)}'

    def probabilities(
        self, texts: Sequence[str], seconds: Sequence[str] | None = None
    ) -> np.ndarray:
        """
        Return one row for each text, one column for each label.

        :raises UserError: for pairs of texts, which it cannot read.
        """
        if seconds is not None:
            raise UserError('a classifier of ParlAI reads single texts, not pairs')
        clones = [self.agent.clone() for _ in texts[: self.size]]
        rows: list[np.ndarray] = []
        for start in range(0, len(texts), self.size):
            seen = []
            some = texts[start : start + self.size]
            for clone, text in zip(clones, some, strict=False):
                clone.reset()
                seen.append(clone.observe({'text': text, 'episode_done': True}))
            rows += [np.asarray(act['probs']) for act in self.agent.batch_act(seen)]
            self.watch.tell(len(some), len(texts))
        return np.array(rows, np.float32).reshape(-1, len(self.labels))


# --- encoders by kind -----------------------------------------------------------------

ENCODERS: Mapping[str, tuple[Any, Any]] = {
    'embedder': (encoders.MeanPooling, transformers.AutoModel),
    'classifier': (
        encoders.SequenceClassifier,
        AutoModelForSequenceClassification,
    ),
    'masked_lm': (encoders.MaskedLanguageModel, transformers.AutoModelForMaskedLM),
    'token_classifier': (  # weights named as in the checkpoints of CTC
        encoders.WordClassifier,
        _renamed(
            transformers.AutoModelForTokenClassification,
            {r'^_roberta\.': 'roberta.', r'^_classifier\.': 'classifier.'},
        ),
    ),
    'regressor': (encoders.SequenceRegressor, SequenceRegression),
    'pair_encoder': (  # of DEnsity
        encoders.FirstTokenEncoder,
        _renamed(transformers.AutoModel, {r'^model\.': ''}),
    ),
}


def load_encoder(kind: str, name: str, system: System, machine: Machine) -> Any:
    """
    Return an encoder, or a classifier of another kind.
    """
    with errors_about(f'{kind} {name}'):
        if 'model_file' in system.opt:
            return ParlaiClassifier(system, machine)
        opt = {**system.opt, 'no_cuda': machine.no_cuda}
        options = options_from_opt(ModelOptions, opt, PREFIX)
        folder = fetch_named_weights(options).parent
        device = chosen_device(options)
        found = hub.read_config(folder).get('model_type')
        if (kind, found) == ('classifier', MODEL_TYPE):
            return WordBiLSTM(folder, device)
        make, loader = ENCODERS[kind]
        return make(folder, loader, device, machine.tokens)
