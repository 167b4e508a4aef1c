"""
The records of an audit: the run that is audited, with its table of scores, its ranked
systems and its order of them; and what was found, with the numbers behind it, in the
file `audit.json`.

Light: pages read it without models.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import compress
from typing import Any

import numpy as np

from parlai_ext.audit.options import AuditOptions
from parlai_ext.core import (
    System,
    UserError,
    bytes_hash,
    content_id,
    frozen,
    is_floor,
    record_to_json,
)
from parlai_ext.ranking.intervals import (
    Bools,
    Estimate,
    Floats,
    Sampling,
    draw_means,
    percentile_ends,
    system_means,
)
from parlai_ext.ranking.standings import (
    DialoguesNeeded,
    ranks_by_score,
    significantly_better,
)
from parlai_ext.results.ranking import NAME as RANKING
from parlai_ext.results.ranking import (
    RunScores,
    choose_scores,
    chosen_dimension,
    read_ranking,
    read_run_scores,
)
from parlai_ext.store import Plan, RunFolder, ScoreStore
from parlai_ext.view import Column, Table, number
from parlai_ext.view.page import terminal_sentence

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
        for quantity, one in numbers.items():
            if not isinstance(one, Estimate):
                one = Estimate(one, None, None)
            ends = one.value, one.low, one.high
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


# --- the run under audit --------------------------------------------------------------

# bootstraps of an audit's own intervals at most: it has many
MOST_BOOTSTRAPS = 1000
NO_SYSTEM = -1  # an opponent that is none of the ranked systems: a fixed partner
ZOO = 'zoo:'


@frozen
class Audited:
    """
    The scores of one scorer on one dimension, of the systems that have a rank.

    `values` is ``[system, opponent, opener]``; with two games over an opener, both are
    there as in `ScoreTables`. `own_place` says of each opponent which of the systems it
    is, or `NO_SYSTEM`. Targets without a rank are neither systems nor opponents here.

    :param plan: of the run, with systems that the user named in place of its own.
    :param folder: the folder of the run that this scorer's ranking lies in.
    :param asked: what is audited, and how much is played anew for it.
    """

    scores: RunScores
    plan: Plan
    folder: str
    asked: AuditOptions
    dimension: str
    systems: tuple[str, ...]
    opponents: tuple[str, ...]
    values: Floats
    own_place: tuple[int, ...]

    @property
    def run(self) -> RunFolder:
        """
        The run folder.
        """
        return self.scores.run

    @cached_property
    def families(self) -> dict[str, str]:
        """
        The family of each system and opponent: the one that its roster declares
        (`family:`), else the name with which its model's own begins, its architecture,
        its agent without a model file, or its model file. A system of which nothing is
        known is a family of its own.
        """
        from parlai_ext.systems.model_origin import model_origin

        manifest, families = self.run.manifest, {}
        for name in (*self.systems, *self.opponents):
            opt = manifest.systems.get(name) or {}
            file = str(opt.get('model_file') or '')
            agent = str(opt.get('model') or '').rpartition(':')[2]
            family = manifest.families.get(name)
            if not family and opt:  # imported systems have none
                origin = model_origin(System(name, opt))
                family = origin.name or origin.model_type or file or agent
                # models of the embedded zoo share a maker and nothing else
                if file.startswith(ZOO) and origin.name == 'mini':
                    family = file.removeprefix(ZOO).rpartition('/')[0]
            families[name] = family or name
        return families

    @property
    def sampling(self) -> Sampling:
        """
        How means are drawn anew for the audit's own intervals.
        """
        sampling = self.scores.sampling
        fewer = min(sampling.bootstraps, MOST_BOOTSTRAPS)
        return replace(sampling, bootstraps=fewer)

    @property
    def num_openers(self) -> int:
        """
        The number of openers.
        """
        return self.values.shape[2] // self.sampling.games_per_opener

    @cached_property
    def means(self) -> Floats:
        """
        The systems' scores.
        """
        return system_means(self.values)

    @cached_property
    def ranks(self) -> list[int]:
        """
        The systems' ranks by score.
        """
        return ranks_by_score(self.means)

    @cached_property
    def better(self) -> Bools:
        """
        ``[i, j]``: the ranking tells ``i`` from ``j``, and ``i`` is better.
        """
        return significantly_better(draw_means(self.values, self.scores.sampling))

    @cached_property
    def honest(self) -> list[int]:
        """
        The systems that are no floors; all of them, where all are floors.
        """
        places = [k for k, name in enumerate(self.systems) if not is_floor(name)]
        return places or list(range(len(self.systems)))

    @property
    def compared(self) -> list[int]:
        """
        The systems whose order is in question: those that are no floors, or all, where
        fewer than two are none.
        """
        return self.honest if len(self.honest) > 1 else list(range(len(self.systems)))

    @property
    def claims(self) -> int:
        """
        How many pairs of the compared systems the ranking tells apart.
        """
        return int(self.better[np.ix_(self.compared, self.compared)].sum())

    @property
    def claims_text(self) -> str:
        """
        How many pairs the ranking tells apart, of how many, in words.
        """
        size = len(self.compared)
        text = f'{self.claims} of {size * (size - 1) // 2} pairs of systems'
        return text if size == len(self.systems) else f'{text} that are no floors'

    @property
    def by_rank(self) -> list[int]:
        """
        The systems, best first.
        """
        return sorted(range(len(self.systems)), key=lambda k: self.ranks[k])

    def free_name(self, name: str) -> str:
        """
        Return a name that no system of the run has, this one if it is free.
        """
        while name in self.plan.manifest.everybody:
            name += '-audit'
        return name

    def pair_name(self, pair: tuple[int, int], word: str = 'and') -> str:
        """
        Return the names of two systems.
        """
        return f'{self.systems[pair[0]]} {word} {self.systems[pair[1]]}'

    def names(self, places: Sequence[int]) -> list[str]:
        """
        Return the names of these systems.
        """
        return [self.systems[k] for k in places]

    def score(self, value: float | None) -> str:
        """
        Return a score as text, with as many digits as tell the systems apart.
        """
        return number(value, 2 if float(np.ptp(self.means)) >= 0.5 else 3)


def outcome_of_equality(audited: Audited, gap: Estimate) -> str:
    """
    Return whether a difference is none: shown as soon as its interval holds 0 and
    reaches no further than the least difference that the ranking claims.
    """
    means = audited.means
    claimed = (means[:, None] - means[None, :])[audited.better]
    reach = float(claimed.min()) if len(claimed) else 0.0
    return outcome_of(
        shown=gap.is_within(-reach, reach), refuted=gap.is_beyond(0.0, 0.0)
    )


def middle_of(draws: Floats) -> tuple[float | None, float | None]:
    """
    Return the ends of the middle 95 % of the draws that exist; `None` without any.
    """
    known = draws[~np.isnan(draws)]
    if not len(known):
        return None, None
    return percentile_ends(known)


def dialogues_first(one: DialoguesNeeded) -> float:
    """
    Return how many dialogues it takes, infinite where no number is enough.
    """
    return float('inf') if one.n_dialogues is None else one.n_dialogues


def settling_text(audited: Audited, needed: DialoguesNeeded, played: int) -> str:
    """
    Return about how many openers would tell two systems apart, as the end of a
    sentence.

    :param played: the openers behind the finding.
    """
    return terminal_sentence('settling', audited=audited, needed=needed, played=played)


def read_audited(
    run: RunFolder, options: AuditOptions, named: Sequence[System] = ()
) -> Audited:
    """
    Read the scores to audit, those of one dimension (`chosen_dimension`).

    :param named: systems that take the place of the run's of their names.
    :raises UserError: for a run without scores, an unknown scorer or dimension, or
        fewer than two ranked systems.
    """
    signature, folder = choose_scores(run, options.scores)
    rule = {}
    if (run.root / f'{folder}{RANKING}').exists():
        rule = read_ranking(run, folder, options.scores).rule
    scores = read_run_scores(run, signature, rule)
    tables = scores.tables
    dimension = chosen_dimension(tables.scores, options.dimension, '--dimension')
    values = tables.scores[dimension]
    ranked = scores.ranked & ~np.isnan(system_means(values))
    if ranked.sum() < 2:
        raise UserError(
            f'{run.root}: fewer than two systems have a rank on {dimension}; there is '
            'no order to audit'
        )
    systems = tuple(compress(tables.systems, ranked))
    left_out = set(tables.systems) - set(systems)
    opponents = tuple(name for name in tables.opponents if name not in left_out)
    plan, roster = run.plan, run.plan.roster
    roster = roster.replaced({one.name: one for one in (*roster.systems, *named)})
    plan = replace(plan, protocol=replace(plan.protocol, roster=roster))
    return Audited(
        scores,
        plan,
        folder,
        options,
        dimension,
        systems,
        opponents,
        tables.cells(values, systems, opponents),
        tuple(systems.index(n) if n in systems else NO_SYSTEM for n in opponents),
    )
