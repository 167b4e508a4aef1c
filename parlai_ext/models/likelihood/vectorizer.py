"""
Contexts and continuations as token ids: texts are read, token ids taken as they are.
"""

from __future__ import annotations

from typing import Protocol

from parlai_ext.models.likelihood.prefixes import Tokens


class Vectorizer(Protocol):
    """
    How a model's own vocabulary sees contexts and continuations.
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
    Return the token ids of a context, and how many were cut; an empty one is of texts.
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
    found = []
    for one in continuations:
        if isinstance(one, str):
            assert vectorizer is not None, 'texts need a vectorizer'
            found.append(vectorizer.continuation(one))
        else:
            found.append(tuple(one))
    return tuple(found)
