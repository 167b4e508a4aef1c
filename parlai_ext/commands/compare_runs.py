"""
Make one ranking of published runs, where they may be compared.
"""

import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from parlai_ext.commands.command import Command, print_lines, program
from parlai_ext.core import UserError, frozen, option, optional
from parlai_ext.store import staged_folder, write_text

if TYPE_CHECKING:
    from parlai_ext.packs.compare import JoinedRun
    from parlai_ext.results.ranking import Ranking


@frozen
class ComparedRuns:
    """
    What is ranked together or shown side by side, and where the result goes.
    """

    packs: tuple[str, ...] = option(
        (),
        positional=True,
        nargs='*',
        metavar='PACK',
        help='published runs; with --page run folders, too',
    )
    out: str | None = optional(
        metavar='FOLDER',
        help='a new run folder with the targets of all packs, its ranking and its page '
        '(default: the ranking is printed only)',
    )
    page: str | None = optional(
        metavar='FILE',
        help='show two runs, packs or run folders, side by side on this page instead: '
        'settings, scores, judges and dialogues that differ',
    )


class CompareRuns(Command):
    """
    Rank the targets of several packs together and name the keys in which others differ,
    or show two runs side by side.
    """

    usage = 'PACK PACK … [--out FOLDER] | RUN RUN --page FILE'
    declares = (ComparedRuns,)

    def run(self) -> object:
        """
        Print and return a ranking for each scorer that the packs share, or return those
        of two runs that are shown side by side.

        :raises UserError: when a pack is damaged, or may not be compared with the first
            one; what may be is ranked before.
        """
        from parlai_ext.packs.compare import join_packs, pack_differences
        from parlai_ext.packs.verify import open_right_pack

        given = self.options(ComparedRuns)
        paths = [Path(path) for path in given.packs]
        if len(paths) < 2:
            raise UserError('two packs or more are needed: parlai compare_runs A B …')
        if given.page:
            if given.out:
                raise UserError('--out and --page: a page of two runs makes no run')
            return write_sides(paths, Path(given.page))
        out = Path(given.out) if given.out else None
        with ExitStack() as stack:
            packs = [stack.enter_context(open_right_pack(path)) for path in paths]
            fitting, refused, rankings = packs[:1], {}, []
            for pack in packs[1:]:
                if lines := pack_differences(fitting, pack):
                    refused[pack.path] = lines
                else:
                    fitting.append(pack)
            if len(fitting) > 1:
                place = stack.enter_context(joined_folder(out))
                rankings = show_joined(join_packs(fitting, Path(place)), out)
        for path, lines in refused.items():
            print_lines([f'refused: {path} may not be compared with {paths[0]}:'])
            print_lines(f'  {line}' for line in lines)
        print(f'`{program()} compare_runs A B --page FILE.html` shows two side by side')
        if refused:
            raise UserError(
                f'{len(refused)} of {len(paths)} packs may not be compared with '
                f'{paths[0]}: {", ".join(map(str, refused))}'
            )
        return rankings


def joined_folder(out: Path | None) -> AbstractContextManager[str | Path]:
    """
    Return the folder of a joined run: a new one, or one that is removed at the end.

    :param out: where the new one will be.
    """
    if out is None:
        return tempfile.TemporaryDirectory()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f'--out {out}: a new folder is expected')
    return staged_folder(out)


def write_sides(paths: Sequence[Path], page: Path) -> list['Ranking']:
    """
    Write the page of two runs side by side, and return their rankings.
    """
    from parlai_ext.packs.compare import open_side, render_sides

    if len(paths) != 2:
        raise UserError(f'--page shows two runs side by side, not {len(paths)}')
    with ExitStack() as stack:
        sides = [stack.enter_context(open_side(path, page)) for path in paths]
        write_text(page, render_sides(*sides))
    print(f'page: {page}')
    return [side.ranking for side in sides]


def show_joined(joined: 'JoinedRun', out: Path | None) -> list['Ranking']:
    """
    Print the rankings of a joined run and, if it is kept, write them into it.

    :param out: where it will be.
    """
    from parlai_ext.report.page import write_report
    from parlai_ext.report.table import leaderboard_csv, terminal_report
    from parlai_ext.results.ranking import write_ranking

    rankings = [joined.rank(signature) for signature in joined.signatures]
    for place, ranking in enumerate(rankings):
        print(terminal_report(ranking))
        if out is None:
            continue
        store = joined.run.scores(joined.signatures[place])
        folder = f'rankings/{store.root.name}/' if place else ''
        write_ranking(joined.run, ranking, folder)
        if any(pack.index.withheld_text for pack in joined.packs):
            path = out / folder / 'leaderboard.csv'
            joined.run.write_text(f'{folder}leaderboard.csv', leaderboard_csv(ranking))
            print(f'leaderboard: {path} (no page: texts are withheld)')
        else:
            print(f'report: {out / write_report(joined.run, ranking, folder).name}')
    return rankings
