"""
What a scorer may be trusted for, by rules that are stated before the numbers are seen.

**The check**: replies of people against their spoilt copies, with the marks of the
judge check (judges.md): pass, weak or fail.

**Single responses**: the mean of its Spearman correlations over the turn-level sets on
which nothing was fitted is above that of every trivial scorer on the same sets, and its
interval is above 0 on most of these sets. "Above" is tested at 5 %: by paired
permutations of the responses (Holm) or, for rows of an earlier run, by the interval of
the differences over sets (Student, Bonferroni).

**Order of systems**: over the system-level sets on which it was not fitted, the mean
of its Spearman correlations is at least 0.5 and above that of every trivial scorer, and
its interval is above 0 on at least half of them.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from scipy.stats import t as student

from parlai_ext.bench.compare import ALL_SETS, BenchComparison
from parlai_ext.files.agreement_file import MeasuredAgreement
from parlai_ext.judge_check.record import FAIL, PASS, WEAK
from parlai_ext.view import number

LEAST_ORDER = 0.5
LEVEL = 0.05

Rows = Sequence[MeasuredAgreement]


@dataclass(frozen=True)
class CheckOutcome:
    """
    How a scorer did on spoilt replies of people.

    :param reason: the gravest reason for another outcome than ``pass``, or why there
        was no check (``outcome`` is '' then).
    :param shares: by kind, in what share of the pairs the reply scores above its copy.
    """

    outcome: str
    reason: str = ''
    shares: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Measured:
    """
    The agreement of a scorer with people.

    :param rows: of its main score and the overall quality of each set.
    :param is_kept: the rows are those of an earlier run.
    :param failure: why it could not be built, if so.
    """

    label: str
    signature: str
    rows: tuple[MeasuredAgreement, ...]
    is_trivial: bool = False
    is_kept: bool = False
    check: CheckOutcome | None = None
    failure: str | None = None

    def counted(self, level: str, left_out: Collection[str]) -> Rows:
        """
        Return the rows of a level without those of some sets, and without those on
        which the scorer was fitted.
        """
        return [
            row
            for row in self.rows
            if row.level == level and row.set not in left_out and not row.fitted
        ]


@dataclass(frozen=True)
class TrustFacts:
    """
    The numbers behind the sentence on one scorer.

    :param turn: rows of the turn-level sets that count; `system`: those of systems.
    :param beats_trivial: its mean over turn-level sets is above that of every trivial
        scorer; `None` where that could not be tested.
    :param trivial_systems: the best mean of a trivial scorer on the same sets.
    """

    measured: Measured
    turn: Rows
    system: Rows
    beats_trivial: bool | None
    trivial_systems: float | None

    @property
    def judges_responses(self) -> bool:
        """
        True if it may be trusted on single responses.
        """
        above = sum(_low(row) > 0 for row in self.turn)
        return bool(self.beats_trivial) and 2 * above > len(self.turn)

    @property
    def orders_systems(self) -> bool:
        """
        True if it may be trusted to order systems.
        """
        mean = mean_spearman(self.system)
        if mean is None or mean < LEAST_ORDER:
            return False
        above = sum(_low(row) > 0 for row in self.system)
        trivial = self.trivial_systems
        return 2 * above >= len(self.system) and (trivial is None or mean > trivial)


def _low(row: MeasuredAgreement) -> float:
    return -1.0 if row.low is None else row.low


def mean_spearman(rows: Rows) -> float | None:
    """
    Return the mean of Spearman correlations; `None` without any.
    """
    return fmean(row.spearman for row in rows) if rows else None


def mean_interval(rows: Rows) -> tuple[float, float | None, float | None]:
    """
    Return the mean over sets with its interval (Student, over sets); of one set its own
    interval, over contexts.
    """
    values = [row.spearman for row in rows]
    if len(values) == 1:
        return values[0], rows[0].low, rows[0].high
    return student_interval(values)


def student_interval(
    values: Sequence[float], level: float = LEVEL
) -> tuple[float, float, float]:
    """
    Return the mean of two or more values with its interval.
    """
    mean = fmean(values)
    quantile = float(student.ppf(1 - level / 2, len(values) - 1))
    half = quantile * stdev(values) / sqrt(len(values))
    return mean, mean - half, mean + half


def trust_facts(
    scorers: Sequence[Measured],
    measured: Measured,
    comparison: BenchComparison,
    left_out: Collection[str],
) -> TrustFacts:
    """
    Return the facts on one scorer.

    :param comparison: of the turn-level sets on which nothing was fitted.
    :param left_out: sets that count for no rule at turn level.
    """
    trivial = [one for one in scorers if one.is_trivial and one.label != measured.label]
    turn, system = measured.counted('turn', left_out), measured.counted('system', ())
    sets = {row.set for row in system}
    means = [
        mean_spearman([row for row in one.counted('system', ()) if row.set in sets])
        for one in trivial
    ]
    beats = _beats(comparison, measured.label, [one.label for one in trivial])
    if beats is None:
        beats = _beats_over_sets(turn, trivial)
    return TrustFacts(
        measured,
        turn,
        system,
        beats,
        max((mean for mean in means if mean is not None), default=None),
    )


def _beats(
    comparison: BenchComparison, scorer: str, trivial: Sequence[str]
) -> bool | None:
    """
    Return whether a scorer's mean is above that of every trivial one beyond chance;
    `None` where a comparison is missing.
    """
    better = {}
    for row in comparison.differences:
        if row.set_name == ALL_SETS and scorer in (row.first, row.second):
            other = row.second if row.first == scorer else row.first
            sign = 1 if row.first == scorer else -1
            better[other] = sign * row.difference > 0 and row.p_holm < LEVEL
    if not trivial or any(one not in better for one in trivial):
        return None
    return all(better[one] for one in trivial)


def _beats_over_sets(turn: Rows, trivial: Sequence[Measured]) -> bool | None:
    """
    Return the same from the differences over the sets that both have; `None` where they
    have less than two in common.
    """
    found = []
    for other in trivial:
        theirs = {row.set: row.spearman for row in other.rows if row.level == 'turn'}
        differences = [
            row.spearman - theirs[row.set] for row in turn if row.set in theirs
        ]
        if len(differences) < 2:
            return None
        _, low, _ = student_interval(differences, LEVEL / len(trivial))
        found.append(low > 0)
    return all(found) if found else None


def trust_sentence(facts: TrustFacts) -> str:
    """
    Return what a scorer may be trusted for, in one line of plain English.
    """
    measured, check = facts.measured, facts.measured.check
    if measured.failure:
        return f'not measured: {measured.failure}.'
    if not (facts.turn or facts.system):
        because = f' ({check.reason})' if check and check.reason else ''
        return f'not measured: it has no score on the sets that count{because}.'
    if measured.is_trivial:
        text = 'for nothing by itself: it is what every other scorer has to beat'
    elif check is not None and check.outcome == FAIL:
        return f'not to be trusted: {check.reason or "it fails the check"}.'
    else:
        text = _verdict(facts)
        if check is None or check.outcome not in (PASS, WEAK):
            text += '; not checked on spoilt replies'
        elif check.outcome == WEAK:
            text += f'; a weak judge: {check.reason}'
    return f'{text}.'


def _verdict(facts: TrustFacts) -> str:
    if facts.judges_responses and facts.orders_systems:
        return 'for the order of systems, and for means over many responses'
    if facts.orders_systems:
        return 'for the order of systems, not for single responses'
    if facts.judges_responses:
        return 'for means over many responses, not for the order of systems'
    return 'for nothing: no better here than trivial scorers'


def numbers_text(facts: TrustFacts) -> str:
    """
    Return the means behind the verdict, with the number of sets, and of items where
    they are of an earlier run.
    """
    texts = [
        f'{what} {number(mean)} ({len(rows)})'
        for rows, what in ((facts.turn, 'turns'), (facts.system, 'systems'))
        if (mean := mean_spearman(rows)) is not None
    ]
    items = [row.n for row in facts.turn]
    if facts.measured.is_kept and items:
        texts.append(f'{min(items)} to {max(items)} items a set')
    return ', '.join(texts)
