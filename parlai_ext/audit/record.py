"""
What an audit says: findings, the numbers behind them, and the file `audit.json`.

Light: pages read it without models.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import content_id
from parlai_ext.core.records import WrongType, record_from_json, record_to_json
from parlai_ext.files.csv_file import spreadsheet_csv
from parlai_ext.store import RunFolder, ScoreStore

SCHEMA = 1
NAME, CSV = 'audit.json', 'audit.csv'
HOLDS, FAILS, LEFT_OUT = 'holds', 'does not hold', 'left out'
CSV_COLUMNS = ('part', 'case', 'system', 'quantity', 'value', 'low', 'high')


@dataclass(frozen=True)
class Finding:
    """
    One sentence about a run, with its number.

    `part` is the check that it comes from. `holds` says whether the result stands this
    check. It is `None` where the check was left out, or only reports.
    """

    part: str
    sentence: str
    holds: bool | None
    left_out: bool = False

    @property
    def outcome(self) -> str:
        """
        The outcome in words: holds, does not hold, left out, or nothing.
        """
        if self.left_out:
            return LEFT_OUT
        return {True: HOLDS, False: FAILS, None: ''}[self.holds]


@dataclass(frozen=True)
class Row:
    """
    One number behind a finding: a quantity of a system in a case (`value` `None`:
    undefined), with its 95 % interval where it has one.
    """

    part: str
    case: str
    system: str
    quantity: str
    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Basis:
    """
    What an audit was computed from.

    `content` is a hash of all scored dialogues and their scores, `options` are those of
    the command that change a number.
    """

    signature: str
    scores: str
    content: str
    n_dialogues: int
    parlai_ext: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Audit:
    """
    The findings on one dimension of a run's scores by one scorer.
    """

    protocol: str
    scorer: str
    dimension: str
    n_systems: int
    n_partners: int
    n_openers: int
    findings: tuple[Finding, ...]
    rows: tuple[Row, ...]
    basis: Basis

    def part(self, name: str) -> list[Finding]:
        """
        Return the findings of one check.
        """
        return [finding for finding in self.findings if finding.part == name]


@dataclass(frozen=True)
class PartResult:
    """
    The findings of one check, and the numbers behind them.
    """

    findings: tuple[Finding, ...]
    rows: tuple[Row, ...] = ()


def left_out(part: str, sentence: str) -> PartResult:
    """
    Return the result of a check that was left out.

    :param sentence: what is left out and why.
    """
    return PartResult((Finding(part, sentence, None, left_out=True),))


def content_of_scores(store: ScoreStore) -> tuple[str, int]:
    """
    Return a hash of all collected dialogues and their scores, and how many dialogues
    there are.
    """
    run = store.run
    parts: list[Any] = []
    number = 0
    for shard in run.dialogue_shards():
        path = store.path(shard.pairing_id, shard.index)
        scores = hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ''
        dialogues = run.dialogues_checksum(shard.pairing_id, shard.index)
        parts.append([shard.pairing_id, shard.index, dialogues, scores])
        number += shard.n_dialogues
    return content_id('audit', parts), number


def write_audit(run: RunFolder, audit: Audit, folder: str = '') -> None:
    """
    Write `audit.json` and `audit.csv` into a folder of the run (``''`` or ending in
    ``/``).
    """
    run.write_text(f'{folder}{CSV}', audit_csv(audit))
    run.write_json(f'{folder}{NAME}', {'schema': SCHEMA, **record_to_json(audit)})


def read_audit(run: RunFolder, folder: str = '') -> Audit | None:
    """
    Return the audit in a folder of the run; `None` where there is none.

    :raises UserError: when it is damaged.
    """
    path = run.root / f'{folder}{NAME}'
    if not path.exists():
        return None
    remedy = f'parlai audit_run --run-dir {run.root} writes it again'
    data = run.read_json(f'{folder}{NAME}', remedy)
    try:
        audit: Audit = record_from_json(Audit, data)
    except WrongType as error:
        raise UserError(f'{path} is damaged: {error}; {remedy}') from None
    return audit


def is_current(run: RunFolder, audit: Audit) -> bool:
    """
    True if the run still has the dialogues and scores that were audited.
    """
    store = run.scores(audit.basis.signature)
    return content_of_scores(store)[0] == audit.basis.content


def audit_csv(audit: Audit) -> str:
    """
    Return the numbers of an audit as CSV.
    """
    return spreadsheet_csv([CSV_COLUMNS, *map(_cells, audit.rows)])


def _cells(row: Row) -> Iterable[object]:
    values = (row.value, row.low, row.high)
    numbers = ('' if value is None else value for value in values)
    return (row.part, row.case, row.system, row.quantity, *numbers)
