"""
What is wrong with a system's replies, as far as a few dialogues show it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from parlai_ext.core.nouns import Dialogue

# a short reply may repeat what was said by chance, every second one does not
COPIED_SHARE = 0.5
FEWEST_COPIES = 2
# a reply that begins with so many words of what it heard was not made up
QUOTED_WORDS = 4
SHOWN = 60


@dataclass(frozen=True)
class Reply:
    """
    One reply, what was heard right before it, and the dialogue's first utterance.
    """

    text: str
    heard: str
    begun: str


@dataclass(frozen=True)
class Verdict:
    """
    What stops a run because of one system (`None`: nothing), and what does not.
    """

    system: str
    stop: str | None = None
    warnings: tuple[str, ...] = ()
    n_dialogues: int = 0
    n_replies: int = 0


def verdict(
    system: str, dialogues: Sequence[Dialogue], *, dull: bool = False
) -> Verdict:
    """
    Judge a system by dialogues that it took part in.

    :param dull: it is meant to say the same whatever it hears, as a floor does; copies
        are told and stop nothing.
    """
    spoken = [replies_of(system, dialogue) for dialogue in dialogues]
    n_replies = sum(map(len, spoken))
    broken = [d for d in dialogues if d.ended_by == system]
    warnings = []
    stop = f'{broken[0].reason} (dialogue ended)' if broken else wordless(spoken)
    copied = copies(spoken)
    if copied and not stop and not dull:
        stop = copied
    elif copied:
        warnings.append(copied)
    if (loop := stuck(spoken)) and not copied:
        warnings.append(loop)
    if not stop and not n_replies:
        stop = 'it never got to speak; see the other systems'
    return Verdict(system, stop, tuple(warnings), len(dialogues), n_replies)


def replies_of(system: str, dialogue: Dialogue) -> list[Reply]:
    """
    Return what a system replied itself in a dialogue.
    """
    said = dialogue.utterances
    return [
        Reply(one.text, said[i - 1].text, said[0].text)
        for i, one in enumerate(said)
        if i and one.speaker == system and not one.given
    ]


def wordless(spoken: Sequence[Sequence[Reply]]) -> str | None:
    """
    Tell of replies none of which has anything to read.
    """
    replies = [reply for mine in spoken for reply in mine]
    if replies and not any(re.search(r'\w', r.text) for r in replies):
        return f'empty replies: nothing but {_shown(replies[0].text)}'
    return None


def copies(spoken: Sequence[Sequence[Reply]]) -> str | None:
    """
    Tell of replies that repeat what was just heard, or are the same in each dialogue.
    """
    replies = [reply for mine in spoken for reply in mine]
    repeated = [reply for reply in replies if repeats(reply)]
    enough = max(FEWEST_COPIES, COPIED_SHARE * len(replies))
    if len(repeated) >= enough:
        return (
            f'copied replies: {len(repeated)} of {len(replies)} repeat what was heard '
            f'({_shown(repeated[0].text)})'
        )
    if len(replies) > 2 and len({plain(reply.text) for reply in replies}) == 1:
        return (
            f'copied replies: all {len(replies)} are the same '
            f'({_shown(replies[0].text)})'
        )
    if twins := _twins(spoken):
        return (
            'copied replies: the same in all dialogues, whatever the other said '
            f'({_shown(twins[0].text)}, …)'
        )
    return None


def repeats(reply: Reply) -> bool:
    """
    Tell whether a reply is what was just heard, or begins with that or with the whole
    dialogue (as a model does whose prompt was not cut off).
    """
    mine, heard = plain(reply.text), plain(reply.heard)
    if mine and mine == heard:
        return True
    quoted = [heard.split(), plain(reply.begun).split()]
    words = mine.split()
    return any(len(q) >= QUOTED_WORDS and words[: len(q)] == q for q in quoted)


def stuck(spoken: Sequence[Sequence[Reply]]) -> str | None:
    """
    Tell of a system that says one thing throughout each dialogue.
    """
    long = [mine for mine in spoken if len(mine) > 1]
    if long and all(len({plain(r.text) for r in mine}) == 1 for mine in long):
        return f'says one thing throughout a dialogue ({_shown(long[0][0].text)})'
    return None


def plain(text: str) -> str:
    """
    Return a text without case, punctuation and odd spaces.

    >>> plain("Well,  I'm FINE .")
    'well i m fine'
    """
    return ' '.join(re.findall(r'\w+', text.casefold()))


def _twins(spoken: Sequence[Sequence[Reply]]) -> Sequence[Reply]:
    """
    Return the replies of a dialogue when all dialogues have these, though what they
    reply to differs.
    """
    several = [mine for mine in spoken if len(mine) > 1]
    said = {tuple(plain(r.text) for r in mine) for mine in several}
    heard = {tuple(plain(r.heard) for r in mine) for mine in several}
    return several[0] if len(said) == 1 and len(heard) > 1 else ()


def _shown(text: str) -> str:
    one = ' '.join(text.split())
    return repr(one if len(one) <= SHOWN else one[: SHOWN - 1] + '…')
