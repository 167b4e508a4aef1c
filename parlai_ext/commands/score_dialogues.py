"""
Score the dialogues of a run.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from parlai_ext.commands.command import Command
from parlai_ext.commands.options import add_options
from parlai_ext.core.errors import UserError
from parlai_ext.core.options import SWITCH

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
        parser.add_argument(
            '--scorer',
            help='fed, chatmatch, or a protocol, whose ranking rule goes with it '
            '(default: the run’s)',
        )
        add_options(parser, '--judge-model-file', '--followups')
        parser.add_argument(
            '--fed-variant', help='bipartite, or original (the program of 2020)'
        )
        parser.add_argument(
            '--fed-scope', help='tokens that count: followup, or whole (the string)'
        )
        parser.add_argument(
            '--fed-polarity', help='follow-ups that count: negative, positive or both'
        )
        parser.add_argument(
            '--fed-tokens', help="a follow-up's score: mean or sum over its tokens"
        )
        parser.add_argument(
            '--fed-followups-reduction', help='mean or sum over follow-ups'
        )
        parser.add_argument(
            '--score-given',
            **SWITCH,
            help='judge the given first utterances too',
        )
        add_options(parser, '--batchsize', '--datapath', '--no-cuda', '--fp16')
        add_options(parser, '--trust-model-code')

    def run(self) -> ScoreReport:
        """
        Return what was scored, and under which signature.
        """
        from parlai_ext.systems.safe.trust import trust_files

        opt = self.opt
        with trust_files(opt.get('trust_model_code'), opt.get('datapath')):
            return self.scored()

    def scored(self) -> ScoreReport:
        """
        Do the job, with what the user trusts trusted.
        """
        from parlai_ext.scoring.score_run import (
            ranking_of,
            score_run,
            scorer_of_run,
            section_of_run,
        )
        from parlai_ext.store import RunFolder

        if not self.opt['run_dir']:
            raise UserError('--run-dir is needed: the folder of the run to score')
        run = RunFolder.existing(self.opt['run_dir'])
        with run.lock():
            scorer = scorer_of_run(run, self.opt)
            report = score_run(
                run,
                scorer,
                include_given=self.opt['score_given'],
                config=section_of_run(run, self.opt),
                ranking=ranking_of(self.opt),
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
        print(f'scorer {report.signature}')
        print(f'scores {run.scores(report.signature).root.name}')
        return report
