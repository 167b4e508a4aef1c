"""
The kinds of models that a scorer may ask for, each declared once: what a model of it
gives, and its name among `Models`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from parlai_ext.core.nouns import Likelihood

if TYPE_CHECKING:
    import numpy as np

    from parlai_ext.models.encoders import TokenVectors
    from parlai_ext.models.masked_lm import MaskedLogprobs
    from parlai_ext.models.word_classifier import WordLabels
    from parlai_ext.systems.chat.conversation import ChatReply

T = TypeVar('T')


class Embedder(Protocol):
    """
    A model that maps a text to a vector.
    """

    signature: str

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """
        Return one float32 row for each text.
        """
        ...

    def token_vectors(self, texts: Sequence[str], layer: int = 0) -> list[TokenVectors]:
        """
        Return the vectors of the tokens of each text, from one layer; 0 is the last.
        """
        ...

    def cut_tokens(self, texts: Sequence[str]) -> list[int]:
        """
        Return how many tokens of each text are too many for the model.
        """
        ...


class Classifier(Protocol):
    """
    A model that gives the probability of each of its labels.
    """

    signature: str
    labels: tuple[str, ...]

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
        ...

    def cut_tokens(
        self,
        texts: Sequence[str],
        seconds: Sequence[str] | None = None,
        most_tokens: int | None = None,
    ) -> list[int]:
        """
        Return how many tokens of each text (or pair) are not read.
        """
        ...


class ChatModel(Protocol):
    """
    A model that replies to messages.
    """

    signature: str

    def replies(self, prompts: Sequence[str | Sequence[str]]) -> list[ChatReply]:
        """
        Return one reply to each prompt: a message, or the turns of a conversation, of
        which the last one is the user's.
        """
        ...

    def rating_replies(
        self, prompts: Sequence[str | Sequence[str]], logprobs: bool
    ) -> list[ChatReply]:
        """
        Return one reply to each prompt that asks for a rating, greedy where that can be
        had, and the alternatives of its tokens where the model tells them.
        """
        ...


class WordVectors(Protocol):
    """
    A vector for each word that it knows; words are in lower case.
    """

    signature: str

    def known_vectors(self, words: Sequence[str]) -> np.ndarray:
        """
        Return one float32 row for each word that is known, in order.
        """
        ...


class MaskedLM(Protocol):
    """
    A model that says how likely each token of a text is when it alone is hidden.
    """

    signature: str

    def masked_logprobs(
        self,
        befores: Sequence[str],
        texts: Sequence[str],
        most_tokens: int | None = None,
        with_before: bool = True,
    ) -> list[MaskedLogprobs]:
        """
        Return the log-probabilities of each text, which stands after another one.
        """
        ...


class TokenClassifier(Protocol):
    """
    A model that gives each word of a text, beside its context, its labels.
    """

    signature: str

    def word_labels(
        self, texts: Sequence[str], contexts: Sequence[str], most_tokens: int
    ) -> list[WordLabels]:
        """
        Return the words of each text with the probability of each label.
        """
        ...


class Regressor(Protocol):
    """
    A model that gives a number for a text or a pair of texts.
    """

    signature: str

    def numbers(
        self, texts: Sequence[str], seconds: Sequence[str] | None = None
    ) -> np.ndarray:
        """
        Return one number for each text (or pair of texts).
        """
        ...

    def cut_tokens(
        self, texts: Sequence[str], seconds: Sequence[str] | None = None
    ) -> list[int]:
        """
        Return how many tokens of each text (or pair) are not read.
        """
        ...


class PairEncoder(Protocol):
    """
    A model that maps a context and a response to a vector.
    """

    signature: str

    def features(
        self,
        contexts: Sequence[tuple[str, ...]],
        responses: Sequence[str],
        separator: str,
        most_tokens: int,
    ) -> np.ndarray:
        """
        Return one row for each context and response.
        """
        ...

    def cut_tokens(
        self,
        contexts: Sequence[tuple[str, ...]],
        responses: Sequence[str],
        separator: str,
        most_tokens: int,
    ) -> list[int]:
        """
        Return how many tokens of each context and response are not read.
        """
        ...


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
