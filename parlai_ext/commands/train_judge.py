"""
Train a language model to be the judge of PairEval or DirectEval.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from parlai_ext.commands.command import Command
from parlai_ext.commands.options import add_options
from parlai_ext.core.display import duration
from parlai_ext.core.options import add_flags
from parlai_ext.training.options import JudgeTrainingOptions

if TYPE_CHECKING:
    from parlai_ext.training.judge import TrainedJudge


class TrainJudge(Command):
    """
    Train a judge with LoRA on pairs; the same command again goes on where it stopped.
    """

    description = 'A judge for PairEval or DirectEval, trained with LoRA on pairs'
    usage = '--base MODEL --pairs pairs.jsonl --out FOLDER [option …]'

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            '--base',
            metavar='MODEL',
            help='the model to begin with: a catalogue name, a folder or a repository',
        )
        parser.add_argument(
            '--pairs', metavar='FILE', help='pairs of parlai build_pairs'
        )
        parser.add_argument(
            '--out', metavar='FOLDER', help='the new model, as safetensors, and a card'
        )
        add_flags(parser, JudgeTrainingOptions)
        add_options(parser, '--no-cuda', '--datapath')

    def run(self) -> TrainedJudge:
        """
        Train the judge, print what came of it, and return that.
        """
        self.require(
            base='the model to begin with',
            pairs='pairs of parlai build_pairs',
            out='the folder of the judge',
        )
        from parlai_ext.training.judge import train_judge
        from parlai_ext.training.pairs import read_pairs

        result = train_judge(
            self.opt['base'].removeprefix('hf:'),
            read_pairs(self.opt['pairs']),
            Path(self.opt['out']),
            self.options(JudgeTrainingOptions),
            no_cuda=bool(self.opt['no_cuda']),
            datapath=self.opt['datapath'],
        )
        if result.num_left_out:
            print(f'left out, longer than --max-tokens: {result.num_left_out} prompts')
        print(
            f'{result.num_examples} examples in {len(result.losses)} steps, '
            f'{duration(result.seconds)}; loss of the first step '
            f'{result.losses[0]:.3f}, of the last tenth {result.last_loss:.3f}'
        )
        print(f'the judge: {result.folder}')
        return result
