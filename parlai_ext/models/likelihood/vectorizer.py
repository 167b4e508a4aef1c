"""
Contexts and continuations as token ids; those given as token ids stay as they are.
"""

from typing import Protocol

from parlai_ext.models.likelihood.prefix_tree import Tokens


class Vectorizer(Protocol):
    """
    Turns contexts and continuations into a model's token ids.
    """

    def context(self, utterances: tuple[str, ...]) -> tuple[list[int], int]:
        """
        Return the token ids of a history, and how many were cut.
        """
        ...

    def continuation(self, text: str) -> tuple[int, ...]:
        """
        Return the token ids of a reply, its end token included.
        """
        ...


def context_ids(
    vectorizer: Vectorizer | None, context: tuple[str, ...] | Tokens
) -> tuple[Tokens, int]:
    """
    Return the token ids of a context, and how many were cut.
    """
    if context and not isinstance(context[0], str):
        return tuple(context), 0
    assert vectorizer is not None, 'texts need a vectorizer'
    ids, cut = vectorizer.context(context)  # type: ignore[arg-type]
    return tuple(ids), cut


def continuation_ids(
    vectorizer: Vectorizer | None, continuations: tuple[str, ...] | tuple[Tokens, ...]
) -> tuple[Tokens, ...]:
    """
    Return the token ids of each continuation.
    """
    ids = []
    for continuation in continuations:
        if isinstance(continuation, str):
            assert vectorizer is not None, 'texts need a vectorizer'
            ids.append(vectorizer.continuation(continuation))
        else:
            ids.append(tuple(continuation))
    return tuple(ids)
