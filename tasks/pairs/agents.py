"""
A roster as ParlAI's self-chat takes it: one agent with the schedule and the systems.
"""

from typing import Any

from parlai.core import loader
from parlai.core.agents import Agent
from parlai.core.opt import Opt
from parlai.core.teachers import Teacher

from parlai_ext.collect.options import PlanOptions
from parlai_ext.collect.plan import make_plan, requested_protocol
from parlai_ext.core import (
    PLAYED,
    DeclaresOptions,
    Flags,
    ProtocolOptions,
    UserError,
    options_from_opt,
)
from parlai_ext.engines import Machine
from parlai_ext.isolation.policy import note_trust
from parlai_ext.worlds.block_player import BlockPlayer

DIALOGUES = ('--openers', '--num-dialogues', '--num-turns')
# of ParlAI's own parser, or of no use without a run folder
NOT_OURS = ('--run-dir', '--batchsize', '--datapath')
KNOWN = ', '.join(f'ext:pairs:{scheme}' for scheme in PLAYED)


class RosterAgent(DeclaresOptions, Agent):
    """
    All systems of a roster. It does not talk itself; its world lets its systems talk.
    """

    # the options that `collect_dialogues` has, too
    declares = (
        Flags(PlanOptions, skip=NOT_OURS),
        Flags(ProtocolOptions, only=DIALOGUES, overrides=True),
        Flags(Machine, skip=NOT_OURS),
    )

    def __init__(self, opt: Opt, shared: Any = None):
        self.id = 'roster'
        self.player: BlockPlayer = shared['player'] if shared else load_player(opt)
        super().__init__(opt, shared)

    def share(self) -> dict[str, object]:
        """
        Return what a clone needs; all have the same systems.
        """
        return {**super().share(), 'player': self.player}


def load_player(opt: Opt) -> BlockPlayer:
    """
    Return the player of the dialogues that these options ask for, and put into ``opt``
    how many self-chats they are, of how many exchanges; `self_chat` reads them there.

    :raises UserError: for a mistake in the options or in the files that they name.
    """
    given = opt.get('override') or {}
    scheme = loader.load_world_module(opt['task'], selfchat_task=True).scheme
    # self_chat's own default seed is no part of a protocol, nor is its batch size ours
    options = {**opt, 'seed': given.get('seed'), 'pairing': scheme, 'batchsize': None}
    if not (options['config'] or scheme):
        raise UserError(f'--config is needed for {opt["task"]}, or one of: {KNOWN}')
    options['config'] = options['config'] or f'{scheme}_2022'
    machine = options_from_opt(Machine, options)
    note_trust(machine.trust_model_code)
    plan = make_plan(requested_protocol(PlanOptions.from_options(options)), machine)
    there = plan.n_dialogues
    wanted = given.get('num_self_chats', there)
    if wanted > there:
        raise UserError(f'num_self_chats: {wanted}; there are {there} dialogues')
    if 'selfchat_max_turns' in given:
        raise UserError('selfchat_max_turns: use --num-turns, which counts utterances')
    opt['num_self_chats'] = wanted
    opt['selfchat_max_turns'] = -(-plan.protocol.num_turns // 2)
    return BlockPlayer.from_plan(plan, machine)


class DefaultTeacher(Teacher):
    """
    There is nothing to learn here; ParlAI wants a teacher for every task.
    """

    def __init__(self, opt: Opt, shared: Any = None):
        raise UserError(f'task {opt["task"]} has no data; it is for parlai self_chat')


def __getattr__(name: str) -> type[DefaultTeacher]:
    """
    Return the teacher of a pairing scheme, such as `SelfPlayTeacher`.
    """
    if not name.endswith('Teacher'):
        raise AttributeError(name)
    if name not in {f'{s.title().replace("_", "")}Teacher' for s in PLAYED}:
        raise UserError(f'task ext:pairs has no {name}; known: {KNOWN}')
    return DefaultTeacher
