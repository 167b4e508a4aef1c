"""
The section of the page that shows the findings of `parlai audit_run`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parlai_ext.audit.record import (
    FAILS,
    HOLDS,
    NAME,
    NOT_SHOWN,
    Audit,
    OldAudit,
    is_current,
    read_audit,
)
from parlai_ext.audit.table import QUESTIONS, closing_line
from parlai_ext.results.ranking import Ranking
from parlai_ext.store import RunFolder

if TYPE_CHECKING:
    from parlai_ext.report.page import Section

TAGS = {HOLDS: 'good', FAILS: 'warn'}


def audit_section(run: RunFolder, ranking: Ranking) -> Section | None:
    """
    Return the section on the audit of the scores behind a ranking; `None` without one.

    :raises UserError: when the audit's file is damaged.
    """
    from parlai_ext.report.page import Section

    try:
        audit = read_audit(run)
    except OldAudit:
        return _not_shown(f'{NAME} was written by another version of parlai_ext')
    if audit is None:
        return None
    if audit.basis.signature != ranking.scorer_signature:
        return _not_shown(f'{NAME} is of other scores than this ranking')
    questions = [
        (question, [finding for part in parts for finding in audit.part(part)])
        for question, parts in QUESTIONS.items()
    ]
    data = {
        'audit': audit,
        'questions': [(text, findings) for text, findings in questions if findings],
        'tags': TAGS,
        'closing': closing_line(audit),
        'is_current': is_current(run, audit),
    }
    remarks = {audit.dimension: _remark(audit)} if data['is_current'] else {}
    return Section('audit', 'Audit', 'audit.html.j2', data, remarks)


def _remark(audit: Audit) -> str:
    """
    Return how many findings of an audit do not hold or are not shown, as half a
    sentence.
    """
    outcomes = [finding.outcome for finding in audit.findings]
    n_fails, n_open = outcomes.count(FAILS), outcomes.count(NOT_SHOWN)
    n_all = outcomes.count(HOLDS) + n_fails + n_open
    text = f'{n_fails} of {n_all} findings of its audit do not hold'
    return f'{text}, {n_open} are not shown' if n_open else text


def _not_shown(reason: str) -> Section:
    """
    Return the section that says why an audit is not shown.
    """
    from parlai_ext.report.page import Section

    return Section('audit', 'Audit', 'audit.html.j2', {'reason': reason})
