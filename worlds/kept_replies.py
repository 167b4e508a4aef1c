"""
The replies of a block that is being played, kept for the case that the run is cut off.

What is played side by side is written as a whole, and with slow systems that takes
long. So the replies so far are kept in a file of the run folder, about every 20 seconds
and at Ctrl-C. The next run lets the systems hear and say them again, without asking for
them, puts the random numbers back to where they were, and goes on from there; the
dialogues are those of a run that was not cut off.

That is so only if a system's next reply depends on nothing but what it has heard and
said. So a clone's state is looked at before and after each reply: once a reply has
changed it (a script that counts its lines, a random generator of its own), no more
replies of the block are kept. Nor are they where looking takes more than a tenth of the
time, as with tiny models, whose blocks are played at once.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from parlai.core.message import Message

from parlai_ext.core import UserError, first_line
from parlai_ext.store.partial import PartialWork
from parlai_ext.systems.players import (
    Participant,
    Player,
    Reply,
    kept_fields,
    raise_unless_of_agent,
)
from parlai_ext.systems.random_numbers import random_state, set_random_state

FREE_SECONDS = 0.2  # that looking at states may take in any case
LARGEST_SHARE = 0.1  # of the time of a block that it may take in all


@dataclass
class KeptReplies:
    """
    Lets systems reply, and keeps what they reply; replies that are kept are not asked
    for again.

    :param kept: the file.
    """

    kept: PartialWork
    _number: int = 0
    _is_replaying: bool = True
    _keeps: bool = True
    _random: dict[str, Any] | None = field(default=None, repr=False)
    _began: float = field(default_factory=time.perf_counter)
    _looked: float = 0.0

    def respond(
        self, player: Player, participants: Sequence[Participant]
    ) -> list[Reply]:
        """
        Return a reply of every participant, as `Player.respond` does.

        A system that has no batches is asked for one reply at a time, so that little is
        lost of one that is slow.
        """
        width = len(participants) if player.batches else 1
        replies = []
        for start in range(0, len(participants), width):
            replies += self._respond(player, participants[start : start + width])
        return replies

    def _respond(
        self, player: Player, participants: Sequence[Participant]
    ) -> list[Reply]:
        if self._is_replaying:
            replies = self._kept_replies(player, len(participants))
            if replies is not None:
                return player.observed(participants, replies)
            self._is_replaying = False
            if self._random is not None:
                try:
                    set_random_state(self._random)
                except (KeyError, TypeError, ValueError, RuntimeError) as error:
                    raise UserError(
                        f'{self.kept.path} is damaged: {first_line(error)}; delete it'
                    ) from None
        before = self._states(player, participants)
        proposed = player.propose(participants)
        self._keeps = self._keeps and before == self._states(player, participants)
        replies = player.observed(participants, proposed)
        if self._keeps:
            self._keep(player, proposed)
        return replies

    def _kept_replies(self, player: Player, number: int) -> list[Reply] | None:
        """
        Return the next replies that were kept, `None` when there are no more.
        """
        record = self.kept.get(str(self._number))
        if record is None:
            return None
        try:
            replies = [
                Reply(text, reason, act=None if act is None else Message(act))
                for text, reason, act in record['replies']
            ]
            if record['speaker'] != player.name or len(replies) != number:
                return None
            self._random = record['random'] or self._random
        except (KeyError, TypeError, ValueError):  # somebody else's lines
            return None
        self._number += 1
        return replies

    def _keep(self, player: Player, replies: Sequence[Reply]) -> None:
        now = random_state()
        changed = now != self._random
        self._random = now
        self.kept.put(
            str(self._number),
            {
                'speaker': player.name,
                'replies': [
                    (reply.text, reply.reason, kept_fields(reply.act))
                    for reply in replies
                ],
                'random': now if changed else None,
            },
        )
        self._number += 1

    def _states(
        self, player: Player, participants: Sequence[Participant]
    ) -> list[str] | None:
        """
        Return the states of all clones; `None`, which ends the keeping, where that
        cannot be told.
        """
        begin = time.perf_counter()
        too_long = LARGEST_SHARE * (begin - self._began) + FREE_SECONDS
        if not self._keeps or self._looked > too_long:
            self._keeps = False
            return None
        try:
            return player.states(participants)
        except BaseException as error:
            raise_unless_of_agent(error)
            self._keeps = False
            return None
        finally:
            self._looked += time.perf_counter() - begin
