"""
The section of the page about a run that stops when it is settled.
"""

from __future__ import annotations

from typing import Any

from parlai_ext.core.display import interval, number
from parlai_ext.ranking.stopping import Stopping
from parlai_ext.report.page import Section
from parlai_ext.report.stopping import (
    VALID,
    changed_looks,
    digits_of,
    outcome_text,
    pairs_closest_first,
    rank_text,
    ranked_systems,
    summary,
)
from parlai_ext.results.ranking import Ranking
from parlai_ext.store import RunFolder


def stopping_section(run: RunFolder, ranking: Ranking) -> Section | None:
    """
    Return the section for the page; `None` where the number of openers was fixed.
    """
    if ranking.stopping is None:
        return None
    data = section_data(ranking.stopping)
    stopping = ranking.stopping
    n_settled = len(stopping.pairs) - stopping.looks[-1].n_open
    remark = f'{n_settled} of {len(stopping.pairs)} pairs settled when it stopped'
    remarks = {stopping.dimension: remark} if stopping.is_final else {}
    return Section('stopping', 'When it stopped', 'stopping.html.j2', data, remarks)


def section_data(stopping: Stopping) -> dict[str, Any]:
    """
    Return what the section shows.
    """
    pairs = pairs_closest_first(stopping)
    digits = digits_of(pairs)
    return {
        'summary': summary(stopping),
        'valid': VALID,
        'looks': changed_looks(stopping),
        'n_looks': len(stopping.looks),
        'ranks': [
            (name, rank_text(stopping, name)) for name in ranked_systems(stopping)
        ],
        'pairs': [
            {
                'first': pair.first,
                'second': pair.second,
                'difference': number(pair.difference, digits),
                'interval': interval(pair.low, pair.high, digits),
                'outcome': outcome_text(pair),
            }
            for pair in pairs
        ],
    }
