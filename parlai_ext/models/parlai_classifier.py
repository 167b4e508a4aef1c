"""
A ``transformer/classifier`` of ParlAI as a classifier that scorers ask.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from parlai.core.agents import create_agent
from parlai.core.params import ParlaiParser

from parlai_ext.compat.parlai_setup import prepare_parlai
from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import System
from parlai_ext.engines.machine import Machine
from parlai_ext.models.watch import NO_WATCH, Watch
from parlai_ext.systems.identity import identity
from parlai_ext.systems.parlai_agents import cost_of_model
from parlai_ext.systems.safe.load import guarded
from parlai_ext.systems.zoo import fetch_path


class ParlaiClassifier:
    """
    Gives each text the probability of each label; they sum to 1.

    :raises UserError: when the file holds another model.
    """

    watch: Watch = NO_WATCH

    def __init__(self, system: System, machine: Machine):
        prepare_parlai()
        opt = {
            **system.opt,
            'model_file': str(fetch_path(system.opt['model_file'])),
            'print_scores': True,
            'datatype': 'valid',
            'batchsize': 1,
            'no_cuda': machine.no_cuda,
        }
        # not `load_system`: it has the options of a ranker, and would need candidates
        with guarded(roster_opt=opt), cost_of_model(opt):  # the file is read as data
            parsed = ParlaiParser(True, True).parse_kwargs(**opt)
            self.agent: Any = create_agent(parsed, requireModelExists=True)
        if not hasattr(self.agent, 'class_list'):
            raise UserError(f'{type(self.agent).__name__} is no classifier')
        self.labels = tuple(map(str, self.agent.class_list))
        self.size = machine.batchsize
        self.signature = f'system={identity(system)}'

    def probabilities(
        self, texts: Sequence[str], seconds: Sequence[str] | None = None
    ) -> np.ndarray:
        """
        Return one row for each text, one column for each label.

        :raises UserError: for pairs of texts, which it cannot read.
        """
        if seconds is not None:
            raise UserError('a classifier of ParlAI reads single texts, not pairs')
        clones = [self.agent.clone() for _ in texts[: self.size]]
        rows: list[np.ndarray] = []
        for start in range(0, len(texts), self.size):
            seen = []
            some = texts[start : start + self.size]
            for clone, text in zip(clones, some, strict=False):
                clone.reset()
                seen.append(clone.observe({'text': text, 'episode_done': True}))
            rows += [np.asarray(act['probs']) for act in self.agent.batch_act(seen)]
            self.watch.tell(len(some), len(texts))
        return np.array(rows, np.float32).reshape(-1, len(self.labels))
