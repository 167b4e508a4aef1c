"""
The page of a run: a view of each of its rankings, made of sections, and its dialogues.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from parlai_ext.ranking.standings import best_first
from parlai_ext.report import glance, summary
from parlai_ext.report.browse import PageDialogues, dialogues_section
from parlai_ext.report.columns import file_table
from parlai_ext.report.details import PAIR_COLUMNS, pair_table
from parlai_ext.report.recipe import scorer_name
from parlai_ext.report.view import RankingView
from parlai_ext.view.page import Section, render_page, template_text
from parlai_ext.view.text import digits_for

# the sections of a ranking in their order; each function returns one for a
# `RankingView`, or `None` where it has nothing to show
SECTIONS = (
    'parlai_ext.report.table:leaderboard_section',
    'parlai_ext.judge_check.section:judge_section',
    'parlai_ext.report.details:pairs_section',
    'parlai_ext.report.details:partners_section',
    'parlai_ext.report.details:spread_section',
    'parlai_ext.tournament.section:tournament_section',
    'parlai_ext.report.table:agreement_section',
    'parlai_ext.report.table:failures_section',
    'parlai_ext.stopping.section:stopping_section',
    'parlai_ext.audit.section:audit_section',
)
BELOW = ('parlai_ext.report.recipe:method_section',)  # the dialogues
FED_EVIDENCE = (
    'Log-probability of each follow-up as the next utterance; nearer 0 is likelier.'
)
OTHER_EVIDENCE = 'The numbers from which the scorer made its scores.'
# of the page's own script, in this order
SCRIPTS = (
    'report_view.js',
    'report_dialogue.js',
    'report_list.js',
    'report_files.js',
    'report_start.js',
)


def render_rankings(views: Sequence[RankingView], shown: PageDialogues) -> str:
    """
    Return the report of a run as one HTML file.

    :param views: the rankings of the run, one for each scorer, the main one first.
    """
    main = views[0].ranking
    labels = shown.labels or ((),) * len(views)
    pairs = zip(views, labels, strict=True)
    drawn = []
    for view in views:
        sections, dimensions = _sections(SECTIONS, view), view.ranking.dimensions
        remarks = {
            name: [one.remarks[name] for one in sections if name in one.remarks]
            for name in dimensions
        }
        drawn.append(
            {
                'view': view,
                'answers': [glance.answers(view, n, remarks[n]) for n in dimensions],
                'sentences': summary.sentences(view.ranking, view.doubts),
                'warnings': summary.warnings(view.ranking),
                'sections': sections,
                'below': _sections(BELOW, view),
            }
        )
    scripts = ''.join(map(template_text, SCRIPTS))
    return render_page(
        'report.html.j2',
        script=f"'use strict';\n(function () {{\n{scripts}}})();\n",
        data={
            'scorers': [_scorer_data(view, own) for view, own in pairs],
            'dialogues': shown.dialogues,
        },
        views=drawn,
        dialogues=dialogues_section(main, shown),
        coefficient=summary.coefficient_text,
        agreement=summary.agreement_text,
        words=summary.baseline_words,
    )


def _sections(names: Sequence[str], view: RankingView) -> list[Section]:
    sections = []
    for name in names:
        module, _, function = name.partition(':')
        make: Callable[[RankingView], Section | None]
        make = getattr(import_module(module), function)
        if section := make(view):
            sections.append(section)
    return sections


def _scorer_data(view: RankingView, labels: Sequence[str]) -> dict[str, Any]:
    """
    Return what the page's script knows of a scorer.

    `boards` are the dimensions with a leaderboard, `best` the systems of each, best
    first; `dimensions` are those with scores of dialogues, `digits` their decimals.
    """
    ranking = view.ranking
    standings = [ranking.standings[name] for name in ranking.scored_dimensions]
    is_fed = scorer_name(ranking.scorer_signature) == 'fed'
    return {
        'id': view.id,
        'name': view.name,
        'boards': ranking.dimensions,
        'dimensions': ranking.scored_dimensions,
        'digits': [digits_for([one.score for one in rows]) for rows in standings],
        'best': [
            [one.system for one in best_first(ranking.standings[name])]
            for name in ranking.dimensions
        ],
        'labels': list(labels),
        'evidence': FED_EVIDENCE if is_fed else OTHER_EVIDENCE,
        'leaderboard': file_table(ranking).csv(),
        'pairs': [PAIR_COLUMNS, *pair_table(view.details)],
    }
