"""
Two things that ParlAI's rankers get wrong for us: whose lines a batch may not repeat,
and whose vectors a candidate file has.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from parlai.core.torch_agent import Batch
from parlai.core.torch_ranker_agent import TorchRankerAgent
from parlai.utils import logging as parlai_logging

from parlai_ext.core.errors import UserError


@contextmanager
def own_histories(
    agent: TorchRankerAgent, clones: Sequence[TorchRankerAgent]
) -> Iterator[None]:
    """
    Let every row of a batch avoid the lines of its own dialogue.

    torch_ranker_agent.py:585 reads the history of the agent whose `batch_act` is
    called, for all rows, where each row's clone knows what was said in its dialogue.
    """
    rows: list[int] = []

    def eval_step(batch: Batch) -> Any:
        rows[:] = batch.valid_indices.tolist()
        return type(agent).eval_step(agent, batch)

    def block_repeats(candidates: list[list[str]]) -> list[list[str]]:
        pairs = zip(rows, candidates, strict=True)
        left = [clones[row].block_repeats([ranked])[0] for row, ranked in pairs]
        if not all(left):  # ParlAI would take the first of none
            raise LookupError('every candidate has been said; the file needs more')
        return left

    agent.eval_step, agent.block_repeats = eval_step, block_repeats
    parlai_logging.logger.addFilter(_worth_saying)
    try:
        yield
    finally:
        parlai_logging.logger.removeFilter(_worth_saying)
        del agent.eval_step, agent.block_repeats


def _worth_saying(record: logging.LogRecord) -> bool:
    """
    Tell a warning from ParlAI's news of which candidates a ranker has.
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
    TorchRankerAgent._save_candidates = _forget
    try:
        yield
    finally:
        TorchRankerAgent._save_candidates = original


def _forget(*args: Any, **kwargs: Any) -> None:
    """
    Save nothing.
    """


def check_candidates(
    opt: Mapping[str, Any], where: Callable[[str, str], UserError]
) -> None:
    """
    Refuse a ranker without a file of replies to choose from.

    :param opt: what the agent will be built with.
    :param where: makes the error about an option of this system.
    """
    # FiD and RAG carry a ranker's options for the poly-encoder in their retriever
    if 'fixed_candidate_vecs' not in opt or 'rag_retriever_type' in opt:
        return
    if opt['fixed_candidate_vecs'] not in ('reuse', 'replace'):
        raise where(
            'fixed_candidate_vecs',
            'no file of vectors is read: nothing says which candidates are theirs',
        )
    if opt.get('interactive_candidates', 'fixed') != 'fixed':
        return
    path = opt.get('fixed_candidates_path')
    if not path:
        raise where(
            'fixed_candidates_path', 'not given: a file with one possible reply a line'
        )
    if not Path(path).is_file():
        raise where('fixed_candidates_path', f'there is no file {path}')
