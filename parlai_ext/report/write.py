"""
From a ranking to the files that people read: `leaderboard.csv` and `report.html`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parlai_ext.core.progress import bar_of
from parlai_ext.report.table import leaderboard_csv
from parlai_ext.store import RunFolder


def write_report(run: RunFolder, ranking: Mapping[str, Any], folder: str = '') -> Path:
    """
    Write the leaderboard and the page; return the page's path.

    The same run and ranking give the same bytes.

    :param folder: where in the run folder they go, ending in ``/`` unless empty.
    """
    from parlai_ext.report.browse import fill_shelf
    from parlai_ext.report.page import render_page
    from parlai_ext.report.summary import dialogue_dimensions, scorer_of

    games = 'tournament' in ranking
    what = (run, scorer_of(ranking), dialogue_dimensions(ranking), games)
    n_there = sum(shard.n_dialogues for shard in run.dialogue_shards())
    with bar_of('report', n_there, delay=3) as bar:
        shelf = fill_shelf(*what, seen=bar.update)
    run.write_text(f'{folder}leaderboard.csv', leaderboard_csv(ranking))
    run.write_text(f'{folder}report.html', render_page(ranking, run.manifest, shelf))
    return run.root / f'{folder}report.html'
