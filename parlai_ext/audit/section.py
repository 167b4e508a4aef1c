"""
The findings of an audit for readers: as a table for the terminal, as a section of the
page, and as a doubt that decides the headline of a ranking.

Doubts are canaries that score above real systems, and findings that do not hold.
"""

from parlai_ext.audit.record import (
    CANARIES,
    FAILS,
    HOLDS,
    NAME,
    NOT_SHOWN,
    OUTCOMES,
    Audit,
    Finding,
    is_current,
    read_audit,
)
from parlai_ext.core import is_floor
from parlai_ext.report.view import Doubt, Doubts, RankingView
from parlai_ext.results.ranking import Ranking
from parlai_ext.store import RunFolder
from parlai_ext.view import (
    MAX_CHARACTERS,
    WIDTH,
    Cell,
    Column,
    Table,
    wrap_lines,
)
from parlai_ext.view.page import Section, terminal_lines

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
    'Can it be gamed?': (CANARIES, 'clone as target', 'clone as partner'),
}
STYLES = {HOLDS: 'good', FAILS: 'warn'}
COLUMNS = (
    Column(
        'outcome',
        'Outcome',
        show=lambda one: Cell(
            '',
            tags=((one.outcome, STYLES.get(one.outcome, '')),) if one.outcome else (),
        ),
    ),
    Column('sentence', 'Finding'),
)


def audit_doubts(run: RunFolder, ranking: Ranking, folder: str = '') -> Doubts:
    """
    Return what the stored audit of the scores behind a ranking says against it, by
    dimension; nothing where there is no such audit, or the run has changed since.

    :param folder: of the ranking in the run folder.
    :raises UserError: when the audit's file is damaged.
    """
    audit = read_audit(run, folder)
    if audit is None or audit.basis.signature != ranking.scorer_signature:
        return {}
    doubt = audit_doubt(audit)
    if doubt is None or not is_current(run, audit):
        return {}
    # games are decided by the scores that were audited
    rated = ranking.rated_dimension
    return dict.fromkeys([audit.dimension, *([rated] if rated else [])], doubt)


def audit_doubt(audit: Audit) -> Doubt | None:
    """
    Return the doubt of an audit; `None` if no canary scores above a real system and no
    finding is refuted.
    """
    failed = [one for one in audit.findings if one.outcome == FAILS]
    canaries = [row for row in audit.rows if row.part == CANARIES]
    beaten = [
        row for row in canaries if row.quantity == 'beaten' and not is_floor(row.system)
    ]
    if not beaten and not failed:
        return None
    names = list(dict.fromkeys(row.case for row in beaten))
    sure = {row.case for row in beaten if row.value}  # those beyond chance
    words, sentence = terminal_lines(
        'audit_doubt',
        audit=audit,
        failed=failed,
        n_others=sum(one.part != CANARIES for one in failed),
        kinds=[name.removeprefix('canary-').replace('_', ' ') for name in names],
        n_canaries=sum(row.quantity == 'rank' for row in canaries),
        n_sure=len(sure),
        systems=list(dict.fromkeys(row.system for row in beaten)),
    )
    return Doubt(sentence, words, is_refuted=not beaten or bool(sure))


def audit_section(view: RankingView) -> Section | None:
    """
    Return the section on the audit of the scores behind a ranking; `None` without one.

    :raises UserError: when the audit's file is damaged.
    """
    if view.scorer is not None:
        return None
    audit = read_audit(view.run)
    if audit is None:
        return None
    if audit.basis.signature != view.ranking.scorer_signature:
        reason = f'{NAME} is of other scores than this ranking'
        return Section('audit', 'Audit', {'reason': reason})
    current = is_current(view.run, audit)
    questions = [(text, Table(COLUMNS, own)) for text, own in answered_questions(audit)]
    data = {'audit': audit, 'questions': questions, 'is_current': current}
    outcomes = audit.outcomes
    counts = [
        f'{name} {outcomes[name]}'
        for name in (FAILS, NOT_SHOWN, HOLDS)
        if outcomes[name]
    ]
    is_told = current and counts
    remarks = {audit.dimension: f'audit: {", ".join(counts)}'} if is_told else {}
    return Section('audit', 'Audit', data, remarks)


def answered_questions(audit: Audit) -> list[tuple[str, list[Finding]]]:
    """
    Return the questions to which an audit has findings, with these.
    """
    answers = [
        (question, [finding for part in parts for finding in audit.part(part)])
        for question, parts in QUESTIONS.items()
    ]
    return [(question, findings) for question, findings in answers if findings]


def terminal_text(audit: Audit) -> list[str]:
    """
    Return the findings as lines of at most 88 columns.
    """
    width = WIDTH - 1 - max(map(len, OUTCOMES)) - 4
    return terminal_lines(
        'audit',
        audit=audit,
        questions=answered_questions(audit),
        wrapped=lambda text: wrap_lines(text, '', width, '', MAX_CHARACTERS),
    )
