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
from collections.abc import Collection, Mapping, Sequence
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
from parlai_ext.core.floors import is_floor
from parlai_ext.report import summary, tournament
from parlai_ext.report.browse import Shelf
from parlai_ext.report.plot import axis_for, mark
from parlai_ext.report.recipe import guessed_names, recipe
from parlai_ext.report.table import why_unranked

FED_EVIDENCE = (
    'Log-probability of each follow-up as the next utterance; nearer 0 is likelier.'
)
OTHER_EVIDENCE = 'The numbers from which the scorer made its scores.'
TEMPLATES = files('parlai_ext.report') / 'templates'


def render_page(
    ranking: Mapping[str, Any], manifest: Mapping[str, Any], shelf: Shelf
) -> str:
    """
    Return the report of a run as one HTML file.
    """
    style, script = _source('report.css'), _source('report.js')
    dimensions = summary.dimension_order(ranking)
    guessed = guessed_names(ranking, manifest)
    boards = [_board(ranking, d, guessed) for d in dimensions]
    data = _browser_data(ranking, summary.dialogue_dimensions(ranking), shelf)
    main = data['dimensions'][0] if data['dimensions'] else 'any dimension'
    return (
        _environment()
        .get_template('report.html.j2')
        .render(
            policy=Markup(content_policy(style, script)),
            style=Markup(style),
            script=Markup(script),
            data=Markup(script_safe_json(data)),
            protocol_name=ranking['protocol'],
            sentences=summary.sentences(ranking),
            warnings=summary.warnings(ranking),
            notes=ranking.get('notes', []),
            boards=boards,
            baselines=_baselines(ranking, guessed),
            trivial=_trivial(ranking, dimensions),
            failures=ranking.get('failures', {}),
            bounds=_bounds(ranking, dimensions),
            truncated=ranking.get('truncated') or {},
            shelf=shelf,
            chosen_by='points' if 'tournament' in ranking else main,
            both_judged=any(one['both'] for one in shelf.dialogues),
            tournament=tournament.page_data(ranking),
            recipe=recipe(ranking, manifest),
        )
    )


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


def _environment() -> Environment:
    """
    Return jinja2 with escaping on; a number or text is made readable as it goes in.
    """
    environment = Environment(
        loader=FunctionLoader(_source),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=number, percent=percent, words=summary.words, line=one_line
    )
    environment.globals.update(
        interval=interval, coefficient=summary.coefficient, agreement=summary.agreement
    )
    return environment


def _finalize(value: Any) -> Any:
    if isinstance(value, Markup):
        return value
    if isinstance(value, float) or value is None:
        return number(value)
    return visible(value) if isinstance(value, str) else value


def _source(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding='utf-8')


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode('utf-8')).digest()
    return f'sha256-{base64.b64encode(digest).decode()}'


def _browser_data(
    ranking: Mapping[str, Any], dimensions: Sequence[str], shelf: Shelf
) -> dict[str, Any]:
    """
    Return what the page's script shows: best target first, its best dialogue first.
    """
    boards = summary.dimension_order(ranking)
    best = summary.ordered(ranking['dimensions'][boards[0]]) if boards else []
    place = {row['system']: i for i, row in enumerate(best)}

    def key(dialogue: Mapping[str, Any]) -> tuple[Any, ...]:
        value = dialogue['value']
        target = dialogue['target']
        return (place.get(target, len(place)), value is None, -(value or 0.0))

    scorer = summary.scorer_of(ranking)
    return {
        'dimensions': list(dimensions),
        'labels': list(shelf.labels),
        'evidence': FED_EVIDENCE if scorer.startswith('fed') else OTHER_EVIDENCE,
        'dialogues': sorted(shelf.dialogues, key=key),
    }


def _board(
    ranking: Mapping[str, Any], dimension: str, guessed: Collection[str]
) -> dict[str, Any]:
    """
    Return the leaderboard of one dimension, ready to draw.
    """
    rows = ranking['dimensions'][dimension]
    found = ranking.get('reference', {}).get(dimension)
    unequal = summary.not_comparable(ranking)
    drawn = _drawn(ranking, rows, guessed, unequal)
    rated = (ranking.get('tournament') or {}).get('name') == dimension
    return {**drawn, 'name': dimension, 'reference': found, 'rating': rated}


def _baselines(
    ranking: Mapping[str, Any], guessed: Collection[str]
) -> list[dict[str, Any]]:
    return [
        {**_drawn(ranking, rows, guessed), 'name': name, 'rating': False}
        for name, rows in ranking.get('baselines', {}).items()
    ]


def _drawn(
    ranking: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    guessed: Collection[str],
    unequal: Collection[str] = (),
) -> dict[str, Any]:
    """
    Return rows with the places of their marks, what they are, and the common axis.
    """
    axis = axis_for(rows)
    drawn = [
        {
            **row,
            'mark': mark(axis, row),
            'floor': is_floor(row['system']),
            'guessed': row['system'] in guessed,
            'unequal': row['system'] in unequal,
            'why': None if row['rank'] is not None else why_unranked(ranking, row),
        }
        for row in summary.ordered(rows)
    ]
    digits = digits_for([row['score'] for row in rows])
    return {'rows': drawn, 'axis': axis, 'digits': digits}


def _trivial(
    ranking: Mapping[str, Any], dimensions: Sequence[str]
) -> list[dict[str, Any]]:
    """
    Return the scorer's agreement with the reference and each trivial baseline's.
    """
    reference = ranking.get('reference', {})
    beside = ranking.get('baseline_reference', {})
    return [
        {
            'dimension': d,
            'own': reference[d],
            'baselines': [(name, found.get(d)) for name, found in beside.items()],
        }
        for d in dimensions
        if d in reference
    ]


def _bounds(
    ranking: Mapping[str, Any], dimensions: Sequence[str]
) -> list[dict[str, Any]]:
    """
    Return, for each system with unscored dialogues, what these could change.
    """
    found = []
    for dimension in dimensions:
        rows = {r['system']: r for r in ranking['dimensions'][dimension]}
        for system, bound in ranking.get('bounds', {}).get(dimension, {}).items():
            if bound.get('unscored_share'):
                score = rows.get(system, {}).get('score')
                one = {'dimension': dimension, 'system': system, 'score': score}
                found.append({**bound, **one})
    return found
