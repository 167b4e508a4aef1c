"""
Pages: one self-contained HTML file each, which needs no network and trusts no text.
Reports for the terminal: texts from templates, too (`templates/terminal/`).

All of them are made from `templates/base.html.j2`, with the parts of
`macros.html.j2` and the style sheet `page.css`.

Everything that a system said is escaped: by jinja2 in the HTML, as ``\\u003c`` in the
JSON that a page's own script reads and shows as text nodes. On top of that, a content
security policy names the hash of the one style and the one script, so that nothing else
can run or load.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from parlai_ext import __version__
from parlai_ext.core import frozen, is_floor, printable
from parlai_ext.view.table import shown_table, with_interval
from parlai_ext.view.text import (
    count_of,
    cut_line,
    data_size,
    duration,
    few_names,
    interval,
    join_names,
    money,
    number,
    one_line,
    percent,
    rough_count,
    signed,
    single_spaced,
    value_text,
    visible,
    visible_data,
    wrap_lines,
)

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = files('parlai_ext.view') / 'templates'


@frozen
class Section:
    """
    A section of a page.

    :param id: the anchor, a plain word; its template in `templates/sections/` has this
        name, begins with an ``h2`` and is given ``section``.
    :param title: of the link to it.
    :param data: what the template shows, as ``section.data``.
    :param remarks: what it adds to the answer whether to believe a ranking, by
        dimension, as half sentences.
    """

    id: str
    title: str
    data: Any
    remarks: Mapping[str, str] = field(default_factory=dict)


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


def render_page(
    template: str,
    *,
    style: str = '',
    script: str = '',
    data: Any = None,
    **values: Any,
) -> str:
    """
    Return a page as one HTML file.

    :param style: a file in `templates/` with what its style has beyond `page.css`.
    :param script: the page's own script.
    :param data: what the script reads.
    :param values: of the template's other names.
    """
    css = template_text('page.css') + (template_text(style) if style else '')
    # only this style and this script have any effect
    style_hash, script_hash = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (css, script)
    )
    policy = (
        f"default-src 'none'; style-src 'sha256-{style_hash}'; "
        f"script-src 'sha256-{script_hash}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    page = render_part(
        template,
        policy=Markup(policy),
        style=Markup(css),
        script=Markup(script),
        data=Markup(script_safe_json(data)),
        **values,
    )
    return str(page)


def render_part(template: str, **values: Any) -> Markup:
    """
    Return what a template makes of these values, as HTML.
    """
    return Markup(page_environment().get_template(template).render(**values))


def terminal_lines(template: str, **values: Any) -> list[str]:
    """
    Return the lines of a report for the terminal. No value ends a line, so that names
    of others cannot add one.

    :param template: the name of its file in `templates/terminal/`.
    :param values: of the template's names.
    """
    found = page_environment(escapes=False).get_template(f'terminal/{template}.txt.j2')
    return found.render(**values).rstrip('\n').split('\n')


def terminal_sentence(template: str, **values: Any) -> str:
    """
    Return a report for the terminal, as `terminal_lines` makes it, as one line.
    """
    return ' '.join(terminal_lines(template, **values))


def terminal_notes(template: str, **values: Any) -> list[str]:
    """
    Return the lines of a report, as `terminal_lines` makes it, that have a text: a
    template may leave out any of its notes.
    """
    return [line for line in terminal_lines(template, **values) if line]


def print_report(template: str, **values: Any) -> None:
    """
    Print a report for the terminal, as `terminal_lines` makes it.
    """
    print(*terminal_lines(template, **values), sep='\n')


def wrapped(text: str, indent: str = '') -> str:
    """
    Return a paragraph, however its template lays it out, as lines of a terminal.
    """
    return ''.join(f'{line}\n' for line in wrap_lines(single_spaced(text), indent))


def in_columns(text: str) -> str:
    """
    Return lines whose cells are parted by tabs as a table of a terminal. The first line
    has the headings; no value of a template ends a cell.
    """
    headings, *rows = (line.split('\t') for line in text.splitlines())
    return '\n'.join(shown_table(headings, rows).lines()) + '\n'


# what templates know by these names
FILTERS = (
    number,
    percent,
    count_of,
    duration,
    data_size,
    money,
    join_names,
    cut_line,
    with_interval,
    value_text,
    wrapped,
    in_columns,
)
FUNCTIONS = (few_names, interval, is_floor, rough_count, signed)


@cache
def page_environment(escapes: bool = True) -> Environment:
    """
    Return jinja2; a number or text is made readable as it goes in.

    :param escapes: HTML is escaped.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(template_text),
        autoescape=escapes,
        undefined=StrictUndefined,
        finalize=partial(_finalize, visible if escapes else printable),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update({one.__name__: one for one in FILTERS})
    # in a report it goes as it is
    environment.filters['line'] = (
        one_line if escapes else lambda text: Markup(one_line(text))
    )
    environment.globals.update({one.__name__: one for one in FUNCTIONS})
    environment.globals['version'] = __version__
    return environment


def _finalize(shown: Callable[[str], str], value: Any) -> Any:
    """
    Return a value as it is shown: numbers as text, hidden characters made visible.

    :param shown: what becomes of a text.
    """
    if isinstance(value, Markup):
        return value
    if isinstance(value, float) or value is None:
        return number(value)
    return shown(value) if isinstance(value, str) else value


def template_text(name: str) -> str:
    """
    Return the text of a template, a style or a script.
    """
    return (TEMPLATES / name).read_text(encoding='utf-8')
