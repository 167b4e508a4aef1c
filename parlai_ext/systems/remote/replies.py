"""
The reply of an endpoint, whatever its format.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from parlai_ext.core.json_text import parse_own_json
from parlai_ext.systems.chat.messages import ChatTurn

CHARACTERS_A_TOKEN = 4  # of English text, for endpoints that do not count
LONGEST = 200  # characters of an endpoint's own words


class Malformed(ValueError):
    """
    The endpoint answered something that its format does not know.
    """


@dataclass(frozen=True)
class RemoteReply:
    """
    A text, or the reason why this conversation gets none.

    `model` is what the model calls itself (`None`: untold). The numbers of tokens are
    `None` when the endpoint does not count. `alternatives` has, for each token of the
    text, the tokens that might have stood there with their log-probabilities, the one
    that does stand there first; `None` where the endpoint tells none.
    """

    text: str | None
    reason: str | None = None
    model: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    alternatives: list[list[list[Any]]] | None = None

    def to_json(self) -> str:
        """
        Return the reply as text.
        """
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> RemoteReply:
        """
        Return the reply that `to_json` wrote.
        """
        return cls(**parse_own_json(text))

    def with_usage(self, data: Any) -> RemoteReply:
        """
        Return the reply with the numbers that an endpoint gives as ``usage``.
        """
        usage = data.get('usage')
        usage = usage if isinstance(usage, dict) else {}
        prompt, completion = usage.get('prompt_tokens'), usage.get('completion_tokens')
        return replace(
            self, prompt_tokens=_count(prompt), completion_tokens=_count(completion)
        )


def text_reply(text: Any, model: Any) -> RemoteReply:
    """
    Return a reply of this text.
    """
    if not isinstance(text, str):
        raise Malformed(f'the text is {type(text).__name__}, not a string')
    return RemoteReply(text, model=model_name(model))


def model_name(model: Any) -> str | None:
    """
    Return the name that a model gives itself; `None` for what is no name.
    """
    return model if isinstance(model, str) and model.strip() else None


def error_words(data: Any) -> str | None:
    """
    Return what an error says, in either format, as far as it can be told.
    """
    error = data.get('error') if isinstance(data, dict) else None
    error = error.get('message') if isinstance(error, dict) else error
    return shortened(error) if isinstance(error, str) and error.strip() else None


def shortened(words: str) -> str:
    """
    Return words as one line that is not too long.
    """
    line = ' '.join(words.split())
    return line if len(line) <= LONGEST else f'{line[: LONGEST - 1]}…'


def estimated_tokens(text: str) -> int:
    """
    Return an estimate of a text's tokens: a quarter of its characters, rounded up.
    """
    return -(-len(text) // CHARACTERS_A_TOKEN)


def estimated_prompt_tokens(turns: Sequence[ChatTurn], system_prompt: str) -> int:
    """
    Return an estimate of how many tokens a conversation has with its system prompt.
    """
    return sum(map(estimated_tokens, [system_prompt, *(turn.text for turn in turns)]))


def _count(value: Any) -> int | None:
    known = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if known else None
