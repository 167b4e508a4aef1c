"""
The files of a ranking that people read: `leaderboard.csv`, and the one page of a run,
`report.html`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from parlai_ext.core.display import duration
from parlai_ext.report.audit_doubt import audit_doubts
from parlai_ext.report.audit_section import audit_section
from parlai_ext.report.recipe import scorer_name, value_text
from parlai_ext.report.stopping_section import stopping_section
from parlai_ext.report.table import leaderboard_csv
from parlai_ext.results.ranking import NAME as RANKING
from parlai_ext.results.ranking import Ranking, read_ranking
from parlai_ext.store import RunFolder

if TYPE_CHECKING:
    from parlai_ext.report.page import Section

PAGE = 'report.html'
# what other parts of the project have written into the run folder and the page shows:
# each function returns a section, or `None` where its file is not there
SECTIONS: tuple[Callable[[RunFolder, Ranking], Section | None], ...] = (
    stopping_section,
    audit_section,
)


def write_report(run: RunFolder, ranking: Ranking, folder: str = '') -> Path:
    """
    Write the leaderboard of a ranking and the page of all rankings of the run; return
    the page's path.

    The same run and rankings give the same bytes (with a forecast, the time that
    scoring took is on the page, too).

    :param folder: of the ranking in the run folder, ending in ``/`` unless empty.
    """
    run.write_text(f'{folder}leaderboard.csv', leaderboard_csv(ranking))
    run.write_text(PAGE, render_run(run, {folder: ranking}))
    return run.root / PAGE


def render_run(run: RunFolder, known: Mapping[str, Ranking]) -> str:
    """
    Return the page of a run with all its rankings, that of the protocol's scorer first.

    :param known: rankings by folder, which need not be read.
    """
    from parlai_ext.report.browse import (
        CandidateList,
        PageScorer,
        read_page_dialogues,
    )
    from parlai_ext.report.page import RankingView, render_page
    from parlai_ext.results.details import read_details

    rankings = all_rankings(run, known)
    scorers = [
        PageScorer(
            one.scorer_signature, one.scored_dimensions, one.tournament is not None
        )
        for one in rankings.values()
    ]
    candidates = CandidateList(scorers[0], run.manifest)
    views: list[RankingView] = []
    for folder, ranking in rankings.items():
        store = run.scores(ranking.scorer_signature)
        views.append(
            RankingView(
                ranking,
                read_details(run, ranking, None if views else candidates.add),
                name=_scorer_words(run, ranking.scorer_signature),
                scorer=store.about() if folder else None,
                speed=None if folder else speed(run),
                doubts=audit_doubts(run, ranking, folder),
            )
        )
    shown = read_page_dialogues(run, scorers, candidates.candidates)
    main = views[0].ranking
    sections = [section for make in SECTIONS if (section := make(run, main))]
    return render_page(views, run.manifest, shown, sections)


def all_rankings(run: RunFolder, known: Mapping[str, Ranking]) -> dict[str, Ranking]:
    """
    Return every ranking of a run by its folder, that of the protocol's scorer first.

    :param known: rankings by folder, which need not be read.
    :raises UserError: for a ranking that is damaged.
    """
    paths = [run.root / RANKING, *run.root.glob(f'rankings/*/{RANKING}')]
    folders = [
        f'rankings/{path.parent.name}/' if path.parent != run.root else ''
        for path in paths
        if path.is_file()
    ]
    return {
        name: known.get(name) or read_ranking(run, name)
        for name in sorted({*known, *folders})
    }


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
