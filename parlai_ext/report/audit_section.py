"""
The section of the page that shows the findings of `parlai audit_run`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parlai_ext.audit.record import FAILS, HOLDS, Audit, is_current, read_audit
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

    audit = read_audit(run)
    if audit is None or audit.basis.signature != ranking.scorer_signature:
        return None
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
    Return how many findings of an audit do not hold, as half a sentence.
    """
    outcomes = [finding.outcome for finding in audit.findings]
    n_holds, n_fails = outcomes.count(HOLDS), outcomes.count(FAILS)
    return f'{n_fails} of {n_holds + n_fails} findings of its audit do not hold'
