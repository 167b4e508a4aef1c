"""
The files of a ranking that people read: `leaderboard.csv` and `report.html`.
"""

from __future__ import annotations

from pathlib import Path

from parlai_ext.core.progress import bar_of
from parlai_ext.report.table import leaderboard_csv
from parlai_ext.results.ranking import Ranking
from parlai_ext.store import RunFolder


def write_report(run: RunFolder, ranking: Ranking, folder: str = '') -> Path:
    """
    Write the leaderboard and the page; return the page's path.

    The same run and ranking give the same bytes.

    :param folder: where in the run folder they go, ending in ``/`` unless empty.
    """
    from parlai_ext.report.browse import read_page_dialogues
    from parlai_ext.report.page import render_page

    n_dialogues = sum(shard.n_dialogues for shard in run.dialogue_shards())
    with bar_of('report', n_dialogues, delay=3) as bar:
        shown = read_page_dialogues(
            run,
            ranking.scorer_signature,
            ranking.scored_dimensions,
            games=ranking.tournament is not None,
            on_read=bar.update,
        )
    run.write_text(f'{folder}leaderboard.csv', leaderboard_csv(ranking))
    run.write_text(f'{folder}report.html', render_page(ranking, run.manifest, shown))
    return run.root / f'{folder}report.html'
