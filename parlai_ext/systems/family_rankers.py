"""
Rankers, which choose a reply among the lines of a candidate file.

ParlAI's rankers get two things wrong for us: in a batch, every row avoids the lines of
one dialogue; and vectors of candidates are cached by the candidate file's base name.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from parlai.core.agents import Agent
from parlai.core.torch_agent import Batch
from parlai.core.torch_ranker_agent import TorchRankerAgent
from parlai.utils import logging as parlai_logging

from parlai_ext.core.nouns import System
from parlai_ext.files.option_files import sha256
from parlai_ext.systems.family import Family, OptionError, Options

CANDIDATES = 'fixed_candidates_path'


class Ranker(Family):
    """
    Every subclass of ParlAI's `TorchRankerAgent`, known by the options it has.
    """

    built_with = {'fixed_candidate_vecs': 'replace'}

    def covers(self, opt: Options) -> bool:
        return 'fixed_candidate_vecs' in opt or bool(opt.get(CANDIDATES))

    def check(self, opt: Options, error: OptionError, datapath: str | None) -> None:
        if 'fixed_candidate_vecs' not in opt:
            return  # an agent that generates, though its options name candidates
        if opt['fixed_candidate_vecs'] not in ('reuse', 'replace'):
            raise error(
                'fixed_candidate_vecs',
                'no file of vectors is read: nothing says which candidates are theirs',
            )
        if opt.get('interactive_candidates', 'fixed') == 'fixed':
            path = opt.get(CANDIDATES)
            if not path:
                raise error(
                    CANDIDATES, 'not given: a file with one possible reply a line'
                )
            if not Path(path).is_file():
                raise error(CANDIDATES, f'there is no file {path}')

    def contents(
        self, system: System, opt: Options, datapath: str | None
    ) -> dict[str, str]:
        return {} if system.opt.get(CANDIDATES) else self.candidates(opt)

    def candidates(self, opt: Options) -> dict[str, str]:
        # without the file the agent is refused when it is built
        path = Path(str(opt.get(CANDIDATES) or ''))
        return {CANDIDATES: sha256(path)} if path.is_file() else {}

    def batch_rows(
        self, agent: Agent, clones: Sequence[Agent]
    ) -> AbstractContextManager[None]:
        if not isinstance(agent, TorchRankerAgent):
            return nullcontext()
        return own_histories(agent, clones)


@contextmanager
def own_histories(agent: TorchRankerAgent, clones: Sequence[Any]) -> Iterator[None]:
    """
    Let every row of a batch avoid the lines of its own dialogue.

    torch_ranker_agent.py:585 reads the history of the agent whose `batch_act` is
    called, for all rows, where each row's clone knows the lines of its own dialogue.
    """
    rows: list[int] = []

    def eval_step(batch: Batch) -> Any:
        rows[:] = batch.valid_indices.tolist()
        return type(agent).eval_step(agent, batch)

    def block_repeats(candidates: list[list[str]]) -> list[list[str]]:
        pairs = zip(rows, candidates, strict=True)
        allowed = [clones[row].block_repeats([ranked])[0] for row, ranked in pairs]
        if not all(allowed):  # ParlAI would take the first of none
            raise LookupError('every candidate has been said; the file needs more')
        return allowed

    agent.eval_step, agent.block_repeats = eval_step, block_repeats
    parlai_logging.logger.addFilter(_is_no_candidate_report)
    try:
        yield
    finally:
        parlai_logging.logger.removeFilter(_is_no_candidate_report)
        del agent.eval_step, agent.block_repeats


def _is_no_candidate_report(record: logging.LogRecord) -> bool:
    """
    True if a message is not ParlAI's report of the candidates that a ranker has.
    """
    return not record.getMessage().startswith('[ Executing ')


@contextmanager
def fresh_candidates() -> Iterator[None]:
    """
    Keep rankers from writing vectors of their candidates beside the model.

    torch_ranker_agent.py:930 names that cache after the candidate file's base name:
    the next file of that name, or the next model, would silently get its vectors.
    """
    original = TorchRankerAgent._save_candidates
    TorchRankerAgent._save_candidates = lambda *args, **kwargs: None
    try:
        yield
    finally:
        TorchRankerAgent._save_candidates = original
