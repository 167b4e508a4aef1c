"""
Make the table of docs/validity.md: what each scorer may be trusted for.

    python -m benchmarks.validity --data ../shared/data --out runs/validity [--write]

Runs the bench ``validity`` (zoo_configs/bench/) on the sets in the folder, on spoilt
replies of people and on ChatMatch's games, and prints docs/validity.md. It goes on
where it was killed; --score-only with some --scorers lets several processes share the
work. --also LABEL=SCORER:KEY=VALUE adds a scorer, such as a judge trained here
(:max_items=N at the end: on so many items of a set). --write replaces docs/validity.md
and zoo_configs/agreement/validity.yaml, from which the cards of judges take their
agreement with people.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.support.measures import benchmark_parser
from benchmarks.validity.document import document, fitted_sets
from benchmarks.validity.sets import (
    GAMES,
    SPOILT,
    WHOLE_GAMES,
    chatmatch_games,
    chatmatch_whole_games,
    spoilt_replies,
)
from benchmarks.validity.trust import trust_facts
from parlai_ext import zoo_configs
from parlai_ext.bench.bench_files import Bench, ScorerAbout
from parlai_ext.bench.bench_table import bench_lines
from parlai_ext.bench.compare import compare_bench
from parlai_ext.bench.plan import BenchPlan, Variant, bench_plan, parse_variant
from parlai_ext.bench.run_bench import run_bench
from parlai_ext.bench.score_sets import ScorerResult, score_sets
from parlai_ext.commands.command import one_line_errors
from parlai_ext.commands.run_bench import read_judged_sets
from parlai_ext.core.errors import UserError
from parlai_ext.data.judged.judged_set import JudgedSet
from parlai_ext.data.judged.qualities import main_dimension, main_score
from parlai_ext.files.agreement_file import MeasuredAgreement, agreement_text
from parlai_ext.judge_check.marks import dimension_check, kind_result
from parlai_ext.judge_check.record import DimensionCheck
from parlai_ext.report.bench_page import write_bench_page

DOCUMENT = Path(__file__).parents[2] / 'docs' / 'validity.md'
OF_GAMES = {GAMES: chatmatch_games, WHOLE_GAMES: chatmatch_whole_games}
STORED = zoo_configs.HOME / 'agreement' / 'validity.yaml'
COMMAND = 'python -m benchmarks.validity --data ../shared/data --out runs/validity'


def main() -> None:
    """
    Run the benchmark.
    """
    parser = benchmark_parser(__doc__)
    parser.add_argument('--data', default='../shared/data', help='folder of the sets')
    parser.add_argument('--out', default='runs/validity', help='folder of the bench')
    parser.add_argument('--config', default='validity', help='bench file')
    parser.add_argument('--scorers', nargs='+', default=[], help='labels of it')
    parser.add_argument('--sets', nargs='+', default=[])
    parser.add_argument('--also', nargs='+', default=[], metavar='LABEL=SCORER')
    parser.add_argument('--max-items', type=int, help='of each set')
    parser.add_argument(
        '--replies', type=int, default=20, help='spoilt, of each corpus'
    )
    parser.add_argument('--bootstraps', type=int, default=2000)
    parser.add_argument('--score-only', action='store_true', help='write no table')
    parser.add_argument('--write', action='store_true', help='replace the document')
    opt = parser.parse_args()
    plan = bench_plan(opt.scorers, opt.sets, opt.config, opt.max_items)
    more = tuple(labelled_variant(text) for text in opt.also)
    plan = replace(plan, variants=(*plan.variants, *more))
    text, stored = make(opt, plan)
    if opt.write:
        DOCUMENT.write_text(text, encoding='utf-8')
        STORED.parent.mkdir(exist_ok=True)
        STORED.write_text(stored, encoding='utf-8')


def labelled_variant(text: str) -> Variant:
    """
    Return the scorer of ``LABEL=NAME:KEY=VALUE``, of ``max_items=N`` items of each set
    at most where that stands last.
    """
    label, _, spec = text.partition('=')
    spec, _, max_items = spec.partition(':max_items=')
    variant = replace(parse_variant(spec), label=label)
    return replace(variant, max_items=int(max_items)) if max_items else variant


def make(opt: argparse.Namespace, plan: BenchPlan) -> tuple[str, str]:
    """
    Run everything; return the document and the file of stored agreement.
    """
    folder, out = Path(opt.data), Path(opt.out)
    sets, missing = _sets(folder, [choice.name for choice in plan.sets])
    spoilt = spoilt_replies(folder, opt.replies)
    plan = plan.with_trivial_scorers()
    # a slow scorer is checked on as many replies as the others
    whole = replace(
        plan, variants=tuple(replace(v, max_items=None) for v in plan.variants)
    )
    results = score_sets(whole, {SPOILT: spoilt}, out)
    bench, _ = run_bench(plan, sets, out, missing=missing, bootstraps=opt.bootstraps)
    bench = _without_turns_of_games(bench)
    write_bench_page(out, bench)
    print('\n'.join(bench_lines(bench)))
    if opt.score_only:
        return '', ''
    fitted = fitted_sets(bench)
    unfitted = [
        one.name for one in bench.sets if one.level == 'turn' and one.name not in fitted
    ]
    comparison = compare_bench(out, sets=[n for n in unfitted if n != GAMES])
    checks = {one.variant.label: spoilt_check(one, spoilt) for one in results}
    facts = [
        trust_facts(
            bench,
            scorer,
            comparison,
            check
            if isinstance(check := checks[scorer.label], DimensionCheck)
            else None,
            [*fitted, GAMES],
        )
        for scorer in bench.scorers
    ]
    whole = compare_bench(out, permutations=200)
    added = [text.partition('=')[0] for text in opt.also]
    text = document(bench, facts, comparison, whole, checks, COMMAND, added)
    print(text)
    return text, stored_text(bench)


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
    main = main_dimension(result.dimensions, spoilt)
    values: dict[tuple[str, str], float] = {}
    for item, one in zip(spoilt.items, scores.values, strict=True):
        reply, _, kind = item.id.rpartition(',')
        if (value := main_score(one, main)) is not None:
            values[reply, kind] = value
    if not values:
        return max(scores.reasons, key=lambda reason: scores.reasons[reason])
    kinds = list(dict.fromkeys(kind for _, kind in values if kind != 'original'))
    return dimension_check(
        main,
        [
            kind_result(
                kind,
                'people',
                [
                    (values[reply, 'original'], value)
                    for (reply, other), value in values.items()
                    if other == kind and (reply, 'original') in values
                ],
            )
            for kind in kinds
        ],
    )


def stored_text(bench: Bench) -> str:
    """
    Return the file of stored agreement: the main rows of scorers with a signature.
    Several dimensions of one scorer are one entry, each row with its dimension.
    """
    shared = Counter(scorer.signature for scorer in bench.scorers)
    stored: dict[str, tuple[str, list[MeasuredAgreement]]] = {}
    for scorer in bench.scorers:
        rows = list(_stored_rows(bench, scorer))
        if not (scorer.signature and rows):
            continue
        if shared[scorer.signature] > 1:
            rows = [replace(row, dimension=scorer.dimensions[0]) for row in rows]
        stored.setdefault(scorer.signature, (scorer.label, []))[1].extend(rows)
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
            *(row.set_name, row.level, row.quality, row.n, of),
            *(spearman.value, spearman.low, spearman.high),
            row.set_name in scorer.fitted_on,
        )


if __name__ == '__main__':
    with one_line_errors():
        main()
