"""
DSTC9's interactive dialogues: a JSON list with one object a rating.

Neighbours with the same ``context`` rate one dialogue. A context's lines begin with
``User:`` or ``System:``; other lines go on with the turn before. The bot has the name
of its file, since all are called ``System``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from parlai_ext.data.json_lines import Misshapen
from parlai_ext.data.source_dialogue import NOT_UTF8, Source, Talk, Turn, brief, is_utf8

HUMAN, BOT = 'User', 'System'


def looks_like(source: Source) -> bool:
    """
    Tell whether this is a JSON list of objects with ``context``.
    """
    start = '\n'.join(source.lines[:40])[:4000]
    return start.lstrip().startswith('[') and '{' in start


def read(source: Source) -> Iterator[Talk]:
    """
    Yield the rated dialogues, each once.
    """
    try:
        rated = _rated(source)
    except Misshapen as error:
        yield source.not_talk(error.line, str(error))
        return
    n = 0
    for context, ratings in groupby(enumerate(rated, 1), key=_context):
        place, _ = next(ratings)
        try:
            if not isinstance(context, str):
                raise Misshapen(f"'context' is a text, not {brief(context)}")
            n += 1
            turns = tuple(_turns(context, source.stem))
        except Misshapen as error:
            yield source.not_talk(1, f'object {place}: {error}')
            continue
        human = frozenset({HUMAN})
        name = f'{source.stem}-{n}'
        yield Talk(source.file, 1, turns, name, human, place=f'object {place}: ')


def _rated(source: Source) -> list[Any]:
    """
    Return the list that the file is.
    """
    for number, line in enumerate(source.lines, 1):
        if not is_utf8(line):
            raise Misshapen(NOT_UTF8, number)
    try:
        found = json.loads('\n'.join(source.lines))
    except json.JSONDecodeError as error:
        raise Misshapen(f'not JSON ({error.msg})', error.lineno) from None
    except RecursionError:
        raise Misshapen('not JSON that can be read') from None
    if not isinstance(found, list) or not found:
        raise Misshapen("a JSON list of objects with 'context' is expected")
    return found


def _context(numbered: tuple[int, Any]) -> Any:
    record = numbered[1]
    return record.get('context') if isinstance(record, dict) else None


def _turns(context: str, bot: str) -> Iterator[Turn]:
    """
    Yield a context's turns; a turn's own lines stay lines.
    """
    names = {HUMAN: HUMAN, BOT: bot}
    speaker, said = '', list[str]()
    for line in context.removesuffix('\n').split('\n'):
        name, colon, text = line.partition(':')
        if colon and name in names:
            if speaker:
                yield Turn(speaker, '\n'.join(said).strip(), 1)
            speaker, said = names[name], [text]
        elif speaker:
            said.append(line)
        else:
            raise Misshapen(
                f"a context begins with '{HUMAN}:' or '{BOT}:', not {brief(line)}"
            )
    yield Turn(speaker, '\n'.join(said).strip(), 1)
