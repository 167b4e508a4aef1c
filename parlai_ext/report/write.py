"""
The files of a ranking that people read: `leaderboard.csv` and `report.html`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from parlai_ext.core.display import duration
from parlai_ext.core.progress import bar_of
from parlai_ext.report.recipe import scorer_name, value_text
from parlai_ext.report.table import leaderboard_csv
from parlai_ext.results.ranking import NAME as RANKING
from parlai_ext.results.ranking import Ranking, read_ranking
from parlai_ext.store import RunFolder

PAGE = 'report.html'


def write_report(run: RunFolder, ranking: Ranking, folder: str = '') -> Path:
    """
    Write the leaderboard and the page, and link the run's pages; return the page's
    path.

    The same run and ranking give the same bytes (with a forecast, the time that scoring
    took is on the page, too).

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
    scorer = run.scores(ranking.scorer_signature).about() if folder else None
    time = None if folder else speed(run)
    page = render_page(ranking, run.manifest, shown, scorer, time)
    run.write_text(f'{folder}leaderboard.csv', leaderboard_csv(ranking))
    run.write_text(f'{folder}{PAGE}', page)
    _link_pages(run, {folder: ranking})
    return run.root / f'{folder}{PAGE}'


def _link_pages(run: RunFolder, known: Mapping[str, Ranking]) -> None:
    """
    Give each page of the run links to those of its other scorers.

    :param known: rankings by folder, which need not be read.
    """
    from parlai_ext.report.page import with_links

    pages = [run.root / PAGE, *sorted(run.root.glob(f'rankings/*/{PAGE}'))]
    pages = [p for p in pages if p.is_file() and p.with_name(RANKING).is_file()]
    if len(pages) < 2:
        return
    names = {}
    for page in pages:
        folder = '' if page.parent == run.root else f'rankings/{page.parent.name}/'
        ranking = known.get(folder) or read_ranking(run, folder)
        names[folder] = _scorer_words(run, ranking.scorer_signature)
    for folder in names:
        up = '../../' if folder else ''
        links = {f'{up}{n}{PAGE}': name for n, name in names.items() if n != folder}
        text = (run.root / folder / PAGE).read_bytes().decode()
        if (linked := with_links(text, links)) != text:
            run.write_text(f'{folder}{PAGE}', linked)


def _scorer_words(run: RunFolder, signature: str) -> str:
    """
    Return the name of a scorer and its judge, if it has one.
    """
    config = run.scores(signature).about().get('config') or {}
    judge = config.get('judge_model_file')
    name = scorer_name(signature)
    return f'{name}, {value_text(judge)}' if judge not in (None, 'none') else name


def speed(run: RunFolder) -> str | None:
    """
    Return how fast the protocol's scorer scored, in words; `None` where no time was
    recorded, as it is beside a forecast only.
    """
    from parlai_ext.collect.forecast import seconds_per_scored_dialogue

    seconds = seconds_per_scored_dialogue(run)
    return None if seconds is None else f'{duration(seconds)} for each dialogue'
