"""
A roster's systems talk with each other under ParlAI's own `self_chat` command.

The dialogues are those of `collect_dialogues`: the same blocks, played side by side by
the same `BlockPlayer`. A world plays a block as a whole and then shows its dialogues
one after the other, one exchange for each parley.

Each world has the name that ParlAI looks for: `parlai self_chat -t ext:pairs:SCHEME`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from parlai.core.loader import load_agent_module
from parlai.core.message import Message
from parlai.core.opt import Opt
from parlai.core.params import ParlaiParser
from parlai.core.worlds import DialogPartnerWorld

from parlai_ext.core import UserError
from parlai_ext.store import ActRecord, dialogue_record
from parlai_ext.worlds.block_player import BlockPlayer


class SelfChatWorld(DialogPartnerWorld):
    """
    The dialogues of a schedule, under the pairing scheme of the protocol.

    :cvar scheme: the pairing scheme; `None`: the protocol's.
    :cvar agent: the agent that holds the loaded systems and has the schedule. It stands
        where self-chat has a model.
    """

    scheme: str | None = None
    agent = 'parlai_ext.tasks.pairs.agents:RosterAgent'

    @classmethod
    def add_cmdline_args(
        cls, parser: ParlaiParser, partial_opt: Opt | None = None
    ) -> ParlaiParser:
        """
        Add the options of the roster; no ``--model`` is needed.
        """
        parser.set_defaults(model=cls.agent)
        load_agent_module(cls.agent).add_cmdline_args(parser, partial_opt)
        return parser

    def __init__(self, opt: Opt, agents: Any = None, shared: Any = None):
        super().__init__(opt, agents, shared)
        player = getattr(self.agents[0], 'player', None)
        if player is None:
            raise UserError(
                f'model: {opt.get("model")} is no roster; the systems of --roster talk '
                'with each other: leave --model and --model-file out'
            )
        self.player: BlockPlayer = player
        # the log's metadata say so: its speakers are one system, or two
        self.opt['selfchat_task'] = self.scheme == 'self_play'
        self._n_parleys = -(-player.plan.protocol.num_turns // 2)
        self.acts: list[Message] = []
        self._exchanges: list[Sequence[ActRecord]] = []
        self._dialogues = self._play()
        self._n_begun = 0

    def parley(self) -> None:
        """
        Show the next exchange: an utterance of the first speaker, and the answer.

        Every dialogue has equally many parleys, since `self_chat` counts them: after
        one that ended early there are no acts until they are over, nor are there when
        there are no more dialogues.
        """
        if not self._exchanges:
            self._exchanges = next(self._dialogues, [[]])
            self._n_begun += 1
        self.acts = [Message(act) for act in self._exchanges.pop(0)]
        self.update_counters()

    def episode_done(self) -> bool:
        """
        True if the last utterance of a dialogue was shown.
        """
        return not self._exchanges

    def epoch_done(self) -> bool:
        """
        True if all dialogues were shown.
        """
        return self._n_begun >= self.num_episodes() and self.episode_done()

    def reset(self) -> None:
        """
        Leave the current dialogue; the next parley begins the next one.
        """
        super().reset()
        self._exchanges = []

    def num_episodes(self) -> int:
        """
        Return the number of dialogues.
        """
        return self.player.plan.n_dialogues

    def num_examples(self) -> int:
        """
        Return the number of parleys.
        """
        return self.num_episodes() * self._n_parleys

    def log_written(self) -> None:
        """
        End `self_chat`, whose last step is its log (`compat/faults.py`).

        :raises UserError: when a system could not go on, as at the end of
            `collect_dialogues`.
        """
        for problem in self.player.cache.problems.values():
            raise UserError(f'not all dialogues could be played: {problem}')

    def _play(self) -> Iterator[list[Sequence[ActRecord]]]:
        """
        Yield the exchanges of each dialogue; a system that fails is left out, and the
        model cache logs why.

        :raises UserError: when no dialogue could be played.
        """
        for block in self.player.plan.blocks(self.player.is_sampling):
            for dialogues in self.player.play_block(block).values():
                for dialogue in dialogues:
                    exchanges = dialogue_record(dialogue, '')['dialog']
                    yield [*exchanges, *[[]] * (self._n_parleys - len(exchanges))]
        if not self._n_begun:
            problems = self.player.cache.problems.values()
            raise UserError(f'no dialogue could be played: {"; ".join(problems)}')


class SelfChatSelfPlayWorld(SelfChatWorld):
    """
    Each target talks with itself.
    """

    scheme = 'self_play'


class SelfChatAllPlayAllWorld(SelfChatWorld):
    """
    Each target talks with each other one, in both roles.
    """

    scheme = 'all_play_all'


class SelfChatBipartiteWorld(SelfChatWorld):
    """
    Each target talks with each partner.
    """

    scheme = 'bipartite'
