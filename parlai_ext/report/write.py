"""
The files of a ranking that people read: `leaderboard.csv`, and the one page of a run,
`report.html`.
"""

from collections.abc import Mapping
from pathlib import Path

from parlai_ext.audit.section import audit_doubts
from parlai_ext.core.signature import scorer_name
from parlai_ext.report.table import leaderboard_csv
from parlai_ext.report.view import RankingView, dimension_details
from parlai_ext.results.ranking import NAME as RANKING
from parlai_ext.results.ranking import Ranking, read_ranking
from parlai_ext.results.tables import ScoreTables, read_tables
from parlai_ext.store import RunFolder
from parlai_ext.view.text import duration, value_text

PAGE = 'report.html'


def write_report(
    run: RunFolder,
    ranking: Ranking,
    folder: str = '',
    tables: ScoreTables | None = None,
) -> Path:
    """
    Write the leaderboard of a ranking and the page of all rankings of the run; return
    the page's path.

    The same run and rankings give the same bytes (with a forecast, the time that
    scoring took is on the page, too).

    :param folder: of the ranking in the run folder, ending in ``/`` unless empty.
    :param tables: the scores that are ranked, where they were read already.
    """
    run.write_text(f'{folder}leaderboard.csv', leaderboard_csv(ranking))
    run.write_text(PAGE, render_run(run, {folder: ranking}, tables))
    return run.root / PAGE


def render_run(
    run: RunFolder, known: Mapping[str, Ranking], tables: ScoreTables | None = None
) -> str:
    """
    Return the page of a run with all its rankings, that of the protocol's scorer first.

    :param known: rankings by folder, which need not be read.
    :param tables: the scores that these are of.
    """
    from parlai_ext.collect.forecast import seconds_per_scored_dialogue
    from parlai_ext.report.browse import (
        dialogue_candidates,
        read_page_dialogues,
    )
    from parlai_ext.report.page import render_rankings

    paths = run.root.glob(f'rankings/*/{RANKING}')
    folders = [f'rankings/{path.parent.name}/' for path in paths]
    folders += [''] if (run.root / RANKING).is_file() else []
    rankings = {
        name: known.get(name) or read_ranking(run, name)
        for name in sorted({*known, *folders})
    }
    candidates = None
    seconds = seconds_per_scored_dialogue(run)
    speed = None if seconds is None else f'{duration(seconds)} for each dialogue'
    views: list[RankingView] = []
    for folder, ranking in rankings.items():
        own = tables if folder in known else None
        own = own or read_tables(run, ranking.scorer_signature)
        if candidates is None:
            candidates = dialogue_candidates(own, ranking, run.manifest)
        about = run.scores(ranking.scorer_signature).about()
        judge = (about.get('config') or {}).get('judge_model_file')
        name = scorer_name(ranking.scorer_signature)
        views.append(
            RankingView(
                ranking,
                run.manifest,
                dimension_details(run, ranking, own),
                name=name
                if judge in (None, 'none')
                else f'{name}, {value_text(judge)}',
                scorer=about if folder else None,
                speed=None if folder else speed,
                doubts=audit_doubts(run, ranking, folder),
                run=run,
            )
        )
    shown = read_page_dialogues(run, [*rankings.values()], candidates or ())
    return render_rankings(views, shown)
