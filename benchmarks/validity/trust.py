"""
What a scorer may be trusted for, by rules that are stated before the numbers are seen.

**The check**: replies of people against their spoilt copies, with the marks of the
judge check (judges.md): pass, weak or fail.

**Single responses**: the mean of its Spearman correlations over the turn-level sets on
which nothing was fitted is above that of every trivial scorer on the same sets
(paired permutations, Holm, 5 %), and its interval is above 0 on most of these sets.

**Order of systems**: over the system-level sets on which it was not fitted, the mean
of its Spearman correlations is at least 0.5 and above that of every trivial scorer, and
its interval is above 0 on at least half of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

from parlai_ext.bench.agreement_rows import AgreementRow
from parlai_ext.bench.bench_files import Bench, ScorerAbout
from parlai_ext.bench.compare import ALL_SETS, BenchComparison
from parlai_ext.core.display import number
from parlai_ext.judge_check.record import FAIL, PASS, WEAK, DimensionCheck

LEAST_ORDER = 0.5
LEVEL = 0.05


@dataclass(frozen=True)
class TrustFacts:
    """
    The numbers behind the sentence on one scorer.

    :param turn: rows of the turn-level sets that count; `system`: those of systems.
    :param beats_trivial: its mean over turn-level sets is above that of every trivial
        scorer; `None` where that could not be tested.
    :param trivial_systems: the best mean of a trivial scorer on the same sets.
    :param reason_for_nothing: the most frequent reason for a missing score, if any.
    """

    scorer: ScorerAbout
    check: DimensionCheck | None
    turn: Sequence[AgreementRow]
    system: Sequence[AgreementRow]
    beats_trivial: bool | None
    trivial_systems: float | None
    reason_for_nothing: str | None = None

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


def _low(row: AgreementRow) -> float:
    low = row.correlations['spearman'].low
    return -1.0 if low is None else low


def mean_spearman(rows: Sequence[AgreementRow]) -> float | None:
    """
    Return the mean of the rows' Spearman correlations; `None` without any.
    """
    values = [value for row in rows if (value := row.value()) is not None]
    return fsum(values) / len(values) if values else None


def counted_rows(
    bench: Bench, scorer: str, level: str, left_out: Sequence[str]
) -> list[AgreementRow]:
    """
    Return the main rows of a scorer at a level that have a coefficient, without those
    of some sets.
    """
    rows = (
        bench.row(scorer, one.name, level)
        for one in bench.sets
        if one.name not in left_out
    )
    return [row for row in rows if row is not None and row.value() is not None]


def trust_facts(
    bench: Bench,
    scorer: ScorerAbout,
    comparison: BenchComparison,
    check: DimensionCheck | None,
    fitted_sets: Sequence[str],
) -> TrustFacts:
    """
    Return the facts on one scorer.

    :param comparison: of the turn-level sets on which nothing was fitted.
    :param fitted_sets: the sets on which anything was fitted.
    """
    trivial = [one.label for one in bench.scorers if one.is_trivial]
    system = counted_rows(bench, scorer.label, 'system', scorer.fitted_on)
    sets = [row.set_name for row in system]
    means = [
        mean_spearman(
            [r for r in counted_rows(bench, one, 'system', ()) if r.set_name in sets]
        )
        for one in trivial
        if one != scorer.label
    ]
    return TrustFacts(
        scorer,
        check,
        counted_rows(bench, scorer.label, 'turn', fitted_sets),
        system,
        _beats(comparison, scorer.label, trivial),
        max((mean for mean in means if mean is not None), default=None),
        _frequent_reason(bench, scorer.label),
    )


def _frequent_reason(bench: Bench, scorer: str) -> str | None:
    """
    Return the most frequent reason for a missing score of a scorer.
    """
    counts: Counter[str] = Counter()
    for of_set in bench.reasons.get(scorer, {}).values():
        counts.update(of_set)
    return counts.most_common(1)[0][0] if counts else None


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
    others = [one for one in trivial if one != scorer]
    if not others or any(one not in better for one in others):
        return None
    return all(better[one] for one in others)


def trust_sentence(facts: TrustFacts) -> str:
    """
    Return what a scorer may be trusted for, in plain English.
    """
    if facts.scorer.failure:
        return f'Not measured: {facts.scorer.failure}.'
    if facts.scorer.is_trivial:
        return 'For nothing by itself: it is what every other scorer has to beat.'
    if not (facts.turn or facts.system):
        reason = facts.reason_for_nothing
        because = '' if reason is None else f' ({reason})'
        return f'Not measured: it has no score on the sets that count{because}.'
    parts = [_verdict(facts), _check_words(facts.check), _numbers(facts)]
    return ' '.join(part for part in parts if part)


def _verdict(facts: TrustFacts) -> str:
    if facts.check is not None and facts.check.outcome == FAIL:
        return 'Not to be trusted: it fails the check.'
    doubt = ', with care' if facts.check is None or facts.check.outcome == WEAK else ''
    if facts.judges_responses and facts.orders_systems:
        return f'For the order of systems, and for means over many responses{doubt}.'
    if facts.orders_systems:
        return f'For the order of systems, not for single responses{doubt}.'
    if facts.judges_responses:
        return f'For means over many responses, not for the order of systems{doubt}.'
    return (
        'For nothing that was shown here: it does not do better than trivial scorers.'
    )


def _check_words(check: DimensionCheck | None) -> str:
    if check is None:
        return 'It could not be checked on spoilt replies.'
    if check.outcome == PASS:
        return 'It prefers people’s replies to every kind of spoilt copy.'
    return f'Check: {check.outcome} ({check.reasons[0]}).'


def _numbers(facts: TrustFacts) -> str:
    """
    Return the means behind the verdict.
    """
    texts = []
    for rows, what in ((facts.turn, 'turn'), (facts.system, 'system')):
        mean = mean_spearman(rows)
        if mean is not None:
            above = sum(_low(row) > 0 for row in rows)
            texts.append(
                f'{what} level, mean of {len(rows)} set{"s" * (len(rows) > 1)} '
                f'{number(mean)}, {above} of them above 0'
            )
    beats = {True: 'yes', False: 'no', None: 'not tested'}[facts.beats_trivial]
    texts.append(f'better than every trivial scorer on turns: {beats}.')
    return '; '.join(texts)
