"""
The page: one self-contained HTML file that needs no network and trusts no text.

Everything that a system said is escaped: by jinja2 in the HTML, as ``\\u003c`` in the
JSON that the page's own script reads and shows as text nodes. On top of that, a content
security policy names the hash of the one style and the one script, so that nothing else
can run or load.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from parlai_ext.core.display import (
    digits_for,
    interval,
    number,
    one_line,
    percent,
    visible,
    visible_data,
)
from parlai_ext.core.nouns import content_id
from parlai_ext.ranking.standings import Standing, best_first
from parlai_ext.report import glance, judge, summary, tournament
from parlai_ext.report.audit_doubt import Doubts
from parlai_ext.report.browse import PageDialogues
from parlai_ext.report.columns import COLUMNS, LeaderboardRow, PageColumn
from parlai_ext.report.details import PAIR_COLUMNS, details_data, pair_table
from parlai_ext.report.plot import axis_for, mark
from parlai_ext.report.recipe import guessed_names, recipe, scorer_name
from parlai_ext.report.table import leaderboard_csv
from parlai_ext.results.details import DimensionDetails
from parlai_ext.results.ranking import Ranking
from parlai_ext.store.manifest import Manifest

FED_EVIDENCE = (
    'Log-probability of each follow-up as the next utterance; nearer 0 is likelier.'
)
OTHER_EVIDENCE = 'The numbers from which the scorer made its scores.'
# of the page's own script, in this order
SCRIPTS = (
    *('report_view.js', 'report_dialogue.js', 'report_list.js'),
    *('report_files.js', 'report_start.js'),
)
TEMPLATES = files('parlai_ext.report') / 'templates'


@dataclass(frozen=True)
class RankingView:
    """
    A ranking as the page shows it.

    :param details: what lies behind it, by dimension, as far as that was worked out.
    :param name: its scorer and judge in words.
    :param scorer: the record of another scorer than the protocol's (see `recipe`).
    :param speed: how fast the judge scored, in words, where that is known.
    :param doubts: what its audit says against it, by dimension.
    """

    ranking: Ranking
    details: Mapping[str, DimensionDetails] = field(default_factory=dict)
    name: str = ''
    scorer: Mapping[str, Any] | None = None
    speed: str | None = None
    doubts: Doubts = field(default_factory=dict)

    @property
    def id(self) -> str:
        """
        The name of the scores' folder.
        """
        return content_id(self.ranking.scorer_signature)


@dataclass(frozen=True)
class Section:
    """
    A section that another part of the project adds to the page, below the failures.

    :param id: the anchor, a plain word.
    :param template: the name of its template in `templates/`, which begins with an
        ``h2`` and is given ``section``.
    :param data: what the template shows, as ``section.data``.
    :param remarks: what it adds to the answer whether to believe the ranking, by
        dimension, as half sentences.
    """

    id: str
    title: str
    template: str
    data: Any
    remarks: Mapping[str, str] = field(default_factory=dict)


def render_page(
    views: Sequence[RankingView],
    manifest: Manifest,
    shown: PageDialogues,
    sections: Sequence[Section] = (),
) -> str:
    """
    Return the report of a run as one HTML file.

    :param views: the rankings of the run, one for each scorer, the main one first.
    :param sections: what other parts of the project say of the first ranking.
    """
    style = template_text('report.css')
    script = page_script()
    main = views[0].ranking
    drawn = [
        _view_data(view, manifest, sections if view is views[0] else ())
        for view in views
    ]
    both_judged = any(dialogue['both'] for dialogue in shown.dialogues)
    return (
        page_environment()
        .get_template('report.html.j2')
        .render(
            policy=Markup(content_policy(style, script)),
            style=Markup(style),
            script=Markup(script),
            data=Markup(script_safe_json(_browser_data(views, shown))),
            protocol=main.protocol,
            views=drawn,
            sections=sections,
            shown=shown,
            chosen_by='points' if main.tournament else _first(main.scored_dimensions),
            both_judged=both_judged,
        )
    )


def page_script() -> str:
    """
    Return the page's own script: the files of `SCRIPTS` in one function.
    """
    parts = ''.join(template_text(name) for name in SCRIPTS)
    return f"'use strict';\n(function () {{\n{parts}}})();\n"


def _first(names: Sequence[str]) -> str:
    return names[0] if names else 'any dimension'


def _view_data(
    view: RankingView, manifest: Manifest, sections: Sequence[Section]
) -> dict[str, Any]:
    """
    Return what the templates draw of one ranking, of which the sections speak.
    """
    ranking = view.ranking
    details = {
        name: details_data(ranking.standings[name], own)
        for name, own in view.details.items()
    }
    guessed = guessed_names(ranking.guessed, manifest)
    marked = replace(ranking, guessed=tuple(sorted(guessed)))
    result = ranking.tournament
    main = ranking.dimensions[:1]
    leading_doubt = next((view.doubts[d] for d in main if d in view.doubts), None)
    return {
        'id': view.id,
        'name': view.name,
        'ranking': ranking,
        'glance': [
            glance.answers(
                ranking,
                name,
                view.details.get(name),
                [one.remarks[name] for one in sections if name in one.remarks],
                view.doubts.get(name),
            )
            for name in ranking.dimensions
        ],
        'sentences': summary.sentences(ranking, view.doubts),
        'warnings': summary.warnings(ranking),
        'judge': judge.page_data(ranking, view.speed, leading_doubt),
        'boards': leaderboards(marked),
        'details': details,
        'tables': {k for own in details.values() for k, table in own.items() if table},
        'wide_intervals': ranking.partners != 'fixed',
        'few_partners': summary.few_partners_sentence(
            next(
                filter(None, (summary.few_partners(ranking, d) for d in details)), None
            )
        ),
        'is_imported': ranking.is_imported,
        'baselines': [
            _board(marked, name, standings, of_baseline=True)
            for name, standings in ranking.baselines.items()
        ],
        'trivial': _trivial(ranking),
        'bounds': _bounds(ranking),
        'tournament': tournament.page_data(result) if result else None,
        'recipe': recipe(ranking, manifest, guessed, view.scorer),
    }


def content_policy(style: str, script: str) -> str:
    """
    Return a policy under which only this style and this script have any effect.
    """
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; "
        f"script-src '{_hash(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def script_safe_json(data: Any) -> str:
    """
    Return JSON that can stand inside a script element whatever it holds.
    """
    text = json.dumps(
        visible_data(data), ensure_ascii=False, allow_nan=False, separators=(',', ':')
    )
    for char in '<>&':
        text = text.replace(char, f'\\u{ord(char):04x}')
    return text


def static_page(template: str, **values: Any) -> str:
    """
    Return a page without a script as one HTML file.

    :param values: of the template's names, besides ``policy`` and ``style``.
    """
    style = template_text('report.css')
    page = page_environment().get_template(template)
    return page.render(
        policy=Markup(content_policy(style, '')), style=Markup(style), **values
    )


def leaderboards(ranking: Ranking) -> list[dict[str, Any]]:
    """
    Return the leaderboard of each dimension, ready to draw.
    """
    return [
        _board(ranking, name, ranking.standings[name]) for name in ranking.dimensions
    ]


@cache
def page_environment() -> Environment:
    """
    Return jinja2 with escaping on; a number or text is made readable as it goes in.
    """
    environment = Environment(
        loader=FunctionLoader(template_text),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=number, percent=percent, words=summary.baseline_words, line=one_line
    )
    environment.globals.update(
        interval=interval,
        coefficient=summary.coefficient_text,
        agreement=summary.agreement_text,
    )
    return environment


def _finalize(value: Any) -> Any:
    """
    Return a value as the page shows it: numbers as text, hidden characters made
    visible.
    """
    if isinstance(value, Markup):
        return value
    if isinstance(value, float) or value is None:
        return number(value)
    return visible(value) if isinstance(value, str) else value


def template_text(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding='utf-8')


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode('utf-8')).digest()
    return f'sha256-{base64.b64encode(digest).decode()}'


def _browser_data(views: Sequence[RankingView], shown: PageDialogues) -> dict[str, Any]:
    """
    Return what the page's script shows.
    """
    labels = shown.labels or ((),) * len(views)
    return {
        'scorers': [
            _scorer_data(view, own) for view, own in zip(views, labels, strict=True)
        ],
        'dialogues': shown.dialogues,
    }


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
        'leaderboard': leaderboard_csv(ranking),
        'pairs': [PAIR_COLUMNS, *pair_table(view.details)],
    }


def _board(
    ranking: Ranking,
    name: str,
    standings: Sequence[Standing],
    of_baseline: bool = False,
) -> dict[str, Any]:
    """
    Return the leaderboard of one dimension or baseline, ready to draw.
    """
    is_rating = not of_baseline and name == ranking.rated_dimension
    columns = [
        (column.page, title)
        for column in COLUMNS
        if column.page and (title := _title(column.page, is_rating)) is not None
    ]
    axis = axis_for(standings)
    digits = digits_for([standing.score for standing in standings])
    rows = [
        LeaderboardRow(ranking, standing, digits, of_baseline)
        for standing in best_first(standings)
    ]
    return {
        'name': name,
        'reference': None if of_baseline else ranking.reference.get(name),
        'failure': None if of_baseline else judge.failure_on(ranking, name),
        'rating': is_rating,
        'axis': axis,
        'digits': digits,
        'columns': [
            {'title': title, 'style': column.style} for column, title in columns
        ],
        'rows': [
            {
                'standing': row.standing,
                'floor': row.floor,
                'begins_group': _begins_group(rows, k),
                'mark': mark(axis, row.standing),
                'cells': [
                    column.cell(row) if column.cell else None for column, _ in columns
                ],
            }
            for k, row in enumerate(rows)
        ],
    }


def _begins_group(rows: Sequence[LeaderboardRow], k: int) -> bool:
    """
    True if the system of row ``k`` is in another tied group than the one above it.
    """
    if k == 0 or rows[k].standing.group is None:
        return False
    return rows[k].standing.group != rows[k - 1].standing.group


def _title(column: PageColumn, is_rating: bool) -> str | None:
    """
    Return a column's title; `None` where it is left out.
    """
    if is_rating and column.rating_title is not None:
        return column.rating_title or None
    return column.title


def _trivial(ranking: Ranking) -> list[dict[str, Any]]:
    """
    Return how the scorer and each trivial baseline agree with the reference.
    """
    return [
        {
            'dimension': dimension,
            'own': ranking.reference[dimension],
            'baselines': [
                (name, by_dimension.get(dimension))
                for name, by_dimension in ranking.baseline_reference.items()
            ],
        }
        for dimension in ranking.dimensions
        if dimension in ranking.reference
    ]


def _bounds(ranking: Ranking) -> list[dict[str, Any]]:
    """
    Return, for each system with unscored dialogues, the lowest and highest mean that
    they could lead to.
    """
    rows = []
    for dimension in ranking.dimensions:
        scores = {
            standing.system: standing.score for standing in ranking.standings[dimension]
        }
        for system, bounds in ranking.bounds.get(dimension, {}).items():
            if bounds.unscored_share:
                rows.append(
                    {
                        'dimension': dimension,
                        'system': system,
                        'score': scores.get(system),
                        'bounds': bounds,
                    }
                )
    return rows
