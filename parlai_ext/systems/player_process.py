"""
Systems whose files or code nobody here vouches for are loaded and talk in a process of
their own (`own_process.py`): what it says is text.

One process holds the systems that share their weights.
"""

import itertools
import os
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from parlai.core.agents import Agent

from parlai_ext.core import JsonObject, System, errors_of_system, frozen, read_options
from parlai_ext.core.records import record_from_json
from parlai_ext.engines import Machine
from parlai_ext.isolation.policy import require_named
from parlai_ext.systems.downloads import fetch_system
from parlai_ext.systems.families import family_of, innermost
from parlai_ext.systems.own_process import OwnProcess, Server, answers_of_a_kind
from parlai_ext.systems.parlai_agents import (
    check_options,
    has_strange_code,
    is_trusted,
    load_system,
)
from parlai_ext.systems.players import (
    Participant,
    Player,
    Reply,
    reply_fields,
    reply_from_fields,
)
from parlai_ext.systems.spending import Usages, spending_of

SERVER = f'{__name__}:PlayersHere'


def load_on(machine: Machine, system: System) -> Player:
    """
    Load a system where and as the machine says: in a process of its own unless it is
    trusted.

    :raises UserError: as `load_system` does.
    """
    require_named(system)
    with errors_of_system(system.name):
        if is_trusted(system):
            return load_system(system, machine)
        fetch_system(system)
        inner = innermost(system).opt
        key = os.getpid(), family_of(inner).weights_key(inner)
        process = _living.get(key)
        if process is None or process.worker.ended:
            process = _process_for(system, machine.reply_timeout)
        if key[1] is not None:
            _living[key] = process
        facts = process.ask('load', system.name, dict(system.opt), asdict(machine))
        with answers_of_a_kind():
            known = record_from_json(PlayerFacts, facts)
            return DistantPlayer(system.name, process, known)


def check_options_apart(system: System, given: JsonObject | None = None) -> None:
    """
    Check a system's options, in a process of its own where code of others would run.

    :param given: these options alone; `None`: all, with their files, which are
        downloaded first, since such a process can reach no network.
    :raises UserError: naming the option that cannot be meant.
    """
    if not has_strange_code(system):
        check_options(system, given)
        return
    if given is None:
        fetch_system(system)
    given = given and dict(given)
    with errors_of_system(system.name), answers_of_a_kind():
        _process_for(system, None).ask('check', system.name, dict(system.opt), given)


def _process_for(system: System, patience: float | None) -> OwnProcess:
    return OwnProcess(f'system {system.name!r}', SERVER, system.opt, patience)


# processes that more systems may be loaded in, by this process and their weights
_living: weakref.WeakValueDictionary[tuple[int, Hashable], OwnProcess]
_living = weakref.WeakValueDictionary()


@dataclass(eq=False, repr=False, kw_only=True)
class DistantParticipant(Participant):
    """
    A system of another process in one dialogue.

    :param ask: asks the process something about this participant.
    :param number: what the process calls it.
    """

    ask: Callable[..., Any]
    number: int

    def hear(self, text: str, speaker: str) -> None:
        """
        Observe an utterance of the other speaker.
        """
        self.ask('call', self.number, 'hear', text, speaker)

    def take_as_own(self, text: str) -> None:
        """
        Observe a given utterance, such as an opener's, as this system's own.
        """
        self.ask('call', self.number, 'take_as_own', text)


@frozen
class PlayerFacts:
    """
    What is to be known of a system of another process.
    """

    batches: bool
    n_bytes: int
    longest_reply: int | None


class DistantPlayer(Player):
    """
    A system that is loaded in another process.
    """

    numbers = itertools.count()

    def __init__(self, name: str, process: OwnProcess, facts: PlayerFacts):
        super().__init__(name, _StandIn(process, name))
        self.process = process
        self.batches, self.n_bytes = facts.batches, facts.n_bytes
        self.longest_reply = facts.longest_reply

    def count_tokens(self, texts: Sequence[str]) -> list[int] | None:
        """
        Return how many tokens each text has, `None` where the agent cannot tell.
        """
        with answers_of_a_kind():
            counts = self._ask('call', 'count_tokens', list(texts))
            return None if counts is None else list(map(int, counts))

    def join(self) -> Participant:
        """
        Return a participant of a new dialogue, which shares the weights.
        """
        number = next(self.numbers)
        self._ask('join', number)
        one = DistantParticipant(self.agent, ask=self.process.ask, number=number)
        weakref.finalize(one, self.process.gone.append, number)
        return one

    def propose(self, participants: Sequence[Participant]) -> list[Reply]:
        """
        Return what every participant would say.
        """
        return self._replies('propose', participants)

    def observed(
        self, participants: Sequence[Participant], replies: Sequence[Reply]
    ) -> list[Reply]:
        """
        Let every participant observe its reply, and return the replies.
        """
        return self._replies('observed', participants, list(map(reply_fields, replies)))

    def states(self, participants: Sequence[Participant]) -> list[str]:
        """
        Return hashes of the states of the clones.
        """
        with answers_of_a_kind():
            return list(map(str, self._ask('states', _numbers(participants))))

    def _ask(self, do: str, *given: Any) -> Any:
        return self.process.ask(do, self.name, *given)

    def _replies(
        self, do: str, participants: Sequence[Participant], *given: Any
    ) -> list[Reply]:
        """
        Return what the process says for these participants.

        :raises SystemFailed: when the system cannot go on at all.
        """
        with errors_of_system(self.name), answers_of_a_kind():
            told = self._ask('replies', do, _numbers(participants), *given)
            replies = list(map(reply_from_fields, told))
            if len(replies) != len(participants):
                raise TypeError(f'{len(replies)} replies of {len(participants)}')
        for reply in replies:
            self.process.warn_if_refused(reply.reason or '')
        return replies


def _numbers(participants: Sequence[Participant]) -> list[int]:
    return [one.number for one in participants if isinstance(one, DistantParticipant)]


class _StandIn(Agent):
    """
    Stands for an agent of another process: it knows what that has used.
    """

    def __init__(self, process: OwnProcess, name: str):
        super().__init__({})
        self.process, self.name = process, name

    @property
    def usage(self) -> Any:
        """
        What the agent has counted.
        """
        return self.process.usage.get(self.name)


# ---- in the other process


class PlayersHere(Server):
    """
    The systems of this process, by name, and their participants, by number.
    """

    def __init__(self, *args: Any, **like: Any) -> None:
        super().__init__(*args, **like)
        self.acts: dict[int, Any] = {}

    def load(self, name: str, opt: Any, machine: JsonObject) -> JsonObject:
        """
        Load a system, and return what is to be known of it.
        """
        player = load_system(System(name, opt), read_options(Machine, machine))
        self.things[name] = player
        return vars(PlayerFacts(player.batches, player.n_bytes, player.longest_reply))

    def check(self, name: str, opt: Any, given: Any) -> None:
        """
        Check a system's options, or these of them.
        """
        check_options(System(name, opt), given)

    def join(self, name: str, number: int) -> None:
        """
        Begin a dialogue.
        """
        self.things[number] = self.things[name].join()

    def call(self, name: str | int, do: str, *given: Any) -> Any:
        """
        Return what a method of a player, or of a participant, returns.
        """
        return getattr(self.things[name], do)(*given)

    def replies(
        self, name: str, do: str, numbers: list[int], *given: list[dict[str, Any]]
    ) -> list[JsonObject]:
        """
        Return the replies of participants, by a method of `Player`.

        :param given: the replies, to one that is given them.
        """
        replies = [
            [
                replace(reply, act=self.acts.pop(n, None) or reply.act)
                for n, reply in zip(numbers, map(reply_from_fields, some), strict=True)
            ]
            for some in given
        ]
        spoken = self.call(name, do, self._at(numbers), *replies)
        self.acts = {n: one.act for n, one in zip(numbers, spoken, strict=True)}
        return list(map(reply_fields, spoken))

    def states(self, name: str, numbers: list[int]) -> list[str]:
        """
        Return hashes of the states of participants.
        """
        return self.call(name, 'states', self._at(numbers))

    def _at(self, numbers: list[int]) -> list[Participant]:
        return [self.things[number] for number in numbers]

    def usage(self) -> Usages:
        """
        Return what each system has counted; systems of one model count apart.
        """
        return {
            name: spending_of(one.agent)
            for name, one in self.things.items()
            if isinstance(name, str)
        }
