"""
Score the dialogues of a run.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from parlai_ext.commands.command import Command
from parlai_ext.commands.options import CHECK, ENGINE, add_options, add_scorer_options
from parlai_ext.core.machine import Machine
from parlai_ext.core.options import SWITCH
from parlai_ext.engines.options import EngineOptions, open_engine

if TYPE_CHECKING:
    from parlai_ext.scoring.score_run import ScoreReport


class ScoreDialogues(Command):
    """
    Score every dialogue of a run that is not scored yet.

    The scorer is the protocol's; options given here replace its parts, and other
    scores lie beside the protocol's own.
    """

    description = 'Score the dialogues of a run'
    usage = '--run-dir FOLDER [option …]'

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        add_options(parser, '--run-dir')
        add_scorer_options(parser)
        parser.add_argument(
            '--score-given',
            **SWITCH,
            help='judge the given first utterances too',
        )
        add_options(parser, '--batchsize', '--datapath', '--no-cuda', '--fp16')
        add_options(parser, '--trust-model-code', *CHECK, *ENGINE)

    def run(self) -> ScoreReport:
        """
        Return what was scored, and under which signature.
        """
        from parlai_ext.systems.safe.trust import trust_files

        machine = Machine.from_options(self.opt)
        with trust_files(machine.trust_model_code, machine.datapath):
            return self.score()

    def score(self) -> ScoreReport:
        """
        Score the run's dialogues and print the counts and the signature.
        """
        from parlai_ext.isolation.own_records import is_own_scorer
        from parlai_ext.judge_check.check_run import check_run
        from parlai_ext.judge_check.record import check_lines
        from parlai_ext.scoring.score_run import (
            choose_scorer,
            score_run,
            spending_lines,
        )
        from parlai_ext.store import RunFolder

        self.require(run_dir='the folder of the run to score')
        run = RunFolder.existing(self.opt['run_dir'])
        machine = Machine.from_options(self.opt)
        with run.lock():
            recorded = run.manifest['protocol'].get('scorer') or {}
            own = is_own_scorer(run.manifest)
            chosen = choose_scorer(recorded, self.opt, named_by_user=own)
            scorer = chosen.build(machine)
            where = self.options(EngineOptions)
            with open_engine(where, run.root, machine) as engine:
                report = score_run(
                    *(run, scorer),
                    include_given=self.opt['score_given'],
                    config=chosen.section,
                    ranking=chosen.ranking,
                    engine=engine,
                    machine=machine,
                    named_by_user=chosen.named_by_user,
                )
            check = check_run(
                run,
                scorer,
                sample=self.opt['check_sample'],
                include_given=self.opt['score_given'],
            )
        print(
            f'scored {report.n_utterances} utterances of {report.n_dialogues} '
            f'dialogues ({report.n_unscored} values missing, each with its reason); '
            f'{report.n_shards - report.n_shards_scored} of {report.n_shards} '
            'shards were scored before'
        )
        if report.n_truncated:
            print(
                f'{report.n_truncated} contexts were too long for the judge, which '
                'read a part of them'
            )
        for line in check_lines(check) if check else ():
            print(line)
        for line in spending_lines(scorer):
            print(line)
        print(f'scorer {report.signature}')
        print(f'scores {run.scores(report.signature).root.name}')
        return report
