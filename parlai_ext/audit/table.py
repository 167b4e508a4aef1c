"""
The findings of an audit as a table for the terminal.
"""

from __future__ import annotations

from collections.abc import Iterator

from parlai_ext.audit.record import (
    FAILS,
    HOLDS,
    LEFT_OUT,
    NOT_SHOWN,
    OUTCOMES,
    Audit,
    Finding,
)
from parlai_ext.core.display import WIDTH, one_line, terminal_width

INDENT = max(map(len, OUTCOMES)) + 4
QUESTIONS = {
    'Does it depend on which systems are compared?': (
        'target sets',
        'table 6',
        'siblings',
    ),
    'Does it depend on partners, openers or the judge?': (
        'partner families',
        'opener blocks',
        'judge swap',
        'variance',
    ),
    'Can it be gamed?': ('canaries', 'clone as target', 'clone as partner'),
}


def terminal_text(audit: Audit) -> str:
    """
    Return the findings as a table of at most 88 columns.
    """
    head = (
        f'{one_line(audit.protocol)}: {one_line(audit.dimension)} by '
        f'{one_line(audit.scorer)}, {audit.n_systems} systems, '
        f'{_count(audit.n_partners, "partner")}, {_count(audit.n_openers, "opener")}'
    )
    lines = [head]
    for question, parts in QUESTIONS.items():
        lines += ['', question]
        for part in parts:
            for finding in audit.part(part):
                lines += _lines(finding)
    return '\n'.join([*lines, '', closing_line(audit)])


def closing_line(audit: Audit) -> str:
    """
    Return how many findings hold, are not shown, do not hold, and were left out.
    """
    outcomes = [finding.outcome for finding in audit.findings]
    words = {
        HOLDS: ('holds', 'hold'),
        NOT_SHOWN: ('is not shown', 'are not shown'),
        FAILS: ('does not hold', 'do not hold'),
        LEFT_OUT: ('left out', 'left out'),
    }
    counts = [(outcomes.count(outcome), both) for outcome, both in words.items()]
    return ', '.join(f'{n} {one if n == 1 else many}' for n, (one, many) in counts)


def _count(number: int, noun: str) -> str:
    return f'{number} {noun if number == 1 else noun + "s"}'


def _lines(finding: Finding) -> Iterator[str]:
    """
    Yield one finding, its outcome in a column of its own.
    """
    line = f'  {finding.outcome}'.ljust(INDENT)
    for word in one_line(finding.sentence).split(' '):
        if terminal_width(line) + terminal_width(word) >= WIDTH and line.strip():
            yield line.rstrip()
            line = ' ' * INDENT
        line += f'{word} '
    yield line.rstrip()
