"""
The text of docs/validity.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.validity import trust
from benchmarks.validity.trust import TrustFacts, trust_sentence
from parlai_ext import zoo_configs
from parlai_ext.bench.agreement_rows import AgreementRow
from parlai_ext.bench.bench_files import Bench, SetAbout
from parlai_ext.bench.bench_table import LEVELS, n_text, sets_of_level, size_text
from parlai_ext.bench.compare import BenchComparison
from parlai_ext.bench.dstc10 import PHASES, dstc10_lines, scorer_lines
from parlai_ext.core.display import DASH, number
from parlai_ext.files.yaml_file import read_file
from parlai_ext.judge_check.record import DimensionCheck

Checks = Mapping[str, DimensionCheck | str]


def document(
    bench: Bench,
    facts: Sequence[TrustFacts],
    comparison: BenchComparison,
    ceilings: BenchComparison,
    checks: Checks,
    command: str,
    added: Sequence[str] = (),
) -> str:
    """
    Return the document.

    :param comparison: of the sets on which nothing was fitted; `ceilings`: of all.
    :param checks: the check of each scorer on spoilt replies, or why there is none.
    :param added: labels of scorers that are not in the bench file.
    """
    fitted = fitted_sets(bench)
    lines = [
        '# What each scorer may be trusted for',
        '',
        'A metric is worth its agreement with people. Here is how the scorers of the',
        'package agree with them, measured with small models that anyone can fetch',
        '([models.md](models.md)). Written by',
        '',
        f'    {command}',
        '',
        'from a bench ([bench.md](bench.md)): do not edit. Numbers are Spearman with',
        'the overall quality of a set, in brackets 95 % intervals from '
        f'{bench.bootstraps} resamples',
        f'of contexts. Items were drawn, whole contexts, with seed {bench.seed}; n',
        'stands under the name of each set, and in a cell where it is another.',
        *_added(added),
        *_reading(facts),
        *_trust(facts, fitted),
        *_level_tables(bench, ceilings),
        *_check_table(checks),
        *published_lines(bench),
        *_dstc10(bench),
        *_clusters(comparison),
        *_signatures(bench),
    ]
    return '\n'.join(lines).rstrip() + '\n'


def fitted_sets(bench: Bench) -> list[str]:
    """
    Return the sets on which something in a scorer was fitted.
    """
    return sorted({name for scorer in bench.scorers for name in scorer.fitted_on})


def _added(labels: Sequence[str]) -> list[str]:
    """
    Return where the judges that were trained for this table come from.
    """
    if not labels:
        return []
    return [
        '',
        f'The judges of {" and ".join(labels)} were trained as',
        '[paireval.md](paireval.md) says; '
        '`--also LABEL=SCORER:KEY=VALUE` adds such a row.',
    ]


def _reading(facts: Sequence[TrustFacts]) -> Iterator[str]:
    """
    Yield the short reading: who passes which rule.
    """
    measured = [one for one in facts if not one.scorer.is_trivial]
    groups = {
        'order systems': [one for one in measured if one.orders_systems],
        'judge responses better than trivial scorers': [
            one for one in measured if one.judges_responses
        ],
        'fail the check': [
            one for one in measured if one.check and one.check.outcome == 'fail'
        ],
    }
    yield ''
    yield '## In short'
    yield ''
    for what, members in groups.items():
        names = ', '.join(one.scorer.label for one in members) or 'none'
        yield f'* Scorers that {what}: {names}.'
    trivial = [one for one in facts if one.scorer.is_trivial]
    for level, rows in (
        ('turn', lambda one: one.turn),
        ('system', lambda one: one.system),
    ):
        means = [
            f'{one.scorer.label} {number(mean)}'
            for one in trivial
            if (mean := trust.mean_spearman(rows(one))) is not None
        ]
        yield f'* To beat at {level} level (means): {", ".join(means)}.'


def _trust(facts: Sequence[TrustFacts], fitted: Sequence[str]) -> Iterator[str]:
    yield ''
    yield '## Scorer by scorer'
    yield ''
    yield '| scorer | what it may be trusted for |'
    yield '|---|---|'
    for one in facts:
        yield f'| {one.scorer.label} | {trust_sentence(one)} |'
    yield ''
    yield 'The rules:'
    yield ''
    rules = (trust.__doc__ or '').strip().split('\n\n')[1:]
    for rule in rules:
        yield f'* {" ".join(rule.split())}'
    yield (
        f'* Sets on which something was fitted ({", ".join(fitted)}: marked † in the '
        'row of the scorer) count for no rule at turn level, and at system level not '
        'for that scorer.'
    )
    yield (
        '* fed_turn, grade_convai2 and topical_dstc10 were looked at while the weights '
        'of composite were chosen, though not fitted ([judges.md](judges.md)); jsalt '
        'and esl were not.'
    )


def _level_tables(bench: Bench, ceilings: BenchComparison) -> Iterator[str]:
    for level, title in LEVELS.items():
        sets = [one for one in sets_of_level(bench, level) if one.overall]
        if not sets:
            continue
        yield ''
        yield f'## {title.capitalize()}'
        yield ''
        head = ' | '.join(f'{one.name}<br>{size_text(one, level)}' for one in sets)
        yield f'| scorer | {head} |'
        yield '|---' * (len(sets) + 1) + '|'
        for scorer in bench.scorers:
            cells = []
            for one in sets:
                mark = ' †' if one.name in scorer.fitted_on else ''
                n = n_text(bench, scorer.label, one, level)
                row = bench.row(scorer.label, one.name, level)
                cells.append(f'{_cell(row, n)}{mark}')
            yield f'| {scorer.label} | {" | ".join(cells)} |'
        if level != 'system':
            yield from _ceiling_rows(sets, ceilings)


def _cell(row: AgreementRow | None, n: str) -> str:
    """
    Return a coefficient with its interval, and n where that is not the set's.
    """
    if row is None or row.value() is None:
        return DASH
    spearman = row.correlations['spearman']
    text = number(spearman.value)
    if spearman.low is not None:
        text += f' [{number(spearman.low)}, {number(spearman.high)}]'
    return f'{text} ({n})' if n else text


def _ceiling_rows(sets: Sequence[SetAbout], ceilings: BenchComparison) -> Iterator[str]:
    """
    Yield two rows: one annotator against the others, and a perfect scorer.
    """
    known = {(one.set_name, one.quality): one.ceiling for one in ceilings.ceilings}
    for label, key in (('*one annotator*', 'single'), ('*perfect scorer*', 'ceiling')):
        cells = []
        for one in sets:
            ceiling = known.get((one.name, one.overall or ''))
            cells.append(number(getattr(ceiling, key)) if ceiling else DASH)
        yield f'| {label} | {" | ".join(cells)} |'


def _check_table(checks: Checks) -> Iterator[str]:
    """
    Yield how often people's replies score above their spoilt copies.
    """
    known = {k: one for k, one in checks.items() if not isinstance(one, str)}
    if not known:
        return
    kinds = list(dict.fromkeys(k.kind for one in known.values() for k in one.kinds))
    yield ''
    yield '## Sense or nonsense'
    yield ''
    yield 'How often a person’s reply (test dialogues of EmpatheticDialogues,'
    yield 'DailyDialog) scores above a spoilt copy of it; ties count half. Pass marks:'
    yield '[judges.md](judges.md).'
    yield ''
    heads = ' | '.join(kind.replace('_', ' ') for kind in kinds)
    yield f'| scorer | {heads} | outcome |'
    yield '|---' * (len(kinds) + 2) + '|'
    for label, check in checks.items():
        if isinstance(check, str):
            yield f'| {label} |{" |" * len(kinds)} {check} |'
            continue
        shares = {one.kind: one for one in check.kinds}
        cells = [number(shares[k].share) if k in shares else DASH for k in kinds]
        yield f'| {label} | {" | ".join(cells)} | {check.outcome} |'
    ns = [one.n for check in known.values() for one in check.kinds]
    if ns:
        yield ''
        yield (
            f'{min(ns)} to {max(ns)} pairs a cell: a share of 0.5 has an interval of '
            'about ±0.16 with 40.'
        )


def published_lines(bench: Bench) -> Iterator[str]:
    """
    Yield published figures, at the sets of the bench.
    """
    published = read_file(zoo_configs.path('published', 'figures')).data
    figures = published['figures']
    names = [one.name for one in bench.sets]
    used = [n for n in names if any(n in figure['spearman'] for figure in figures)]
    yield ''
    yield '## Published figures'
    yield ''
    yield 'Of other models, and of all items of each set: beside ours, not comparable.'
    yield ''
    yield f'| scorer | level | {" | ".join(used)} | source |'
    yield '|---' * (len(used) + 3) + '|'
    for figure in figures:
        cells = [number(figure['spearman'].get(name)) for name in used]
        about = f'{figure["scorer"]} | {figure["level"]}'
        yield f'| {about} | {" | ".join(cells)} | {figure["source"]} |'
    yield ''
    for one in published['elsewhere']:
        value = f'{one["about"]} is {number(one["spearman"], 3)}'
        yield f'{one["scorer"]}: {value} ({one["source"]}).'


def _dstc10(bench: Bench) -> Iterator[str]:
    if any(scorer_lines(bench, phase) for phase in PHASES):
        yield ''
        yield '## Beside the teams of DSTC10'
        yield ''
        yield from (f'    {line}'.rstrip() for line in dstc10_lines(bench))


def _clusters(comparison: BenchComparison) -> Iterator[str]:
    """
    Yield the clusters over the turn-level sets on which nothing was fitted.
    """
    places = [one for one in comparison.places if one.set_name == trust.ALL_SETS]
    if not places:
        return
    yield ''
    yield '## Which can be told apart'
    yield ''
    yield 'Mean over the turn-level sets on which nothing was fitted and that all these'
    yield 'scorers can judge. A scorer of a cluster beats every one of a later cluster.'
    yield ''
    for cluster in sorted({one.cluster for one in places}):
        members = sorted(
            (one for one in places if one.cluster == cluster),
            key=lambda one: -one.spearman,
        )
        names = ', '.join(f'{one.scorer} {number(one.spearman)}' for one in members)
        yield f'{cluster}. {names}'


def _signatures(bench: Bench) -> Iterator[str]:
    yield ''
    yield '## Signatures'
    yield ''
    for scorer in bench.scorers:
        yield f'* {scorer.label}: `{scorer.signature or scorer.failure}`'
