"""
DSTC9's interactive dialogues: a JSON list with one object a rating.

Neighbouring objects with the same ``context`` rate one dialogue. The lines of a context
begin with ``User:`` or ``System:``; any other line continues the turn before it. Every
bot is called ``System``, so it is given the name of its file.
"""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from parlai_ext.data.source_file import (
    BadRecord,
    SourceDialogue,
    SourceFile,
    SourceTurn,
    brief,
)

HUMAN, BOT = 'User', 'System'


def looks_like(source: SourceFile) -> bool:
    """
    Return True if the file begins as a JSON list of objects.
    """
    start = '\n'.join(source.lines[:40])[:4000]
    return start.lstrip().startswith('[') and '{' in start


def read(source: SourceFile) -> Iterator[SourceDialogue]:
    """
    Yield the rated dialogues; several ratings in a row of one dialogue yield it once.
    """
    return (dialogue for dialogue, _ in rated_dialogues(source))


def rated_dialogues(
    source: SourceFile,
) -> Iterator[tuple[SourceDialogue, list[Mapping[str, Any]]]]:
    """
    Yield the dialogues with their ratings, which are the objects of the file.
    """
    try:
        ratings = source.document
        if not ratings:
            raise BadRecord("a JSON list of objects with 'context' is expected")
    except BadRecord as error:
        yield source.unreadable(error.line, str(error)), []
        return
    n = 0
    for context, same in groupby(enumerate(ratings, 1), key=_context):
        numbered = list(same)
        number = numbered[0][0]
        try:
            if not isinstance(context, str):
                raise BadRecord(f"'context' is a text, not {brief(context)}")
            n += 1
            turns = tuple(_turns(context, source.stem))
        except BadRecord as error:
            yield source.unreadable(1, f'object {number}: {error}'), []
            continue
        human = frozenset({HUMAN})
        name = f'{source.stem}-{n}'
        dialogue = SourceDialogue(
            source.file, 1, turns, name, human, place=f'object {number}: '
        )
        yield dialogue, [rating for _, rating in numbered]


def _context(numbered: tuple[int, Any]) -> Any:
    record = numbered[1]
    return record.get('context') if isinstance(record, dict) else None


def _turns(context: str, bot: str) -> Iterator[SourceTurn]:
    """
    Yield the turns of a context; line breaks inside a turn are kept.
    """
    names = {HUMAN: HUMAN, BOT: bot}
    speaker, texts = '', list[str]()
    for line in context.removesuffix('\n').split('\n'):
        name, colon, text = line.partition(':')
        if colon and name in names:
            if speaker:
                yield SourceTurn(speaker, '\n'.join(texts).strip(), 1)
            speaker, texts = names[name], [text]
        elif speaker:
            texts.append(line)
        else:
            raise BadRecord(
                f"a context begins with '{HUMAN}:' or '{BOT}:', not {brief(line)}"
            )
    yield SourceTurn(speaker, '\n'.join(texts).strip(), 1)
