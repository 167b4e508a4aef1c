"""
``-m ext:safety_layer --safety-system SYSTEM``: another system with a detector of toxic
texts before and after it.

What the other says is checked first: where the detector flags it, a canned sentence is
said and the system is not asked. Then the system's reply is checked: where it is
flagged, a canned sentence is said in its stead. Either way the system inside hears
what was really said as its own utterance.

A reply has the field ``safety``: which check fired, ``prompt`` or ``answer``, or
``none``; and metrics of the same (`parlai eval_model` shows their means).
"""

from collections.abc import Sequence
from typing import Any
from zlib import crc32

from parlai.core.message import Message
from parlai.core.metrics import AverageMetric
from parlai.core.opt import Opt

from parlai_ext.core import DeclaresOptions, Flags, frozen, options_from_opt
from parlai_ext.engines import Machine
from parlai_ext.models.handle import ModelHandle
from parlai_ext.scoring.toxicity import ToxicityDetector, read_detector
from parlai_ext.systems.chat.conversation import ConversationAgent
from parlai_ext.systems.families import (
    ANSWER,
    FIRED,
    PROMPT,
    SafetyOptions,
    read_deflections,
    system_inside,
)
from parlai_ext.systems.parlai_agents import load_system
from parlai_ext.systems.players import Participant, Player
from parlai_ext.systems.spending import Spending, meter_of, spending_of

NONE = 'none'  # no check fired


@frozen
class Guarded:
    """
    What all dialogues of a safety layer share.

    :param checks: those that are made, of `PROMPT` and `ANSWER`.
    """

    player: Player
    detector: ToxicityDetector
    deflections: Sequence[str]
    checks: tuple[str, ...]

    @property
    def model(self) -> Any:
        """
        The network of the system inside; `None` where it has none.
        """
        return getattr(self.player.agent, 'model', None)

    @property
    def engine(self) -> Any:
        """
        What counts for the system inside, which other systems may share.
        """
        return meter_of(self.player.agent)

    @property
    def usage(self) -> Spending | None:
        """
        What the system inside counts of its requests, if it does.
        """
        return spending_of(self.player.agent)

    def replies(
        self, participants: Sequence[Participant], prompts: Sequence[str]
    ) -> list[Message]:
        """
        Return one reply of each participant to what it heard last.

        :param prompts: what that was; ``''`` for nothing.
        """
        flagged = self.flagged(prompts, PROMPT)
        asked = [one for one, bad in zip(participants, flagged, strict=True) if not bad]
        proposed = iter(self.player.propose(asked) if asked else [])
        replies = [None if bad else next(proposed) for bad in flagged]
        answers = ['' if one is None else one.text or '' for one in replies]
        unsafe = self.flagged(answers, ANSWER)
        acts = []
        for prompt, reply, bad in zip(prompts, replies, unsafe, strict=True):
            fired, more = NONE, {}
            if reply is None or bad:
                fired = PROMPT if reply is None else ANSWER
                text = self.deflections[crc32(prompt.encode()) % len(self.deflections)]
            elif reply.text is None:
                text, more = None, {'reason': reply.reason}
            else:
                text = reply.text
            metrics = {
                f'deflected_{name}': AverageMetric(int(fired == name)) for name in FIRED
            }
            acts.append(
                Message(
                    text=text, safety=fired, metrics=metrics, episode_done=False, **more
                )
            )
        return acts

    def flagged(self, texts: Sequence[str], check: str) -> list[bool]:
        """
        Return, for each text, True if this check is made and the detector calls it
        toxic.
        """
        if check not in self.checks:
            return [False] * len(texts)
        return [toxic for _, toxic in self.detector.of_texts(texts)]


class SafetyLayerAgent(DeclaresOptions, ConversationAgent):
    """
    One dialogue of a system behind a safety layer; clones share system and detector.
    """

    declares = (
        SafetyOptions,
        Flags(Machine, only=('--no-cuda',)),
    )

    engine: Guarded
    id = 'SafetyLayer'

    def load_engine(self, opt: Opt) -> Guarded:
        """
        Return the system inside with the detector around it.

        :raises UserError: ``option: what is wrong``.
        """
        options = options_from_opt(SafetyOptions, opt)
        no_cuda = bool(opt.get('no_cuda'))
        machine = Machine(datapath=opt.get('datapath'), no_cuda=no_cuda)
        return Guarded(
            load_system(system_inside(opt), machine),
            read_detector(options.detector, ModelHandle(machine)),
            read_deflections(opt),
            FIRED if options.checks == 'both' else (options.checks,),
        )

    def observe(self, observation: Message) -> Message:
        """
        Let the system inside hear the text, and nothing else: no label and no end.

        The returned message holds the participant, which `batch_act` asks.
        """
        seen = super().observe(observation)
        if seen.get('text'):
            self.participant.hear(seen['text'], seen.get('id') or 'other')
        self.observation = Message({**seen, 'participant': self.participant})
        return self.observation

    def self_observe(self, act: Message) -> None:
        """
        Tell the system inside what was really said in its name.
        """
        if not act.get('text'):
            return
        if 'safety' not in act:  # given, such as an opener's
            self.participant.take_as_own(act['text'])
        elif self.engine.player.batches or act['safety'] == PROMPT:
            self.participant.say(Message(act))

    def batch_act(self, observations: Sequence[Message]) -> list[Message]:
        """
        Reply in many dialogues at once.

        :raises UserError: when the system inside cannot go on.
        """
        replies = self.engine.replies(
            [seen['participant'] for seen in observations],
            [seen.get('text') or '' for seen in observations],
        )
        for reply in replies:
            reply['id'] = self.id
        return replies

    def reset(self) -> None:
        """
        Forget the dialogue; the system inside does so, too.
        """
        super().reset()
        self.participant = self.engine.player.join()
