"""
Checkpoints of BLEURT in the format of bleurt-pytorch. They have the architecture of
BERT or, where word embeddings are narrower than the layers (BLEURT-20 and its distilled
forms), of RemBERT; only the weights have other names.
"""

from pathlib import Path
from typing import Any

import transformers
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DebertaV2Tokenizer,
    PreTrainedConfig,
)
from transformers.utils import is_protobuf_available, is_sentencepiece_available

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
