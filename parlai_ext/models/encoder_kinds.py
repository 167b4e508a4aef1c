"""
The kinds of encoders that a scorer may ask for, and how the checkpoints of each are
read: as transformers writes them, or as some authors published theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import transformers

from parlai_ext.models import bleurt, encoders
from parlai_ext.models.masked_lm import MaskedLanguageModel
from parlai_ext.models.word_classifier import WordClassifier

# the weights' names in checkpoints of CTC and of DEnsity
CTC_NAMES = {r'^_roberta\.': 'roberta.', r'^_classifier\.': 'classifier.'}
DENSITY_NAMES = {r'^model\.': ''}


class Renamed:
    """
    A class of transformers that also reads weights with other names.

    :param names: patterns of names in a checkpoint, and what they become.
    """

    def __init__(self, kind: Any, names: Mapping[str, str]):
        self.kind = kind
        self.names = dict(names)

    def from_pretrained(self, folder: Path, **arguments: Any) -> Any:
        """
        Read a model as ``kind.from_pretrained`` does.
        """
        return self.kind.from_pretrained(folder, key_mapping=self.names, **arguments)


ENCODERS: Mapping[str, tuple[Any, Any]] = {
    'embedder': (encoders.MeanPooling, transformers.AutoModel),
    'classifier': (
        encoders.SequenceClassifier,
        transformers.AutoModelForSequenceClassification,
    ),
    'masked_lm': (MaskedLanguageModel, transformers.AutoModelForMaskedLM),
    'token_classifier': (
        WordClassifier,
        Renamed(transformers.AutoModelForTokenClassification, CTC_NAMES),
    ),
    'regressor': (encoders.SequenceRegressor, bleurt.SequenceRegression),
    'pair_encoder': (
        encoders.FirstTokenEncoder,
        Renamed(transformers.AutoModel, DENSITY_NAMES),
    ),
}
