"""
Score the dialogues of a run.
"""

from parlai_ext.commands.command import ModelCommand
from parlai_ext.commands.options import JUDGE_MACHINE
from parlai_ext.commands.scorer_options import SCORER_CHOICE
from parlai_ext.core import frozen, option
from parlai_ext.engines import EngineOptions, open_engine
from parlai_ext.isolation.policy import is_own_scorer
from parlai_ext.judge_check.record import CheckOptions
from parlai_ext.report.judge import check_lines
from parlai_ext.scoring.score_run import choose_scorer, score_run, spending_lines
from parlai_ext.view.page import print_report


@frozen
class ScoreOptions:
    """
    Which utterances are judged.
    """

    score_given: bool = option(False, help='judge the given first utterances too')


class ScoreDialogues(ModelCommand):
    """
    Score every dialogue of a run that is not scored yet.

    The scorer is the protocol's; options given here replace its parts, and other
    scores lie beside the protocol's own.
    """

    usage = '--run-dir FOLDER [option …]'
    declares = (
        *SCORER_CHOICE,
        ScoreOptions,
        *JUDGE_MACHINE,
        CheckOptions,
        EngineOptions,
    )
    of_run = 'the folder of the run to score'

    def run(self) -> object:
        """
        Return what was scored, and under which signature.
        """
        run, machine = self.existing_run, self.machine
        include_given = self.options(ScoreOptions).score_given
        with run.lock():
            recorded = run.manifest.protocol.scorer
            own = is_own_scorer(run.manifest)
            chosen = choose_scorer(recorded, self.opt, named_by_user=own)
            scorer = chosen.build(machine, for_dialogues=True)
            # imports torch, for which who mistyped a scorer need not wait
            from parlai_ext.judge_check.check import check_run

            with open_engine(self.options(EngineOptions), run.root, machine) as engine:
                report = score_run(
                    run,
                    scorer,
                    chosen,
                    include_given=include_given,
                    engine=engine,
                    machine=machine,
                )
            check = check_run(
                run,
                scorer,
                sample=self.opt['check_sample'],
                include_given=include_given,
            )
        further = [*(check_lines(check) if check else ()), *spending_lines(scorer)]
        print_report('scored', run=run, report=report, further=further)
        return report
