"""
`fit_judge`: the learned judge, fitted to one's own annotations.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from parlai_ext.commands.command import Command
from parlai_ext.core import UserError, frozen, option, optional
from parlai_ext.files import existing_file
from parlai_ext.store import locked
from parlai_ext.view.page import print_report

if TYPE_CHECKING:
    from parlai_ext.training.fit_judge import Annotated


FEWEST = 20  # annotated items


@frozen
class FitOptions:
    """
    What is learned from which annotations, and where the judge is written.
    """

    out: str = option(
        metavar='FOLDER',
        help="the new judge: --scorer learned --scorer-option 'weights=FOLDER'",
    )
    judged_file: str | None = optional(
        metavar='FILE',
        help='annotated responses or dialogues: CSV or JSON lines '
        '(docs/judged_sets.md)',
    )
    quality: str | None = optional(
        metavar='NAME',
        help='the quality or dimension that is learned (default: the overall one)',
    )
    weights: str = option(
        'shipped', metavar='NAME|FOLDER', help='the judge to begin with (shipped)'
    )


class FitJudge(Command):
    """
    Fit the learned judge to annotations, and say what they are worth.
    """

    usage = (
        '--judged-file FILE.csv --out FOLDER | --run-dir RUN --human-scores FILE.csv '
        '--out FOLDER'
    )
    declares = (
        '--run-dir',
        '--human-scores',
        '--no-cuda',
        '--datapath',
        FitOptions,
    )

    def check_early(self) -> None:
        """
        Refuse annotations of two sources, or of none, and files that are not there.
        """
        super().check_early()
        if (self.opt['judged_file'] is None) == (self.opt['run_dir'] is None):
            raise UserError('one of --judged-file and --run-dir is needed')
        if self.opt['judged_file']:
            existing_file(self.opt['judged_file'], '--judged-file')
        self.human_judgements  # noqa: B018 - read for its errors

    def run(self) -> object:
        """
        Fit the judge, print what that is worth, and return it.
        """
        from parlai_ext.models.handle import ModelHandle
        from parlai_ext.scoring.learned import Learned, LearnedOptions, read_weights
        from parlai_ext.training import fit_judge

        given = self.options(FitOptions)
        judge = read_weights(given.weights)
        annotated = [one for one in self.annotated() if one.items]
        self.require_enough(annotated)
        items = f'{len(annotated)} items of {self.source}'
        items += f' for {given.quality}' if given.quality else ''
        about = {
            'description': f'fitted to {items}',
            'learned_from': f'{self.source}, starting from {given.weights}',
        }
        out = Path(given.out)
        fit_judge.refuse_other_judge(out, about)
        with locked(out / '.lock'):
            inputs = fit_judge.kept_inputs(
                out / 'inputs',
                LearnedOptions(),
                ModelHandle(self.machine),
                'read',
                [item for one in annotated for item in one.items],
                judge.adapter,
            )
            table = fit_judge.annotated_table(annotated, inputs, judge)
            report = fit_judge.fit_report(table)
            rest = fit_judge.fit(table)
            fitted = fit_judge.fitted_weights(judge, rest, Path(self.source).stem)
            fit_judge.write_judge(fitted, out, about)
        Learned(LearnedOptions(weights=str(out)))  # it can be read again
        print_report('fitted_judge', report=report)
        print(f"the judge: --scorer learned --scorer-option 'weights={out}'")
        return report

    def require_enough(self, annotated: Sequence['Annotated']) -> None:
        """
        Refuse annotations that are too few, or all alike, for learning from them.
        """
        from parlai_ext.training.fit_judge import FOLDS

        n_groups = len({one.group for one in annotated})
        if len(annotated) < FEWEST or n_groups < FOLDS:
            raise UserError(
                f'{self.source}: {len(annotated)} annotated items of {n_groups} '
                f'contexts or dialogues; {FEWEST} items of {FOLDS} are needed'
            )
        if len({one.value for one in annotated}) < 2:
            raise UserError(f'{self.source}: all annotations have the same value')

    @property
    def source(self) -> str:
        """
        Return where the annotations come from, for messages and the card.
        """
        return Path(self.opt['judged_file'] or self.opt['human_scores']).name

    def annotated(self) -> list['Annotated']:
        """
        Return what was annotated.
        """
        from parlai_ext.training.fit_judge import annotated_run, annotated_set

        given = self.options(FitOptions)
        file = given.judged_file
        if file is not None:
            from parlai_ext.data.judged import own_card

            return annotated_set(own_card(Path(file)).read(file), given.quality)
        self.require(human_scores="people's judgements of the run's dialogues")
        run = self.existing_run
        return annotated_run(
            list(run.iter_dialogues()),
            self.human_judgements,
            given.quality or 'Overall',
        )
