"""
The reply of an endpoint, whatever its format.
"""

from dataclasses import dataclass
from typing import Any

from parlai_ext.systems.chat.messages import ChatReply

CHARACTERS_A_TOKEN = 4  # of English text, for endpoints that do not count
LONGEST = 200  # characters of an endpoint's own words


class Malformed(ValueError):
    """
    The endpoint answered something that its format does not know.
    """


@dataclass(frozen=True)
class RemoteReply(ChatReply):
    """
    A chat model's reply with the name that the model gives itself (`None`: untold), the
    numbers of tokens (`None` when the endpoint does not count), and whether it ended
    because it was as long as it may be.
    """

    model: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    is_cut: bool = False


def read_answer(
    data: Any,
    text: Any,
    reason: str | None = None,
    alternatives: list[list[list[Any]]] | None = None,
) -> RemoteReply:
    """
    Return the reply of an answer that holds this text, with the ``model`` and ``usage``
    that the answer tells.

    :raises Malformed: for a text that is none.
    """
    if not isinstance(text, str | None):
        raise Malformed(f'the text is {type(text).__name__}, not a string')
    model, usage = data.get('model'), data.get('usage')
    counts = [
        usage.get(name) if isinstance(usage, dict) else None
        for name in ('prompt_tokens', 'completion_tokens')
    ]
    prompt, completion = (n if type(n) is int and n >= 0 else None for n in counts)
    named = model if isinstance(model, str) and model.strip() else None
    return RemoteReply(text, reason, alternatives, named, prompt, completion)


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
