"""
Contexts that were too long for the judge: whose scores compare all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parlai_ext.core.display import percent
from parlai_ext.results.tables import Tables


def truncation(tables: Tables, max_share: float) -> dict[str, Any]:
    """
    Return, for each target some of whose contexts were too long for the judge, of how
    many it did not read all, and whether the scores compare all the same.
    """
    return {
        name: {
            'n_contexts': tables.n_contexts[name],
            'n_cut': cut,
            'share': cut / tables.n_contexts[name],
            'comparable': cut / tables.n_contexts[name] <= max_share,
        }
        for name, cut in sorted(tables.n_cut.items())
        if cut
    }


def truncation_notes(truncated: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """
    Say whose contexts were cut, but few enough; too many are a warning of the report.
    """
    said = [
        f'{name} {one["n_cut"]} of {one["n_contexts"]} ({percent(one["share"])})'
        for name, one in truncated.items()
        if one['comparable']
    ]
    return [f'contexts too long for the judge, cut: {", ".join(said)}'] if said else []
