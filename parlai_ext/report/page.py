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
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from parlai_ext.core.display import (
    digits_for,
    interval,
    number,
    one_line,
    percent,
    visible,
    visible_data,
)
from parlai_ext.ranking.standings import Standing, best_first
from parlai_ext.report import judge, summary, tournament
from parlai_ext.report.browse import PageDialogues
from parlai_ext.report.columns import COLUMNS, LeaderboardRow, PageColumn
from parlai_ext.report.plot import axis_for, mark
from parlai_ext.report.recipe import guessed_names, recipe
from parlai_ext.results.ranking import Ranking

FED_EVIDENCE = (
    'Log-probability of each follow-up as the next utterance; nearer 0 is likelier.'
)
OTHER_EVIDENCE = 'The numbers from which the scorer made its scores.'
# no text of a system can hold this: there < is escaped
LINKS = re.compile('<!-- pages -->.*?<!-- /pages -->')
TEMPLATES = files('parlai_ext.report') / 'templates'


def render_page(
    ranking: Ranking,
    manifest: Mapping[str, Any],
    shown: PageDialogues,
    scorer: Mapping[str, Any] | None = None,
    speed: str | None = None,
) -> str:
    """
    Return the report of a run as one HTML file.

    :param scorer: the record of another scorer than the protocol's (see `recipe`).
    :param speed: how fast the judge scored, in words, where that is known.
    """
    style, script = template_text('report.css'), template_text('report.js')
    guessed = guessed_names(ranking.guessed, manifest)
    marked = replace(ranking, guessed=tuple(sorted(guessed)))
    data = _browser_data(ranking, shown)
    main = data['dimensions'][0] if data['dimensions'] else 'any dimension'
    result = ranking.tournament
    return (
        page_environment()
        .get_template('report.html.j2')
        .render(
            policy=Markup(content_policy(style, script)),
            style=Markup(style),
            script=Markup(script),
            data=Markup(script_safe_json(data)),
            ranking=ranking,
            sentences=summary.sentences(ranking),
            warnings=summary.warnings(ranking),
            judge=judge.page_data(ranking, speed),
            boards=[
                _board(marked, name, ranking.standings[name])
                for name in ranking.dimensions
            ],
            baselines=[
                _board(marked, name, standings, of_baseline=True)
                for name, standings in ranking.baselines.items()
            ],
            trivial=_trivial(ranking),
            bounds=_bounds(ranking),
            shown=shown,
            chosen_by='points' if result else main,
            both_judged=any(dialogue['both'] for dialogue in shown.dialogues),
            tournament=tournament.page_data(result) if result else None,
            recipe=recipe(ranking, manifest, guessed, scorer),
        )
    )


def with_links(text: str, links: Mapping[str, str]) -> str:
    """
    Return a page with links to the pages of the run's other scorers in their place.

    :param links: the scorer of each other page by the page's relative address.
    """
    items = ', '.join(
        f'<a href="{escape(address)}" dir="auto">{escape(one_line(name))}</a>'
        for address, name in links.items()
    )
    line = f'<p class="more">Other scorers of this run: {items}</p>' if items else ''
    return LINKS.sub(lambda _: f'<!-- pages -->{line}<!-- /pages -->', text, count=1)


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


def _browser_data(ranking: Ranking, shown: PageDialogues) -> dict[str, Any]:
    """
    Return what the page's script shows: best target first, its best dialogue first.
    """
    names = ranking.dimensions
    best = best_first(ranking.standings[names[0]]) if names else []
    place_of_target = {standing.system: i for i, standing in enumerate(best)}

    def key(dialogue: Mapping[str, Any]) -> tuple[Any, ...]:
        value = dialogue['value']
        target = dialogue['target']
        return (
            place_of_target.get(target, len(place_of_target)),
            value is None,
            -(value or 0.0),
        )

    is_fed = ranking.scorer_signature.startswith('fed')
    return {
        'dimensions': ranking.scored_dimensions,
        'labels': list(shown.labels),
        'evidence': FED_EVIDENCE if is_fed else OTHER_EVIDENCE,
        'dialogues': sorted(shown.dialogues, key=key),
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
