"""
FED for ParlAI's own commands: `parlai eval_model -m ext:fed -t ext:dialogues`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

from parlai.core.agents import Agent
from parlai.core.message import Message
from parlai.core.metrics import SumMetric
from parlai.core.opt import Opt
from parlai.core.params import ParlaiParser
from parlai.utils import logging

from parlai_ext.commands.options import add_options
from parlai_ext.core.options import machine_options
from parlai_ext.models.scorer_acts import is_asked, put_scores
from parlai_ext.scoring.fed import Fed, Verdict
from parlai_ext.scoring.fed_options import CHOICES
from parlai_ext.scoring.score_run import build_scorer, scorer_config

# `None` is "not given": the variant's own choice holds
FED: Final = {
    '--fed-variant': ('variant', 'bipartite-play, or the program of 2020'),
    '--fed-polarity': ('polarity', 'follow-ups that count'),
    '--fed-tokens': ('token_reduction', "a follow-up's score over its tokens"),
    '--fed-followups-reduction': ('followup_reduction', 'over follow-ups'),
    '--fed-scope': ('scope', "tokens that count: follow-up's, or the whole string's"),
}


class FedAgent(Agent):
    """
    Observes ``text`` and the earlier utterances in ``context``, acts ``scores``.

    A message's `reason` says why a dimension has no value, `num_truncated` how many
    tokens of the context the judge did not see.
    """

    @classmethod
    def add_cmdline_args(
        cls, parser: ParlaiParser, partial_opt: Opt | None = None
    ) -> ParlaiParser:
        group = parser.add_argument_group('FED Agent')
        add_options(group, *('--judge-model-file', '--followups'))
        for option, (key, text) in FED.items():
            group.add_argument(option, choices=CHOICES[key], default=None, help=text)
        add_options(group, '--no-cuda', '--fp16')
        return parser

    def __init__(self, opt: Opt, shared: dict[str, Any] | None = None):
        super().__init__(opt, shared)
        self.id = 'FED'
        if shared:
            self.fed = shared['fed']

    @cached_property
    def fed(self) -> Fed:
        """
        Return the scorer. ParlAI makes agents before tasks: its judge, which may be
        large, is loaded after the task has read its files.
        """
        return load_fed(self.opt)

    def share(self) -> dict[str, Any]:
        """
        Clones have one judge.
        """
        return {**super().share(), 'fed': self.fed}

    def act(self) -> Message:
        """
        Judge what was observed last.
        """
        return self.batch_act([self.observation])[0]

    def batch_act(self, observations: list[Message]) -> list[Message]:
        """
        Judge all observations in one question to the judge.
        """
        judged = [i for i, seen in enumerate(observations) if is_asked(seen)]
        contexts = [
            (*observations[i].get('context', ()), observations[i]['text'])
            for i in judged
        ]
        verdicts = dict(zip(judged, self.fed.judge(contexts), strict=True))
        return [self._act(verdicts.get(i)) for i in range(len(observations))]

    def _act(self, verdict: Verdict | None) -> Message:
        act = Message(id=self.id, episode_done=False)
        if verdict is None:
            return act
        put_scores(act, verdict.values, verdict.reasons)
        act['num_truncated'] = verdict.num_truncated
        act['metrics']['cut_contexts'] = SumMetric(int(verdict.num_truncated > 0))
        return act


def load_fed(opt: Opt) -> Any:
    """
    Return the scorer that the agent's options ask for, and log what signs its numbers.
    """
    fed = build_scorer(
        scorer_config({'name': 'fed'}, opt),
        **machine_options(opt),
        batchsize=max(64, opt.get('batchsize') or 1),
    )
    logging.info(f'scorer {fed.signature}')
    return fed
