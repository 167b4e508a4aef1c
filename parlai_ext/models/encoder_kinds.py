"""
The kinds of encoders that a scorer may ask for, and how the checkpoints of each are
read: as transformers writes them, or as some authors published theirs.

Checkpoints of BLEURT in the format of bleurt-pytorch have the architecture of BERT or,
where word embeddings are narrower than the layers (BLEURT-20 and its distilled forms),
of RemBERT; only the weights have other names.
"""

from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import transformers
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

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import System
from parlai_ext.core.options import options_from_opt
from parlai_ext.engines.machine import Machine
from parlai_ext.models import encoders
from parlai_ext.models.classifiers import ParlaiClassifier, WordBiLSTM
from parlai_ext.systems import hub
from parlai_ext.systems.catalogue.conversions import MODEL_TYPE
from parlai_ext.systems.hub import PREFIX, ModelOptions
from parlai_ext.systems.pretrained import chosen_device, fetch_named_weights


def _renamed(kind: Any, names: Mapping[str, str]) -> Any:
    """
    Return a class of transformers that also reads weights with other names.

    :param names: patterns of names in a checkpoint, and what they become.
    """
    read = partial(kind.from_pretrained, key_mapping=names)
    return SimpleNamespace(from_pretrained=read)


BLEURT = 'bleurt'
PACKAGES = ('sentencepiece', 'google.protobuf')
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
        missing = [name for name in PACKAGES if not whole and not _is_installed(name)]
        if missing:
            raise ValueError(f'{missing[0]} is not installed; {INSTALL}')
        return DebertaV2Tokenizer.from_pretrained(folder, *args, **arguments)


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # its parent is missing
        return False


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
    try:
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
    except UserError as error:
        raise UserError(f'{kind} {name}: {error}') from None
