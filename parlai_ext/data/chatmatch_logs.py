"""
ChatMatch's logs: one dialogue a file, one turn a line, ``NAME: text``.

Who speaks is in the lines, never in the file's name.
"""

from __future__ import annotations

from collections.abc import Iterator

from parlai_ext.data.source_dialogue import NOT_UTF8, Source, Talk, Turn, brief, is_utf8

FORM = 'NAME: text'


def looks_like(source: Source) -> bool:
    """
    Tell whether the first line with anything in it is a turn.
    """
    first = next((line for line in source.lines if line.strip()), '')
    name, colon, _ = first.partition(':')
    return bool(colon and name.strip()) and first.lstrip()[:1] not in '[{<'


def read(source: Source) -> Iterator[Talk]:
    """
    Yield the file's one dialogue; empty lines are none of its turns.
    """
    turns: list[Turn] = []
    problems = []
    for number, line in enumerate(source.lines, 1):
        name, colon, text = line.partition(':')
        if not line.strip():
            continue
        if not is_utf8(line):
            problems.append(source.bad(number, NOT_UTF8))
        elif not colon or not name.strip():
            what = f'a turn is a line {FORM!r}, this one is {brief(line)}'
            problems.append(source.bad(number, what))
        else:
            turns.append(Turn(name.strip(), text.removeprefix(' '), number))
    first = turns[0].line if turns else 1
    yield Talk(source.file, first, tuple(turns), problems=tuple(problems))
