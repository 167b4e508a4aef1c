"""
Many dialogues side by side: at each step, all dialogues whose next speaker is one
system form a batch of that system.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from parlai_ext.core import (
    Dialogue,
    Opener,
    Pairing,
    SystemFailed,
    UserError,
    Utterance,
)
from parlai_ext.systems.players import (
    Participant,
    Player,
    Reply,
    in_words,
    raise_unless_of_agent,
)
from parlai_ext.worlds.schedule import dialogue_id

Respond = Callable[[Player, Sequence[Participant]], list[Reply]]


def let_speak(player: Player, participants: Sequence[Participant]) -> list[Reply]:
    """
    Let every participant speak next, in the player's own way.
    """
    return player.respond(participants)


@dataclass(frozen=True)
class BatchRow:
    """
    One dialogue to be played: who talks, over which opener.
    """

    pairing: Pairing
    opener: Opener


def play_on(
    rows: Sequence[BatchRow],
    players: Mapping[str, Player],
    num_turns: int,
    batchsize: int | None = None,
    on_replies: Callable[[int, int], object] | None = None,
    respond: Respond = let_speak,
) -> tuple[list[Dialogue | None], dict[str, SystemFailed]]:
    """
    Play dialogues, without the systems that fail on the way.

    Return a dialogue for each row, `None` where one of its systems could not go on,
    and those systems by name with what happened.

    :param on_replies: called with the number of replies of each batch, and that of all
        replies if no dialogue ends early.
    :param respond: asks a system for the replies of some participants.
    """
    engine = LockstepEngine(rows, players, num_turns)
    for player, batch in engine.batches(batchsize):
        with engine.noting_failures():
            replies = respond(player, [dialogue.next_participant for dialogue in batch])
            if on_replies:
                on_replies(len(batch), engine.n_planned)
            for dialogue, reply in zip(batch, replies, strict=True):
                with engine.noting_failures():  # of the system that hears the reply
                    dialogue.add_reply(reply)
    dialogues = [one.dialogue() if one.done else None for one in engine.begun]
    return dialogues, engine.failed


class LockstepEngine:
    """
    Plays dialogues side by side, one utterance in every open dialogue after the other.

    A dialogue whose system replies nothing usable, or raises, ends there, and the
    others go on. A system that cannot go on at all is in `failed`, and its dialogues
    are dropped.
    """

    def __init__(
        self, rows: Sequence[BatchRow], players: Mapping[str, Player], num_turns: int
    ):
        self.players = players
        self.failed: dict[str, SystemFailed] = {}
        given = sum(min(len(row.opener.utterances), num_turns) for row in rows)
        self.n_planned = len(rows) * num_turns - given
        self.begun = [OpenDialogue(row, num_turns) for row in rows]
        for dialogue in self.begun:
            with self.noting_failures():
                dialogue.begin(players)

    @contextmanager
    def noting_failures(self) -> Iterator[None]:
        """
        Note a system that cannot go on.
        """
        try:
            yield
        except SystemFailed as error:
            self.failed[error.system] = error

    def batches(
        self, batchsize: int | None
    ) -> Iterator[tuple[Player, list[OpenDialogue]]]:
        """
        Yield each system with dialogues in which it speaks next, until all are over.
        """
        while going_on := list(filter(self._goes_on, self.begun)):
            waiting: dict[str, list[OpenDialogue]] = {}
            for dialogue in going_on:
                waiting.setdefault(dialogue.next_speaker, []).append(dialogue)
            for name, dialogues in waiting.items():
                width = batchsize or len(dialogues)
                for start in range(0, len(dialogues), width):
                    part = dialogues[start : start + width]
                    if batch := list(filter(self._goes_on, part)):
                        yield self.players[name], batch

    def _goes_on(self, dialogue: OpenDialogue) -> bool:
        return not dialogue.done and self.failed.keys().isdisjoint(dialogue.speakers)


class OpenDialogue:
    """
    One dialogue while it is played: its two speakers and the utterances so far.
    """

    def __init__(self, row: BatchRow, num_turns: int):
        if not row.opener.utterances:
            raise UserError(f'opener {row.opener.id} has no utterances; it needs one')
        self.row = row
        self.num_turns = num_turns
        self.ended_by: str | None = None
        self.reason: str | None = None
        self.speakers = row.pairing.speakers
        given = row.opener.utterances[:num_turns]
        self.utterances = [
            Utterance(self.speakers[i % 2], text, given=True)
            for i, text in enumerate(given)
        ]
        self.participants: list[Participant] = []

    def begin(self, players: Mapping[str, Player]) -> None:
        """
        Let both speakers join, and hear the opener.
        """

        def join() -> None:
            name = self.speakers[len(self.participants)]
            self.participants.append(players[name].join())

        self._try(0, join)
        self._try(1, join)
        for i in range(len(self.utterances)):
            self._deliver(i)

    @property
    def done(self) -> bool:
        """
        True if no more utterances will be added.
        """
        return self.ended_by is not None or len(self.utterances) >= self.num_turns

    @property
    def next_speaker(self) -> str:
        """
        The name of the system that speaks next.
        """
        return self.speakers[len(self.utterances) % 2]

    @property
    def next_participant(self) -> Participant:
        """
        The clone of that system in this dialogue.
        """
        return self.participants[len(self.utterances) % 2]

    def add_reply(self, reply: Reply) -> None:
        """
        Add the reply of the next speaker; one without a text ends the dialogue.
        """
        if reply.text is None:
            self._end(self.next_speaker, reply.reason or 'no reply')
            return
        self.utterances.append(Utterance(self.next_speaker, reply.text))
        if not self.done:
            self._deliver(len(self.utterances) - 1)

    def dialogue(self) -> Dialogue:
        """
        Return the utterances so far as a record.
        """
        pairing, opener = self.row.pairing, self.row.opener
        return Dialogue(
            dialogue_id(pairing.id, opener.id),
            pairing.id,
            opener.id,
            tuple(self.utterances),
            self.ended_by,
            self.reason,
        )

    def _deliver(self, index: int) -> None:
        """
        Let the other speaker hear an utterance, and its own speaker if it was given.
        """
        utterance = self.utterances[index]
        side = index % 2
        if utterance.given:
            self._try(side, lambda: self.participants[side].take_as_own(utterance.text))
        heard = (utterance.text, utterance.speaker)
        self._try(1 - side, lambda: self.participants[1 - side].hear(*heard))

    def _try(self, side: int, step: Callable[[], object]) -> None:
        """
        Take a step of one speaker unless the dialogue is over; an exception ends it.
        """
        if self.ended_by is not None:
            return
        try:
            step()
        except UserError as error:
            raise SystemFailed(self.speakers[side], str(error)) from error
        except BaseException as error:
            raise_unless_of_agent(error)
            self._end(self.speakers[side], in_words(error))

    def _end(self, system: str, reason: str) -> None:
        self.ended_by, self.reason = system, reason
