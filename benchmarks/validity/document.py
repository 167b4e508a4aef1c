"""
The page docs/validity.md, and the tables and figures beside it.
"""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from jinja2 import Template

from benchmarks.validity import trust
from benchmarks.validity.figures import cost_figure, means_figure, write_figure
from benchmarks.validity.trust import (
    CheckOutcome,
    Measured,
    TrustFacts,
    mean_interval,
    numbers_text,
    trust_sentence,
)
from parlai_ext import zoo_configs
from parlai_ext.bench.bench_files import Bench
from parlai_ext.bench.compare import BenchComparison
from parlai_ext.bench.run_bench import parse_variant
from parlai_ext.bench.tables import team_tables, titled_lines
from parlai_ext.files import read_file
from parlai_ext.view import csv_text

FOLDER = 'validity'  # of tables and figures, beside the page
TEMPLATE = Path(__file__).with_name('page.md.j2')
CHECK, COST = 'check.csv', 'cost.json'
ABOUT_CHECK = ('scorer', 'signature', 'outcome', 'reason')
# what scorer_speed gives to all scorers, and what says how much is scored
NOT_TIMED = ('judge_model_file', 'encoder', 'comparisons')


def document(
    facts: Sequence[TrustFacts],
    left_out: Sequence[str],
    about: str,
    command: str,
    has_cost: bool,
    added: Sequence[str],
) -> str:
    """
    Return the page.

    :param left_out: sets that count for no rule at turn level.
    :param about: how many items and resamples the numbers are of.
    :param added: labels of scorers that are not in the bench file.
    """
    text = TEMPLATE.read_text(encoding='utf-8')
    rules = (trust.__doc__ or '').strip().split('\n\n')[1:]
    return Template(text, trim_blocks=True, keep_trailing_newline=True).render(
        about=about,
        added=added,
        command=command,
        cost=COST,
        folder=FOLDER,
        has_cost=has_cost,
        left_out=left_out,
        rules=[' '.join(rule.split()) for rule in rules],
        verdicts=[
            (one.measured.label, numbers_text(one), trust_sentence(one))
            for one in by_agreement(facts)
        ],
    )


def by_agreement(facts: Sequence[TrustFacts]) -> list[TrustFacts]:
    """
    Return scorers by their mean over systems and single responses, the highest first;
    trivial ones and those without a mean last.
    """

    def order(one: TrustFacts) -> tuple[bool, bool, float]:
        means = [mean_interval(rows)[0] for rows in (one.turn, one.system) if rows]
        mean = sum(means) / len(means) if means else -1.0
        return not means, one.measured.is_trivial, -mean

    return sorted(facts, key=order)


# --------------------------------------------------------------------- the tables


def agreement_table(scorers: Sequence[Measured]) -> str:
    """
    Return every coefficient as CSV.
    """
    keys = ('set', 'level', 'quality', 'n', 'of', 'spearman', 'low', 'high', 'fitted')
    rows = [
        [one.label, *(getattr(row, key) for key in keys), one.is_kept]
        for one in scorers
        for row in one.rows
    ]
    return csv_text([['scorer', *keys, 'of_an_earlier_run'], *rows])


def scorers_table(facts: Sequence[TrustFacts], seconds: Mapping[str, float]) -> str:
    """
    Return means, verdicts and signatures as CSV.
    """
    heads = [
        'scorer',
        'turns',
        'turns_low',
        'turns_high',
        'turn_sets',
        'systems',
        'systems_low',
        'systems_high',
        'system_sets',
        'beats_trivial',
        'cpu_seconds',
        'verdict',
        'of_an_earlier_run',
        'signature',
    ]
    rows = []
    for one in facts:
        means = [
            (*(mean_interval(rows) if rows else (None,) * 3), len(rows))
            for rows in (one.turn, one.system)
        ]
        measured = one.measured
        rows.append(
            [
                *(measured.label, *means[0], *means[1], one.beats_trivial),
                seconds.get(measured.label),
                trust_sentence(one),
                measured.is_kept,
                measured.signature,
            ]
        )
    return csv_text([heads, *rows])


def check_table(scorers: Sequence[Measured]) -> str:
    """
    Return the check on spoilt replies as CSV.
    """
    checks = [(one, one.check) for one in scorers if one.check]
    kinds = list(dict.fromkeys(kind for _, check in checks for kind, _ in check.shares))
    rows = [
        [
            one.label,
            one.signature,
            check.outcome,
            check.reason,
            *(dict(check.shares).get(kind) for kind in kinds),
        ]
        for one, check in checks
    ]
    return csv_text([[*ABOUT_CHECK, *kinds], *rows])


def read_check_table(path: Path) -> dict[tuple[str, str], CheckOutcome]:
    """
    Return the checks of an earlier run by label and signature; none without a file.
    """
    if not path.exists():
        return {}
    checks = {}
    with path.open(encoding='utf-8', newline='') as file:
        for row in csv.DictReader(file):
            shares = tuple(
                (kind, float(value))
                for kind, value in row.items()
                if kind not in ABOUT_CHECK and value
            )
            checks[row['scorer'], row['signature']] = CheckOutcome(
                row['outcome'], row['reason'], shares
            )
    return checks


def published_table(names: Sequence[str]) -> str:
    """
    Return published figures on these sets as CSV: of other models, and of all items of
    each set.
    """
    published = read_file(zoo_configs.path('published', 'figures')).data
    rows = [
        [figure['scorer'], figure['level'], name, value, figure['source']]
        for figure in published['figures']
        for name, value in figure['spearman'].items()
        if name in names
    ]
    rows += [
        [one['scorer'], '', one['about'], one['spearman'], one['source']]
        for one in published['elsewhere']
    ]
    return csv_text([['scorer', 'level', 'set', 'spearman', 'source'], *rows])


def ceilings_table(ceilings: BenchComparison) -> str:
    """
    Return how well annotators agree as CSV.
    """
    rows = [
        [set_name, quality, one.single, one.ceiling]
        for (set_name, quality), one in ceilings.ceilings.items()
    ]
    return csv_text([['set', 'quality', 'one_annotator', 'perfect_scorer'], *rows])


def clusters_table(comparison: BenchComparison) -> str:
    """
    Return which scorers can be told apart as CSV: mean over the turn-level sets on
    which nothing was fitted; one of a cluster beats every one of a later cluster.
    """
    places = [one for one in comparison.places if one.set_name == trust.ALL_SETS]
    rows = sorted(
        ([one.cluster, one.scorer, one.spearman] for one in places),
        key=lambda row: (row[0], -row[2]),
    )
    return csv_text([['cluster', 'scorer', 'spearman'], *rows])


def dstc10_text(bench: Bench) -> str:
    """
    Return the tables beside the teams of DSTC10.
    """
    lines = [f'{line.rstrip()}\n' for line in titled_lines(team_tables(bench))]
    if not lines:
        return 'No set of DSTC10 was scored.\n'
    return ''.join(lines)


# ----------------------------------------------------------------------- the cost


def cpu_seconds(
    path: Path, sections: Mapping[str, Mapping[str, object]]
) -> dict[str, float]:
    """
    Return the CPU seconds of an utterance by label, from the file that scorer_speed
    wrote; none without a file.

    :param sections: the options of each scorer by label.
    """
    if not path.exists():
        return {}
    speeds = json.loads(path.read_text(encoding='utf-8'))['speeds']
    timed = {
        _timed(parse_variant(one['scorer']).section): 1 / one['per_second']
        for one in speeds
        if one['per_second']
    }
    return {
        label: timed[_timed(section)]
        for label, section in sections.items()
        if _timed(section) in timed
    }


def _timed(section: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """
    Return what decides the cost of a scorer beside its models.
    """
    return tuple(sorted((k, str(v)) for k, v in section.items() if k not in NOT_TIMED))


def write_all(
    page: Path,
    text: str,
    tables: Mapping[str, str],
    facts: Sequence[TrustFacts],
    seconds: Mapping[str, float],
) -> None:
    """
    Write the page, its tables and its figures.
    """
    folder = page.parent / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        (folder / name).write_text(table, encoding='utf-8')
    for level in ('turn', 'system'):
        write_figure(means_figure(facts, level), folder / f'{level}.png')
    if seconds:
        write_figure(cost_figure(facts, seconds), folder / 'cost.png')
    page.write_text(text, encoding='utf-8')
