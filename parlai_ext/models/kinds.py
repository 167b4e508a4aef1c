"""
The kinds of models that a scorer may ask for, each declared once: its name among
`Models`, and the class that says what a model of it gives.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from parlai_ext.core.nouns import Likelihood

if TYPE_CHECKING:
    from parlai_ext.models.chat import AgentChat as ChatModel
    from parlai_ext.models.encoders import FirstTokenEncoder as PairEncoder
    from parlai_ext.models.encoders import MaskedLanguageModel as MaskedLM
    from parlai_ext.models.encoders import MeanPooling as Embedder
    from parlai_ext.models.encoders import SequenceClassifier as Classifier
    from parlai_ext.models.encoders import SequenceRegressor as Regressor
    from parlai_ext.models.encoders import WordClassifier as TokenClassifier
    from parlai_ext.models.word_vectors import WordVectorTable as WordVectors
else:  # the classes load torch
    ChatModel = PairEncoder = Embedder = Classifier = Regressor = Any
    MaskedLM = TokenClassifier = WordVectors = Any

T = TypeVar('T')


class Kind(Generic[T]):
    """
    A kind of model: an attribute of `Models` that gives a model of its kind by name.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, models: Models, owner: object = None) -> Callable[[str], T]:
        return partial(models.model, self.name)


class Models:
    """
    What a scorer is given to ask for models, as ``models.embedder(name)``; they are
    loaded once.
    """

    likelihood = Kind[Likelihood]()
    embedder = Kind[Embedder]()
    classifier = Kind[Classifier]()
    masked_lm = Kind[MaskedLM]()
    token_classifier = Kind[TokenClassifier]()
    regressor = Kind[Regressor]()
    pair_encoder = Kind[PairEncoder]()
    chat = Kind[ChatModel]()
    word_vectors = Kind[WordVectors]()

    def model(self, kind: str, name: str) -> Any:
        """
        Return a model of a kind.
        """
        raise NotImplementedError
