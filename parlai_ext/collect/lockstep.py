"""
Many dialogues at once: at each step, all whose next speaker is one system go through
that system together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from parlai.core.opt import Opt
from parlai.core.worlds import World

from parlai_ext.core.errors import SystemFailed, UserError
from parlai_ext.core.nouns import Dialogue, Opener, Pairing, Utterance
from parlai_ext.core.schedule import dialogue_id
from parlai_ext.systems.players import Participant, Player, Reply, in_words


@dataclass(frozen=True)
class BatchRow:
    """
    One dialogue to be played.
    """

    pairing: Pairing
    opener: Opener


def play(
    rows: Sequence[BatchRow],
    players: Mapping[str, Player],
    num_turns: int,
    batchsize: int | None = None,
) -> list[Dialogue]:
    """
    Play one dialogue for each row, side by side; return them in the rows' order.

    :param players: by system name.
    :param num_turns: utterances in a dialogue, given ones included.
    :param batchsize: most dialogues that go through a model together (`None`: all).
    :raises SystemFailed: when a system cannot go on.
    """
    played, failed = play_on(rows, players, num_turns, batchsize)
    for error in failed.values():
        raise error
    return [dialogue for dialogue in played if dialogue is not None]


def play_on(
    rows: Sequence[BatchRow],
    players: Mapping[str, Player],
    num_turns: int,
    batchsize: int | None = None,
) -> tuple[list[Dialogue | None], dict[str, SystemFailed]]:
    """
    Play as `play` does, without the systems that fail on the way.

    Return a dialogue for each row, `None` where one of its systems could not go on,
    and those systems by name with what happened.
    """
    world = LockstepWorld(rows, players, num_turns, batchsize)
    while not world.epoch_done():
        world.parley()
    return world.dialogues(), world.failed


class LockstepWorld(World):
    """
    A parley is one utterance in every unfinished dialogue.

    A dialogue whose system replies nothing usable, or raises, ends there, and the
    others go on. A system that cannot go on at all is in `failed`, and its dialogues
    are no dialogues.
    """

    def __init__(
        self,
        rows: Sequence[BatchRow],
        players: Mapping[str, Player],
        num_turns: int,
        batchsize: int | None = None,
    ):
        names = dict.fromkeys(n for row in rows for n in _speakers(row.pairing))
        self.players = {name: players[name] for name in names}
        agents = [player.agent for player in self.players.values()]
        super().__init__(Opt({'task': 'lockstep'}), agents)
        self.batchsize = batchsize
        self.failed: dict[str, SystemFailed] = {}
        self.talks: list[Talk | None] = [self._talk(row, num_turns) for row in rows]

    def parley(self) -> None:
        """
        Let one utterance be said in every unfinished dialogue.
        """
        for player, talks in self._turns():
            try:
                replies = player.respond([talk.next_participant for talk in talks])
            except SystemFailed as error:
                self.failed[error.system] = error
                continue
            for talk, reply in zip(talks, replies, strict=True):
                self._take(talk, reply)

    def episode_done(self) -> bool:
        """
        Tell whether every dialogue is over; a world plays its rows once.
        """
        return not any(map(self._goes_on, self.talks))

    def epoch_done(self) -> bool:
        """
        Tell whether every dialogue is over.
        """
        return self.episode_done()

    def dialogues(self) -> list[Dialogue | None]:
        """
        Return what was said so far, in the rows' order; `None` where a system failed.
        """
        return [
            talk.dialogue() if talk and (talk.done or self._goes_on(talk)) else None
            for talk in self.talks
        ]

    def _turns(self) -> Iterator[tuple[Player, list[Talk]]]:
        """
        Yield each system with the dialogues in which it speaks next.
        """
        waiting: dict[str, list[Talk]] = {}
        for talk in self.talks:
            if talk and self._goes_on(talk):
                waiting.setdefault(talk.next_speaker, []).append(talk)
        for name, talks in waiting.items():
            width = self.batchsize or len(talks)
            for start in range(0, len(talks), width):
                part = [t for t in talks[start : start + width] if self._goes_on(t)]
                if part:
                    yield self.players[name], part

    def _goes_on(self, talk: Talk | None) -> bool:
        if talk is None or talk.done:
            return False
        return self.failed.keys().isdisjoint(talk.speakers)

    def _take(self, talk: Talk, reply: Reply) -> None:
        try:
            talk.take(reply)
        except SystemFailed as error:  # of the one who hears it
            self.failed[error.system] = error

    def _talk(self, row: BatchRow, num_turns: int) -> Talk | None:
        """
        Begin a dialogue; `None` when one of its systems cannot.
        """
        try:
            return Talk(row, self.players, num_turns)
        except SystemFailed as error:
            self.failed[error.system] = error
            return None


class Talk:
    """
    One dialogue while it is played: two participants and what was said so far.
    """

    def __init__(self, row: BatchRow, players: Mapping[str, Player], num_turns: int):
        if not row.opener.utterances:
            raise UserError(f'opener {row.opener.id} has no utterances; it needs one')
        self.lane = row
        self.num_turns = num_turns
        self.ended_by: str | None = None
        self.reason: str | None = None
        self.speakers = _speakers(row.pairing)
        given = row.opener.utterances[:num_turns]
        self.utterances = [
            Utterance(self.speakers[i % 2], text, given=True)
            for i, text in enumerate(given)
        ]
        self.participants: list[Participant] = []
        self._try(
            0,
            lambda: self.participants.append(players[self.speakers[0]].join()),
        )
        self._try(
            1,
            lambda: self.participants.append(players[self.speakers[1]].join()),
        )
        for i in range(len(given)):
            self._spread(i)

    @property
    def done(self) -> bool:
        """
        Tell whether nothing more will be said.
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
        The participant that speaks next.
        """
        return self.participants[len(self.utterances) % 2]

    def take(self, reply: Reply) -> None:
        """
        Enter what the next speaker replied.
        """
        if reply.text is None:
            self._end(self.next_speaker, reply.reason or 'no reply')
            return
        self.utterances.append(Utterance(self.next_speaker, reply.text))
        if not self.done:
            self._spread(len(self.utterances) - 1)

    def dialogue(self) -> Dialogue:
        """
        Return what was said so far as a record.
        """
        pairing, opener = self.lane.pairing, self.lane.opener
        return Dialogue(
            dialogue_id(pairing.id, opener.id),
            pairing.id,
            opener.id,
            tuple(self.utterances),
            self.ended_by,
            self.reason,
        )

    def _spread(self, index: int) -> None:
        """
        Let an utterance be heard; its speaker said it already unless it was given.
        """
        said = self.utterances[index]
        side = index % 2
        if said.given:
            self._try(side, lambda: self.participants[side].take_as_own(said.text))
        hearing = (said.text, said.speaker)
        self._try(1 - side, lambda: self.participants[1 - side].hear(*hearing))

    def _try(self, side: int, step: Callable[[], object]) -> None:
        """
        Take a step of one side, unless the dialogue is over; raising ends it.
        """
        if self.ended_by is not None:
            return
        try:
            step()
        except UserError as error:
            raise SystemFailed(self.speakers[side], str(error)) from error
        except (Exception, SystemExit) as error:  # which would end the command
            self._end(self.speakers[side], in_words(error))

    def _end(self, system: str, reason: str) -> None:
        self.ended_by, self.reason = system, reason


def _speakers(pairing: Pairing) -> tuple[str, str]:
    return pairing.first, pairing.second
