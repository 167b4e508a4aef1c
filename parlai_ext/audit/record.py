"""
What an audit says: findings, the numbers behind them, and the file `audit.json`.

Light: pages read it without models.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from parlai_ext.core import UserError, bytes_hash, content_id, frozen, record_to_json
from parlai_ext.ranking.intervals import Estimate
from parlai_ext.store import RunFolder, ScoreStore
from parlai_ext.view import Column, Table

NAME, CSV = 'audit.json', 'audit.csv'
HOLDS, NOT_SHOWN, FAILS = 'holds', 'not shown', 'does not hold'
LEFT_OUT, REPORTS = 'left out', ''
CANARIES = 'canaries'  # the part that decides the headline of a ranking
OUTCOMES = (HOLDS, NOT_SHOWN, FAILS, LEFT_OUT, REPORTS)


@frozen
class Finding:
    """
    One sentence about a run, with its number.

    `part` is the check that it comes from. `outcome` says whether the result stands
    this check: `HOLDS`, `FAILS`, `NOT_SHOWN` where the data leave both open, `LEFT_OUT`
    where the check cannot be made, or `REPORTS` for a sentence that only tells more.
    """

    part: str
    sentence: str
    outcome: str


@frozen
class Row:
    """
    One number behind a finding: a quantity of a system in a case (`value` `None`:
    undefined), with its 95 % interval where it has one. In a file with the findings,
    each of them is a row with its outcome.
    """

    part: str
    case: str
    system: str
    quantity: str
    value: float | None
    low: float | None = None
    high: float | None = None
    outcome: str | None = None


@frozen
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


@frozen
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

    @property
    def outcomes(self) -> Counter[str]:
        """
        How many findings have each outcome.
        """
        return Counter(finding.outcome for finding in self.findings)

    @property
    def n_decided(self) -> int:
        """
        How many findings say whether the result stands a check.
        """
        return sum(self.outcomes[one] for one in (HOLDS, NOT_SHOWN, FAILS))

    def part(self, name: str) -> list[Finding]:
        """
        Return the findings of one check.
        """
        return [finding for finding in self.findings if finding.part == name]


@dataclass
class PartResult:
    """
    The findings of one check so far, and the numbers behind them.
    """

    part: str
    findings: list[Finding] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def report(self, sentence: str, outcome: str = REPORTS) -> None:
        """
        Add a finding.
        """
        self.findings.append(Finding(self.part, sentence, outcome))

    def add(
        self, case: str, system: str, numbers: Mapping[str, Estimate | float | None]
    ) -> None:
        """
        Add numbers of a system in a case by their quantities, with the intervals that
        they have.
        """
        for quantity, number in numbers.items():
            if not isinstance(number, Estimate):
                number = Estimate(number, None, None)
            ends = number.value, number.low, number.high
            self.rows.append(Row(self.part, case, system, quantity, *ends))


def outcome_of(*, shown: bool, refuted: bool) -> str:
    """
    Return the outcome of a check from what the data show, beyond chance, of it.
    """
    if refuted:
        return FAILS
    return HOLDS if shown else NOT_SHOWN


class LeftOut(UserError):
    """
    A check that cannot be made of these data; the message says why.
    """


def content_of_scores(store: ScoreStore) -> str:
    """
    Return a hash of all collected dialogues and their scores.
    """
    run, parts = store.run, []
    for shard in run.dialogue_shards():
        path = store.path(shard)
        scores = bytes_hash(path.read_bytes()) if path.exists() else ''
        checksum = run.dialogues_checksum(shard)
        parts.append([shard.pairing_id, shard.index, checksum, scores])
    return content_id('audit', parts)


def write_audit(run: RunFolder, audit: Audit, folder: str = '') -> None:
    """
    Write `audit.json` and `audit.csv` into a folder of the run (``''`` or ending in
    ``/``).
    """
    findings = (
        Row(one.part, one.sentence, '', 'finding', None, outcome=one.outcome)
        for one in audit.findings
    )
    columns = [Column(field.name) for field in fields(Row)]
    run.write_text(f'{folder}{CSV}', Table(columns, [*findings, *audit.rows]).csv())
    run.write_json(f'{folder}{NAME}', record_to_json(audit))


def read_audit(run: RunFolder, folder: str = '') -> Audit | None:
    """
    Return the audit in a folder of the run; `None` where there is none.

    :raises UserError: when it is damaged.
    """
    remedy = f'parlai audit_run {run.as_option} writes it again'
    return run.read_record(f'{folder}{NAME}', Audit, remedy)


def is_current(run: RunFolder, audit: Audit) -> bool:
    """
    True if the run still has the dialogues and scores that were audited.
    """
    store = run.scores(audit.basis.signature)
    return content_of_scores(store) == audit.basis.content
