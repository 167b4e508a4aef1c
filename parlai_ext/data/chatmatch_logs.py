"""
ChatMatch's logs: one dialogue a file, one turn a line, ``NAME: text``.

The speakers are named in the lines, never in the file's name.
"""

from collections.abc import Iterator

from parlai_ext.data.source_file import (
    NOT_UTF8,
    SourceDialogue,
    SourceFile,
    SourceTurn,
    brief,
)
from parlai_ext.files.text_file import is_utf8

FORM = 'NAME: text'


def looks_like(source: SourceFile) -> bool:
    """
    Return True if the first line that is not empty is a turn.
    """
    first = source.first_line
    name, colon, _ = first.partition(':')
    return bool(colon and name.strip()) and first.lstrip()[:1] not in '[{<'


def read(source: SourceFile) -> Iterator[SourceDialogue]:
    """
    Yield the one dialogue of the file; empty lines are skipped.
    """
    turns: list[SourceTurn] = []
    problems = []
    for number, line in enumerate(source.lines, 1):
        name, colon, text = line.partition(':')
        if not line.strip():
            continue
        if not is_utf8(line):
            problems.append(source.problem(number, NOT_UTF8))
        elif not colon or not name.strip():
            problem = f'a turn is a line {FORM!r}, this one is {brief(line)}'
            problems.append(source.problem(number, problem))
        else:
            turns.append(SourceTurn(name.strip(), text.removeprefix(' '), number))
    first = turns[0].line if turns else 1
    yield SourceDialogue(source.file, first, tuple(turns), problems=tuple(problems))
