"""
Rank the targets of a scored run; needs no model, so it imports none.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from parlai_ext.commands.command import Command, print_lines
from parlai_ext.commands.options import RANKING, ScoresChoice
from parlai_ext.core import RankingOptions, UserError, flag_values, frozen, optional
from parlai_ext.judge_check.record import RequireCheck, require_passed

if TYPE_CHECKING:
    from parlai_ext.results.ranking import Ranking
    from parlai_ext.store import RunFolder

OBSERVED = 'observed'


@frozen
class PilotOptions:
    """
    Whether the run is a pilot, from which another is planned.
    """

    plan: str | None = optional(
        metavar='DIFFERENCE',
        help='take the run for a pilot: print how many dialogues a difference of '
        'mean scores needs, or “observed” for those that the run shows',
    )


class RankSystems(Command):
    """
    Rank the targets of a run whose dialogues are scored.
    """

    usage = '--run-dir FOLDER [option …]'
    declares = (*RANKING, RequireCheck, ScoresChoice, PilotOptions)
    of_run = 'the folder of a scored run'

    def run(self) -> object:
        """
        Rank, write `ranking.json` and the leaderboard, and return the ranking. A page
        that shows an older ranking is removed.
        """
        from parlai_ext.results.ranking import choose_scores

        opt = self.opt
        difference = wanted_difference(opt['plan']) if opt['plan'] else None
        human = self.human_judgements
        run = self.existing_run
        with run.lock():
            signature, folder = choose_scores(run, opt['scores'])
            # after the mistakes of a user, which are told at once
            from parlai_ext.audit.section import audit_doubts
            from parlai_ext.report.table import terminal_table
            from parlai_ext.results.ranking import rank_scores, read_run_scores
            from parlai_ext.stopping.looks import plan_lines

            rule = run.scores(signature).about().ranking
            options = {**rule, **flag_values(RankingOptions, opt)}
            scores = read_run_scores(run, signature, options)
            plan = ['', *plan_lines(scores, difference)] if opt['plan'] else []
            ranking = rank_scores(scores, human)
            stale = write_ranked(run, ranking, folder)
        print(terminal_table(ranking, audit_doubts(run, ranking, folder)))
        if stale:
            print(
                f'removed {stale}, which showed an older ranking; report_run writes it'
            )
        print_lines(plan)
        if opt['require_judge_check']:
            require_passed(ranking.leading_check)
        return ranking


def write_ranked(run: 'RunFolder', ranking: 'Ranking', folder: str) -> Path | None:
    """
    Write a ranking and its leaderboard into a folder of the run. Return the page that
    showed an older ranking, which is removed; `None` where there was none.
    """
    from parlai_ext.report.table import leaderboard_csv
    from parlai_ext.results.ranking import NAME, write_ranking

    path, page = run.root / f'{folder}{NAME}', run.root / 'report.html'
    before = path.read_bytes().split() if path.exists() else []
    write_ranking(run, ranking, folder)
    run.write_text(f'{folder}leaderboard.csv', leaderboard_csv(ranking))
    # a page without the first ranking of a further scorer is right still
    shown = bool(before) or not folder
    if not (shown and page.exists()) or path.read_bytes().split() == before:
        return None
    run.remove('report.html')
    return page


def wanted_difference(text: str) -> float | None:
    """
    Return the difference that ``--plan`` names; `None` for the observed ones.

    :raises UserError: for anything else than a number above 0 or ``observed``.
    """
    if text == OBSERVED:
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float('inf'):
        raise UserError(
            f'--plan: {text!r}: a difference of mean scores above 0, or {OBSERVED}, is '
            'expected'
        )
    return value
