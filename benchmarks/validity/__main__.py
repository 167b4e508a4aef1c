"""
Make docs/validity.md, its figures and its tables: what each scorer may be trusted for.

    python -m benchmarks.validity --data ../shared/data --out runs/validity [--write]

Runs the bench ``validity`` (zoo_configs/bench/) on the sets in the folder, on spoilt
replies of people and on ChatMatch's games, and writes the page into --out. It goes on
where it was killed; --score-only with some --scorers lets several processes share the
work. Scorers that --scorers leaves out keep the rows that zoo_configs/agreement/ has of
their signature. --also LABEL=SCORER:KEY=VALUE adds a scorer, such as a judge trained
here (:max_items=N at the end: on so many items of a set). --write replaces
docs/validity.md, docs/validity/ and zoo_configs/agreement/validity.yaml, from which the
cards of judges take their agreement with people.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.support.agreement_text import agreement_text
from benchmarks.support.measures import start
from benchmarks.validity.document import (
    CHECK,
    COST,
    FOLDER,
    agreement_table,
    by_agreement,
    ceilings_table,
    check_table,
    clusters_table,
    cpu_seconds,
    document,
    dstc10_text,
    published_table,
    read_check_table,
    scorers_table,
    write_all,
)
from benchmarks.validity.figures import LEARNED
from benchmarks.validity.sets import (
    GAMES,
    SPOILT,
    WHOLE_GAMES,
    chatmatch_games,
    chatmatch_whole_games,
    spoilt_replies,
)
from benchmarks.validity.trust import CheckOutcome, Measured, trust_facts
from parlai_ext import zoo_configs
from parlai_ext.bench.bench_files import Bench, ScorerAbout, ScorerResult
from parlai_ext.bench.compare import compare_bench
from parlai_ext.bench.run_bench import (
    TRIVIAL,
    BenchPlan,
    Variant,
    bench_plan,
    parse_variant,
    run_bench,
    score_sets,
)
from parlai_ext.bench.tables import (
    BENCH_PAGE,
    bench_lines,
    paper_tables,
    render_bench_page,
)
from parlai_ext.commands.run_bench import read_judged_sets
from parlai_ext.core import UserError
from parlai_ext.data.judged import JudgedSet, main_dimension, main_score
from parlai_ext.files import read_file
from parlai_ext.files.agreement_file import (
    MeasuredAgreement,
    measured_agreement,
    read_agreement,
)
from parlai_ext.judge_check.check import kinds_check
from parlai_ext.judge_check.record import DimensionCheck
from parlai_ext.scoring.score_run import ChosenScorer

DOCUMENT = Path(__file__).parents[2] / 'docs' / 'validity.md'
OF_GAMES = {GAMES: chatmatch_games, WHOLE_GAMES: chatmatch_whole_games}
STORED = zoo_configs.HOME / 'agreement' / 'validity.yaml'
COMMAND = 'python -m benchmarks.validity --data ../shared/data --out runs/validity'


def main(opt: argparse.Namespace) -> None:
    """
    Run the benchmark.
    """
    plan = bench_plan(opt.scorers, opt.sets, opt.config, opt.max_items)
    more = tuple(labelled_variant(text) for text in opt.also)
    plan = plan.model_copy(update={'variants': (*plan.variants, *more)})
    if opt.write and (opt.sets or opt.max_items):
        raise UserError('--write: the page is of all sets, without --sets, --max-items')
    make(opt, plan)


def labelled_variant(text: str) -> Variant:
    """
    Return the scorer of ``LABEL=NAME:KEY=VALUE``, of ``max_items=N`` items of each set
    at most where that stands last.
    """
    label, _, spec = text.partition('=')
    spec, _, max_items = spec.partition(':max_items=')
    variant = replace(parse_variant(spec), label=label)
    return replace(variant, max_items=int(max_items)) if max_items else variant


def make(opt: argparse.Namespace, plan: BenchPlan) -> None:
    """
    Run everything, print the page, and write it where that is asked for.
    """
    folder, out = Path(opt.data), Path(opt.out)
    sets, missing = _sets(folder, list(plan.sets))
    spoilt = spoilt_replies(folder, opt.replies)
    plan = plan.with_trivial_scorers()
    # a slow scorer is checked on as many replies as the others
    whole = plan.model_copy(
        update={'variants': [replace(v, max_items=None) for v in plan.variants]}
    )
    results = score_sets(whole, {SPOILT: spoilt}, out)
    # what was learned from these sets has its agreement from a file
    others = [v for v in plan.variants if not is_learned(v.section['name'])]
    plan = plan.model_copy(update={'variants': others})
    bench, *_ = run_bench(plan, sets, out, missing=missing, bootstraps=opt.bootstraps)
    bench = _without_turns_of_games(bench)
    (out / BENCH_PAGE).write_text(
        render_bench_page(bench, paper_tables(bench, ())), 'utf-8'
    )
    print('\n'.join(bench_lines(bench)))
    if opt.score_only:
        return
    checks = {one.about.label: spoilt_check(one, spoilt) for one in results}
    scorers = bench_scorers(bench, plan.variants, checks)
    scorers += learned_scorers(results, checks)
    scorers += kept_scorers(scorers, opt.config, DOCUMENT.parent / FOLDER / CHECK)
    fitted = sorted({row.set for one in scorers for row in one.rows if row.fitted})
    counted = [
        one.name
        for one in bench.sets
        if one.level == 'turn' and one.name not in (*fitted, GAMES)
    ]
    comparison = compare_bench(out, sets=counted)
    facts = [trust_facts(scorers, one, comparison, [*fitted, GAMES]) for one in scorers]
    sections = {
        v.label: v.section for v in (*plan.variants, *_file_variants(opt.config))
    }
    seconds = cpu_seconds(DOCUMENT.parent / FOLDER / COST, sections)
    added = [text.partition('=')[0] for text in opt.also]
    text = document(facts, fitted, _about(bench), COMMAND, bool(seconds), added)
    print(text)
    page = DOCUMENT if opt.write else out / DOCUMENT.name
    tables = {
        'agreement.csv': agreement_table(scorers),
        'scorers.csv': scorers_table(by_agreement(facts), seconds),
        CHECK: check_table(scorers),
        'published.csv': published_table([one.name for one in bench.sets]),
        'ceilings.csv': ceilings_table(compare_bench(out, permutations=200)),
        'clusters.csv': clusters_table(comparison),
        'dstc10.txt': dstc10_text(bench),
    }
    write_all(page, text, tables, facts, seconds)
    stored = STORED if opt.write else out / STORED.name
    stored.write_text(stored_text(scorers), encoding='utf-8')


def is_learned(name: str) -> bool:
    """
    True for the judge that was learned from these sets: its agreement is that of judges
    that were learned without each set, in zoo_configs/agreement/learned.yaml.
    """
    return name == 'learned'


def _file_variants(config: str) -> Sequence[Variant]:
    return bench_plan([], [], config).with_trivial_scorers().variants


def _about(bench: Bench) -> str:
    most = max((one.n_drawn for one in bench.sets if one.level == 'turn'), default=0)
    return (
        f'Up to {most} items a set (whole contexts, seed {bench.seed}); intervals of a '
        f'set are from {bench.bootstraps} resamples of contexts.'
    )


def _sets(
    folder: Path, names: Sequence[str]
) -> tuple[dict[str, JudgedSet], dict[str, str]]:
    """
    Return the judged sets and ChatMatch's games of these names, all without any, and
    why others are missing.
    """
    games = [name for name in OF_GAMES if name in names or not names]
    wanted = [name for name in names if name not in OF_GAMES]
    sets: dict[str, JudgedSet] = {}
    missing: dict[str, str] = {}
    if wanted or not names:
        sets, missing = read_judged_sets(folder, wanted)
    try:
        sets |= {name: OF_GAMES[name](folder) for name in games}
    except (UserError, OSError) as error:
        missing |= dict.fromkeys(games, str(error))
    return sets, missing


def _without_turns_of_games(bench: Bench) -> Bench:
    """
    Return a bench without rows of single turns or games, which nobody judged: people
    ranked the bots.
    """
    rows = [r for r in bench.rows if r.set_name not in OF_GAMES or r.level == 'system']
    return replace(bench, rows=tuple(rows))


def spoilt_check(result: ScorerResult, spoilt: JudgedSet) -> DimensionCheck | str:
    """
    Return how a scorer's main score does on spoilt replies, or why there is no check.
    """
    scores = result.sets[SPOILT]
    if isinstance(scores, str):
        return scores
    main = main_dimension(result.about.dimensions, spoilt)
    values: dict[tuple[str, str], float] = {}
    for item, one in zip(spoilt.items, scores.values, strict=True):
        reply, _, kind = item.id.rpartition(',')
        if (value := main_score(one, main)) is not None:
            values[reply, kind] = value
    if not values:
        return max(scores.reasons, key=lambda reason: scores.reasons[reason])
    compared = []
    for (reply, kind), value in values.items():
        original = values.get((reply, 'original'))
        if kind != 'original' and original is not None:
            # a tie only where both are equal to the last digit
            sign = (original > value) - (original < value)
            compared.append(((kind, 'people'), {main: sign}))
    return kinds_check(main, compared, dict.fromkeys(kind for (kind, _), _ in compared))


def bench_scorers(
    bench: Bench,
    variants: Sequence[Variant],
    checks: Mapping[str, DimensionCheck | str],
) -> list[Measured]:
    """
    Return what a bench measured, with the checks; a scorer of which one dimension is
    meant has it in its rows.
    """
    dimensions = {one.label: one.dimension for one in variants}
    return [
        Measured(
            one.label,
            one.signature or '',
            tuple(
                replace(row, dimension=dimensions.get(one.label))
                for row in _stored_rows(bench, one)
            ),
            one.is_trivial,
            check=check_outcome(checks.get(one.label)),
            failure=one.failure,
        )
        for one in bench.scorers
    ]


def learned_scorers(
    results: Sequence[ScorerResult], checks: Mapping[str, DimensionCheck | str]
) -> list[Measured]:
    """
    Return the learned judges, with the rows that are known of their signature.
    """
    return [
        Measured(
            one.about.label,
            one.about.signature or '',
            measured_agreement(one.about.signature or ''),
            check=check_outcome(checks[one.about.label]),
            failure=one.about.failure,
        )
        for one in results
        if is_learned(one.about.name)
    ]


def kept_scorers(
    scorers: Sequence[Measured], config: str, check_file: Path
) -> list[Measured]:
    """
    Return the scorers that were left out, with the rows that an earlier run has of the
    signature that they have now; and scorers of earlier runs that are in no bench file.

    :param check_file: the checks of the earlier run.
    """
    checks = read_check_table(check_file)
    measured = {one.label for one in scorers}
    signatures = {one.signature for one in scorers}
    kept: dict[str, tuple[str, tuple[MeasuredAgreement, ...], bool]] = {}
    for variant in _file_variants(config):
        if variant.label in measured:
            continue
        try:
            signature = ChosenScorer(variant.section).build().signature
        except UserError as error:
            print(f'{variant.label}: earlier rows of any signature are kept: {error}')
            continue
        signatures.add(signature)
        rows = tuple(
            row
            for row in measured_agreement(signature)
            if row.dimension == variant.dimension
        )
        kept[variant.label] = (signature, rows, variant.section['name'] in TRIVIAL)
        if not rows:
            print(f'{variant.label}: no earlier rows of its signature: score it again')
    for one in read_file(STORED).data['scorers']:
        label, signature = one['label'], one['signature']
        if label not in measured and label not in kept and signature not in signatures:
            kept[label] = (signature, read_agreement(STORED)[signature], False)
    return [
        Measured(label, signature, rows, trivial, True, checks.get((label, signature)))
        for label, (signature, rows, trivial) in kept.items()
        if rows
    ]


def check_outcome(check: DimensionCheck | str | None) -> CheckOutcome | None:
    """
    Return the outcome of a check, or why there is none.
    """
    if check is None or isinstance(check, str):
        return check and CheckOutcome('', check)
    return CheckOutcome(
        check.outcome,
        check.reasons[0] if check.reasons else '',
        tuple((k.kind, k.share) for k in check.kinds if k.share is not None),
    )


def stored_text(scorers: Sequence[Measured]) -> str:
    """
    Return the file of stored agreement: the rows of scorers with a signature. Several
    dimensions of one scorer are one entry, each row with its dimension.
    """
    elsewhere = read_agreement(LEARNED)
    stored: dict[str, tuple[str, list[MeasuredAgreement]]] = {}
    for one in scorers:
        if one.signature and one.rows and one.signature not in elsewhere:
            stored.setdefault(one.signature, (one.label, []))[1].extend(one.rows)
    return agreement_text(
        'Spearman with people, from the bench validity',
        [(label, signature, rows) for signature, (label, rows) in stored.items()],
    )


def _stored_rows(bench: Bench, scorer: ScorerAbout) -> Iterator[MeasuredAgreement]:
    """
    Yield the main rows of a scorer that have a coefficient.
    """
    about = {one.name: one for one in bench.sets}
    for row in bench.rows:
        if row.scorer != scorer.label or not (row.is_main and row.is_overall):
            continue
        spearman = row.correlations.get('spearman')
        if spearman is None or spearman.value is None:
            continue
        of = about[row.set_name].n_items
        if row.level == 'system':
            of = about[row.set_name].n_systems
        yield MeasuredAgreement(
            row.set_name,
            row.level,
            row.quality,
            row.n,
            of,
            spearman.value,
            spearman.low,
            spearman.high,
            row.set_name in scorer.fitted_on,
        )


if __name__ == '__main__':
    start(
        main,
        __doc__,
        data='../shared/data',
        out='runs/validity',
        config='validity',
        scorers=[],
        sets=[],
        also=[],
        max_items=int,
        replies=20,
        bootstraps=2000,
        score_only=False,
        write=False,
    )
