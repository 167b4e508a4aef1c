"""
The kinds of encoders that a scorer may ask for, and how the checkpoints of each are
read: as transformers writes them, or as some authors published theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from parlai_ext.models import bleurt, encoders
from parlai_ext.models.masked_lm import MaskedLanguageModel
from parlai_ext.models.word_bilstm import WordBiLSTM, is_word_bilstm
from parlai_ext.models.word_classifier import WordClassifier


@dataclass(frozen=True)
class Renamed:
    """
    A class of transformers that also reads weights with other names.

    :param names: patterns of names in a checkpoint, and what they become.
    """

    kind: Any
    names: Mapping[str, str]

    def from_pretrained(self, folder: Path, **arguments: Any) -> Any:
        """
        Read a model as ``kind.from_pretrained`` does.
        """
        return self.kind.from_pretrained(
            folder, key_mapping=dict(self.names), **arguments
        )


ENCODERS: Mapping[str, tuple[Any, Any]] = {
    'embedder': (encoders.MeanPooling, transformers.AutoModel),
    'classifier': (
        encoders.SequenceClassifier,
        transformers.AutoModelForSequenceClassification,
    ),
    'masked_lm': (MaskedLanguageModel, transformers.AutoModelForMaskedLM),
    'token_classifier': (  # weights named as in the checkpoints of CTC
        WordClassifier,
        Renamed(
            transformers.AutoModelForTokenClassification,
            {r'^_roberta\.': 'roberta.', r'^_classifier\.': 'classifier.'},
        ),
    ),
    'regressor': (encoders.SequenceRegressor, bleurt.SequenceRegression),
    'pair_encoder': (  # of DEnsity
        encoders.FirstTokenEncoder,
        Renamed(transformers.AutoModel, {r'^model\.': ''}),
    ),
}


def load_encoder(kind: str, folder: Path, device: torch.device, tokens: int) -> Any:
    """
    Return the encoder of a kind in a folder.

    :param tokens: the most tokens in a forward pass, padding counted.
    """
    if kind == 'classifier' and is_word_bilstm(folder):
        return WordBiLSTM(folder, device)
    make, loader = ENCODERS[kind]
    return make(folder, loader, device, tokens)
