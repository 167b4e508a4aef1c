"""
Turns as the tokens that a judge of Hugging Face's reads, cut as its agent cuts them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parlai_ext.core.errors import UserError

KNOWN = 10_000  # texts whose tokens are remembered


@dataclass(frozen=True)
class Form:
    """
    How turns become one text.

    :param separator: what closes every turn, the reply too; `None` is the end token, as
        DialoGPT was trained.
    :param whole_turns: a context too long loses whole turns, as with ``ext:hf``, not
        tokens, as with ParlAI's agents; of a single turn too long the end is kept.
    :param limit: the most tokens of a context.
    """

    separator: str | None = None
    whole_turns: bool = True
    limit: int | None = None


class TurnVectorizer:
    """
    Turns as token ids, each tokenized by itself, so that what was said earlier is read
    alike whatever is said later.

    What a tokenizer puts before every text (Llama: the begin token) comes first.
    """

    def __init__(self, tokenizer: Any, form: Form):
        if tokenizer.eos_token_id is None and form.separator is None:
            raise UserError(
                'hf_turn_separator: the tokenizer has no end token; a separator, such '
                'as a new line, would do'
            )
        self.tokenizer = tokenizer
        self.form = form
        self.lead = own_lead(tokenizer)
        self.known: dict[str, tuple[int, ...]] = {}

    def context(self, utterances: tuple[str, ...]) -> tuple[list[int], int]:
        """
        Return the token ids of the turns that are kept, and how many were cut.
        """
        turns = [self.continuation(text) for text in utterances]
        said = [token for turn in turns for token in turn]
        if self.form.limit is None:
            return [*self.lead, *said], 0
        room = max(1, self.form.limit - len(self.lead))
        kept = min(len(said), room)
        if self.form.whole_turns and len(said) > room:
            whole = 0
            for turn in reversed(turns):
                if whole + len(turn) > room:
                    break
                whole += len(turn)
            kept = whole or room
        cut = len(said) - kept
        return [*self.lead, *said[cut:]], cut

    def continuation(self, text: str) -> tuple[int, ...]:
        """
        Return the token ids of one turn, its end included.
        """
        if text not in self.known:
            if len(self.known) >= KNOWN:
                self.known.clear()
            self.known[text] = self._ids(text)
        return self.known[text]

    def _ids(self, text: str) -> tuple[int, ...]:
        end = self.form.separator
        # one that types an end token out does not get one
        ids = self.tokenizer.encode(
            text + (end or ''), add_special_tokens=False, split_special_tokens=True
        )
        return (*ids, *([self.tokenizer.eos_token_id] if end is None else []))


class JoinedTurns:
    """
    Turns joined by a separator, as the tokenizer writes one text: so ``ext:hf`` puts
    them to an encoder-decoder.

    A context too long loses whole turns, of a single one the beginning.
    """

    def __init__(self, tokenizer: Any, separator: str, limit: int | None):
        self.tokenizer = tokenizer
        self.separator = separator
        self.limit = limit
        self.lead = len(own_lead(tokenizer))
        self.known: dict[str, tuple[int, ...]] = {}

    def context(self, utterances: tuple[str, ...]) -> tuple[list[int], int]:
        """
        Return the token ids of the turns that are kept, and how many were cut.
        """
        whole = self._ids(self.separator.join(utterances))
        kept, first = whole, 0
        while self.limit and len(kept) > self.limit and first + 1 < len(utterances):
            first += 1
            kept = self._ids(self.separator.join(utterances[first:]))
        if self.limit and len(kept) > self.limit:
            room = max(1, self.limit - self.lead)
            kept = [*kept[: self.lead], *kept[-room:]]
        return kept, len(whole) - len(kept)

    def continuation(self, text: str) -> tuple[int, ...]:
        """
        Return the token ids of a reply, its end token included.

        What the tokenizer puts before a text, the decoder reads before it is asked.
        """
        if text not in self.known:
            if len(self.known) >= KNOWN:
                self.known.clear()
            self.known[text] = tuple(self._ids(text)[self.lead :])
        return self.known[text]

    def _ids(self, text: str) -> list[int]:
        ids = self.tokenizer(text, split_special_tokens=True)['input_ids']
        end = self.tokenizer.eos_token_id
        return [*ids, *([] if end is None or ids[-1:] == [end] else [end])]


def own_lead(tokenizer: Any) -> tuple[int, ...]:
    """
    Return what a tokenizer puts before every text.
    """
    ids = tokenizer('a')['input_ids']
    plain = tokenizer('a', add_special_tokens=False)['input_ids']
    starts = range(len(ids) - len(plain) + 1)
    first = next((i for i in starts if ids[i : i + len(plain)] == plain), 0)
    return tuple(ids[:first])


def start_token(tokenizer: Any) -> int | None:
    """
    Return what stands for an empty context: the begin token, else the end token.
    """
    begin: int | None = tokenizer.bos_token_id
    return tokenizer.eos_token_id if begin is None else begin
