"""
The kinds of models that a scorer may ask for, each declared once: its name among
`Models`, and the class that says what a model of it gives.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from parlai_ext.core.nouns import Likelihood

if TYPE_CHECKING:  # they load torch
    pass

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
    embedder = Kind['MeanPooling']()
    classifier = Kind['SequenceClassifier']()
    masked_lm = Kind['MaskedLanguageModel']()
    token_classifier = Kind['WordClassifier']()
    regressor = Kind['SequenceRegressor']()
    pair_encoder = Kind['FirstTokenEncoder']()
    chat = Kind['AgentChat']()
    word_vectors = Kind['WordVectorTable']()

    def model(self, kind: str, name: str) -> Any:
        """
        Return a model of a kind.
        """
        raise NotImplementedError
