"""
What the audit of a run says against believing its ranking: canaries that score above
real systems, and findings that do not hold. It decides the headline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from parlai_ext.audit.record import (
    FAILS,
    HOLDS,
    NOT_SHOWN,
    Audit,
    OldAudit,
    Row,
    is_current,
    read_audit,
)
from parlai_ext.core.display import few_names, join_names
from parlai_ext.core.floors import is_floor
from parlai_ext.results.ranking import Ranking
from parlai_ext.store import RunFolder

CANARIES = 'canaries'  # the part of an audit


@dataclass(frozen=True)
class AuditDoubt:
    """
    A reason of the audit not to believe a ranking.

    :param sentence: the headline.
    :param words: the same in a few words.
    :param tag: one or two words for the card of the judge.
    :param is_refuted: beyond chance; otherwise all of it may be chance.
    """

    sentence: str
    words: str
    tag: str
    is_refuted: bool


Doubts = Mapping[str, AuditDoubt]  # by dimension


def audit_doubts(run: RunFolder, ranking: Ranking, folder: str = '') -> Doubts:
    """
    Return what the stored audit of the scores behind a ranking says against it, by
    dimension; nothing where there is no such audit, or the run has changed since.

    :param folder: of the ranking in the run folder.
    :raises UserError: when the audit's file is damaged.
    """
    try:
        audit = read_audit(run, folder)
    except OldAudit:
        return {}
    if audit is None or audit.basis.signature != ranking.scorer_signature:
        return {}
    doubt = audit_doubt(audit)
    if doubt is None or not is_current(run, audit):
        return {}
    # games are decided by the scores that were audited
    rated = ranking.rated_dimension
    return dict.fromkeys([audit.dimension, *([rated] if rated else [])], doubt)


def audit_doubt(audit: Audit) -> AuditDoubt | None:
    """
    Return the doubt of an audit; `None` if no canary scores above a real system and no
    finding is refuted.
    """
    decided = [
        one for one in audit.findings if one.outcome in (HOLDS, NOT_SHOWN, FAILS)
    ]
    failed = [one for one in decided if one.outcome == FAILS]
    others = [one for one in failed if one.part != CANARIES]
    canaries = [row for row in audit.rows if row.part == CANARIES]
    beaten = [
        row for row in canaries if row.quantity == 'beaten' and not is_floor(row.system)
    ]
    if beaten:
        n_canaries = sum(row.quantity == 'rank' for row in canaries)
        doubt = _canary_doubt(beaten, n_canaries)
        if not others:
            return doubt
        verb = 'does' if len(others) == 1 else 'do'
        n_others = f'{len(others)} of {len(decided)} audit findings'
        more = f'Besides, {n_others} {verb} not hold.'
        return replace(doubt, sentence=f'{doubt.sentence} {more}')
    if not failed:
        return None
    verb = 'does' if len(failed) == 1 else 'do'
    words = f'{len(failed)} of {len(decided)} audit findings {verb} not hold'
    sentence = f'{words}. {failed[0].sentence}'
    return AuditDoubt(sentence, words, 'audit: does not hold', is_refuted=True)


def _canary_doubt(beaten: Sequence[Row], n_canaries: int) -> AuditDoubt:
    """
    Return the doubt of canaries that score above real systems.

    :param beaten: a row for each canary and each real system below it, 1 where that is
        beyond chance.
    """
    names = list(dict.fromkeys(row.case for row in beaten))
    sure = {row.case for row in beaten if row.value}
    systems = few_names(list(dict.fromkeys(r.system for r in beaten)), 'and')
    verb = 'fools' if len(names) == 1 else 'fool'
    words = f'{len(names)} of {n_canaries} canaries {verb} this judge'
    chance = 'which may be chance'
    if sure:
        n_sure = '' if len(sure) == len(names) else f', {len(sure)} of them'
        chance = f'{n_sure} beyond chance'.removeprefix(', ').strip()
    sentence = (
        f'{words}: {join_names([_kind(name) for name in names])} '
        f'{"scores" if len(names) == 1 else "score"} above {systems}, {chance}; the '
        'order below says little about quality.'
    )
    return AuditDoubt(sentence, words, 'fooled by canaries', is_refuted=bool(sure))


def _kind(name: str) -> str:
    return name.removeprefix('canary-').replace('_', ' ')
