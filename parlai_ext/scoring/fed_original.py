"""
Contexts and follow-ups as the program of Mehri and Eskenazi (2020) writes them.

    <|endoftext|> first utterance <|endoftext|> second utterance <|endoftext|> follow-up

One space on either side of each mark, none of them after the follow-up. A decoder-only
model reads the string; its tokenizer, not ours, decides what becomes of the spaces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Likelihood, Question


class Tokenizer(Protocol):
    """
    As much of a Hugging Face tokenizer as is needed.
    """

    eos_token: str | None

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """
        Return the token ids of a text in which the end token may be written out.
        """
        ...


def tells_context(likelihood: Likelihood) -> bool:
    """
    Return whether a judge gives contexts a probability, as far as is known beforehand.
    """
    return getattr(likelihood, 'tells_context', True)


class OriginalStrings:
    """
    Questions in token ids. A mark parts the text: ids before it depend on nothing after
    it, so the follow-ups of a context share it, and so do the turns of a dialogue.
    """

    def __init__(self, tokenizer: Tokenizer):
        if not tokenizer.eos_token:
            raise UserError('fed: variant original needs a judge with an end token')
        self.tokenizer = tokenizer
        self.mark = tokenizer.eos_token
        self.known: dict[str, tuple[int, ...]] = {}

    @classmethod
    def of(cls, likelihood: Likelihood) -> OriginalStrings:
        """
        Return the strings of a judge.

        :raises UserError: when it is no decoder-only model.
        """
        vectorizer = getattr(likelihood, 'vectorizer', None)
        tokenizer: Any = getattr(vectorizer, 'tokenizer', None)
        if tokenizer is None or not tells_context(likelihood):
            raise UserError(
                'fed: variant original takes the loss of context and follow-up: the '
                'judge must be a decoder-only model; variant bipartite would do'
            )
        return cls(tokenizer)

    def question(self, utterances: Sequence[str], followups: Sequence[str]) -> Question:
        """
        Return the question of one context; the mark before the follow-up is its own.
        """
        turns = ''.join(f'{self.mark} {text} ' for text in utterances)
        asked = tuple(self.followup(text) for text in followups)
        return Question(self.encoded(turns + self.mark), asked)

    def followup(self, text: str) -> tuple[int, ...]:
        """
        Return the token ids of what comes after the last mark.
        """
        if text not in self.known:
            self.known[text] = self.encoded(f'{self.mark} {text}')[1:]
        return self.known[text]

    def encoded(self, text: str) -> tuple[int, ...]:
        """
        Return the token ids of a text that begins with a mark.
        """
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))
