"""
What is wrong with a system's replies, as far as a few dialogues show.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from parlai_ext.core.nouns import Dialogue

# a short reply may repeat what was said by chance, every second one does not
COPIED_SHARE = 0.5
FEWEST_COPIES = 2
# a reply that begins with so many words of what it heard was copied
QUOTED_WORDS = 4
SHOWN = 60


@dataclass(frozen=True)
class HeardReply:
    """
    One reply, the utterance right before it, and the dialogue's first utterance.
    """

    text: str
    heard: str
    first: str


@dataclass(frozen=True)
class SystemCheck:
    """
    Why a system stops a run (`None`: it does not), and what is odd about its replies.
    """

    system: str
    stop: str | None = None
    warnings: tuple[str, ...] = ()
    n_dialogues: int = 0
    n_replies: int = 0


def check_system(
    system: str, dialogues: Sequence[Dialogue], *, bad_on_purpose: bool = False
) -> SystemCheck:
    """
    Return what is wrong with a system's replies in these dialogues.

    :param bad_on_purpose: it is meant to say the same whatever it hears, as a floor
        does; copied replies are a warning then.
    """
    replies = [replies_in(dialogue, system) for dialogue in dialogues]
    n_replies = sum(map(len, replies))
    broken = [d for d in dialogues if d.ended_by == system]
    warnings = []
    stop = (
        f'{broken[0].reason} (dialogue ended)'
        if broken
        else empty_replies_problem(replies)
    )
    copied = copied_replies_problem(replies)
    if copied and not stop and not bad_on_purpose:
        stop = copied
    elif copied:
        warnings.append(copied)
    if (constant := constant_replies_warning(replies)) and not copied:
        warnings.append(constant)
    if not stop and not n_replies:
        stop = 'it never got to speak; see the other systems'
    return SystemCheck(system, stop, tuple(warnings), len(dialogues), n_replies)


def replies_in(dialogue: Dialogue, system: str) -> list[HeardReply]:
    """
    Return the replies that a system generated in a dialogue.
    """
    turns = dialogue.utterances
    return [
        HeardReply(turn.text, turns[i - 1].text, turns[0].text)
        for i, turn in enumerate(turns)
        if i and turn.speaker == system and not turn.given
    ]


def empty_replies_problem(dialogues: Sequence[Sequence[HeardReply]]) -> str | None:
    """
    Return the reason to stop when no reply has a word in it, otherwise `None`.
    """
    replies = [reply for dialogue in dialogues for reply in dialogue]
    if replies and not any(re.search(r'\w', r.text) for r in replies):
        return f'empty replies: nothing but {_quoted(replies[0].text)}'
    return None


def copied_replies_problem(dialogues: Sequence[Sequence[HeardReply]]) -> str | None:
    """
    Return the reason to stop when half of the replies repeat the utterance before
    them, or when the replies are the same in each dialogue; otherwise `None`.

    :param dialogues: the replies of one system, dialogue by dialogue.
    """
    replies = [reply for dialogue in dialogues for reply in dialogue]
    repeated = [reply for reply in replies if is_repeat(reply)]
    if len(repeated) >= max(FEWEST_COPIES, COPIED_SHARE * len(replies)):
        return (
            f'copied replies: {len(repeated)} of {len(replies)} repeat what was heard '
            f'({_quoted(repeated[0].text)})'
        )
    if len(replies) > 2 and len({plain(reply.text) for reply in replies}) == 1:
        return (
            f'copied replies: all {len(replies)} are the same '
            f'({_quoted(replies[0].text)})'
        )
    several = [dialogue for dialogue in dialogues if len(dialogue) > 1]
    texts = {tuple(plain(r.text) for r in dialogue) for dialogue in several}
    heard = {tuple(plain(r.heard) for r in dialogue) for dialogue in several}
    if len(texts) == 1 and len(heard) > 1:
        return (
            'copied replies: the same in all dialogues, whatever the other said '
            f'({_quoted(several[0][0].text)}, …)'
        )
    return None


def is_repeat(reply: HeardReply) -> bool:
    """
    True if a reply is the utterance before it, or begins with that or with the
    dialogue's first utterance (as a model does whose prompt was not cut off).
    """
    mine, heard = plain(reply.text), plain(reply.heard)
    if mine and mine == heard:
        return True
    words = mine.split()
    quotes = [heard.split(), plain(reply.first).split()]
    return any(len(q) >= QUOTED_WORDS and words[: len(q)] == q for q in quotes)


def constant_replies_warning(dialogues: Sequence[Sequence[HeardReply]]) -> str | None:
    """
    Return a warning when a system says one thing throughout each dialogue, otherwise
    `None`.
    """
    several = [dialogue for dialogue in dialogues if len(dialogue) > 1]
    if several and all(
        len({plain(r.text) for r in replies}) == 1 for replies in several
    ):
        return f'says one thing throughout a dialogue ({_quoted(several[0][0].text)})'
    return None


def plain(text: str) -> str:
    """
    Return a text without case, punctuation and odd spaces.

    >>> plain("Well,  I'm FINE .")
    'well i m fine'
    """
    return ' '.join(re.findall(r'\w+', text.casefold()))


def _quoted(text: str) -> str:
    line = ' '.join(text.split())
    return repr(line if len(line) <= SHOWN else line[: SHOWN - 1] + '…')
