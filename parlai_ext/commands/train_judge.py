"""
Train a language model to be the judge of PairEval or DirectEval.
"""

from pathlib import Path

from parlai_ext.commands.command import Command
from parlai_ext.core import frozen, option
from parlai_ext.files import existing_file
from parlai_ext.training.options import JudgeTrainingOptions
from parlai_ext.view.page import print_report


@frozen
class TrainJudgeOptions:
    """
    What is trained on what, and where the judge is written.
    """

    base: str = option(
        metavar='MODEL',
        help='the model to begin with: a catalogue name, a folder or a repository',
    )
    pairs: str = option(metavar='FILE', help='pairs of parlai build_pairs')
    out: str = option(
        metavar='FOLDER', help='the new model, as safetensors, and a card'
    )


class TrainJudge(Command):
    """
    Train a judge with LoRA on pairs; the same command again goes on where it stopped.
    """

    usage = '--base MODEL --pairs pairs.jsonl --out FOLDER [option …]'
    declares = (TrainJudgeOptions, JudgeTrainingOptions, '--no-cuda', '--datapath')

    def run(self) -> object:
        """
        Train the judge, print what came of it, and return that.
        """
        from parlai_ext.training.pairs import read_response_pairs

        given = self.options(TrainJudgeOptions)
        options = self.options(JudgeTrainingOptions)
        pairs = read_response_pairs(given.pairs)
        if options.prompt:
            existing_file(options.prompt, '--prompt')
        from parlai_ext.training.trainings import tenth_means, train_judge

        result = train_judge(
            given.base.removeprefix('hf:'),
            pairs,
            Path(given.out),
            options,
            no_cuda=self.machine.no_cuda,
        )
        last_loss = tenth_means(result.losses)[-1]
        print_report('trained_judge', result=result, last_loss=last_loss)
        return result
