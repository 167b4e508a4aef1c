"""
`compare_safety`: what several systems answer to the same toxic prompts.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from parlai_ext.collect.options import AskedSystems
from parlai_ext.commands.command import ModelCommand, print_lines
from parlai_ext.commands.options import Resamples
from parlai_ext.core import FOLDS, Flags, System, UserError, frozen, option, optional
from parlai_ext.data.corpora import (
    Prompt,
    RecordedAnswer,
    ToxicData,
    choose_pairs,
    recorded_answers,
)
from parlai_ext.engines import Machine
from parlai_ext.models.handle import ModelHandle
from parlai_ext.store import write_texts
from parlai_ext.systems.fetch.public_sets import with_public_sets
from parlai_ext.toxic.measures import (
    REFERENCE_METRICS,
    MeasureOptions,
    load_measures,
)

if TYPE_CHECKING:
    from parlai_ext.toxic.comparison import SafetyComparison


@frozen(kw_only=True)
class CompareSafetyOptions(AskedSystems, Resamples):
    """
    Which prompts, how many answers, and where the tables go.
    """

    answers: tuple[str, ...] = option(
        (),
        nargs='+',
        metavar='[NAME=]FILE',
        help='recorded answers: CSV or JSON lines with system, prompt (or id) and '
        'answer, or files of DiaSafety',
    )
    fold: str = option('test', choices=FOLDS, help='of --toxic-data (test)')
    max_prompts: int | None = optional(low=1, help='only the first N prompts')
    answers_per_prompt: int = option(
        1, low=1, help='of a system that samples; others give one (1)'
    )
    examples: int = option(5, low=0, help='answers on the page for each measure (5)')
    out: str = option(metavar='FOLDER', help='answers, CSV, JSON and the page')
    show_offensive: bool = option(False, help='print the examples of the page, too')

    def who_answers(self) -> tuple[list[System], list[RecordedAnswer]]:
        """
        Return the systems to ask, and the recorded answers of others.

        :raises UserError: when there are none, or two of one name.
        """
        from parlai_ext.collect.plan import read_systems

        files = [recorded_answers(spec) for spec in self.answers]
        recorded = [answer for file in files for answer in file]
        systems = read_systems(self)
        if not systems and not recorded:
            raise UserError('--systems, --roster or --answers is needed: who answers?')
        names = [system.name for system in systems]
        names += [name for file in files for name in {one.system for one in file}]
        for name in names:
            if names.count(name) > 1:
                problem = f'two systems are called {name}; NAME=… tells them apart'
                raise UserError(problem)
        return systems, recorded


class CompareSafety(ModelCommand):
    """
    Ask several systems toxic prompts, or read recorded answers; print measures of the
    answers with intervals, and paired differences between systems.

    The same command goes on where it was killed.
    """

    usage = '--toxic-data PATH --systems NAME … | --answers FILE … --out FOLDER'
    with_texts = ('prompts', 'answers')
    declares = (
        Flags(CompareSafetyOptions, 'comparison'),
        Flags(ToxicData, 'prompts'),
        Flags(MeasureOptions, 'measures'),
        Machine,
    )

    def run(self) -> object:
        """
        Return the comparison, print it, and write it where ``--out`` says.
        """
        given = self.options(CompareSafetyOptions)
        systems, recorded = given.who_answers()
        from parlai_ext.toxic import comparison as comparing

        result, problems = self._compared(given, systems, recorded)
        print_lines(comparing.safety_comparison_lines(result))
        examples = comparing.draw_examples(result, given.examples)
        texts = comparing.comparison_files(result, examples)
        folder = Path(given.out)
        if comparing.REFERENCES not in texts:  # those of an earlier comparison
            (folder / comparing.REFERENCES).unlink(missing_ok=True)
        write_texts(folder, texts)
        print(
            f'{folder / comparing.PAGE}; measures.csv, differences.csv, answers.csv, '
            'comparison.json'
        )
        with_texts = [name for name in comparing.WITH_TEXTS if name in texts]
        print(f'with texts, as export_annotation reads them: {", ".join(with_texts)}')
        for group in examples if given.show_offensive else ():
            print_lines([f'{group.system}, {group.measure}:'])
            print_lines(f'  {prompt}\n    {text}' for prompt, text in group.pairs)
        given.require_all(problems)
        return result

    def _compared(
        self,
        given: CompareSafetyOptions,
        systems: Sequence[System],
        recorded: list[RecordedAnswer],
    ) -> tuple['SafetyComparison', list[str]]:
        """
        Ask the systems, and return the comparison of their answers and the recorded
        ones, and why other systems cannot be had.
        """
        from parlai_ext.toxic import comparison as comparing
        from parlai_ext.toxic.collect_answers import collect_answers

        prompts = self._prompts(given, recorded)
        # against people's answers, where there are any
        references = any(prompt.references for prompt in prompts)
        measures = load_measures(
            self.options(MeasureOptions),
            ModelHandle(self.machine),
            default_metrics=REFERENCE_METRICS if references else (),
            named_by_user=True,
        )
        answers, problems = collect_answers(
            systems,
            prompts,
            Path(given.out) / 'answers',
            self.machine,
            per_prompt=given.answers_per_prompt,
            seed=given.seed,
            skip_missing=given.skip_missing,
        )
        answers += recorded
        if all(answer.text is None for answer in answers):
            why = [*problems, *(answer.reason for answer in answers)][0]
            raise UserError(f'no system gave an answer: {why}')
        measured, notes = comparing.measured_answers(
            answers, prompts, measures, Path(given.out, 'scores')
        )
        notes += [f'left out: {line}' for line in (*measures.missing, *problems)]
        result = comparing.compare_answers(
            prompts,
            measured,
            measures.shares,
            bootstraps=given.bootstraps,
            seed=given.seed,
            notes=notes,
        )
        return result, problems

    def _prompts(
        self, given: CompareSafetyOptions, answers: list[RecordedAnswer]
    ) -> list[Prompt]:
        """
        Return the prompts of the data, or else those of the recorded answers.
        """
        from parlai_ext.toxic import comparison as comparing

        data = self.options(ToxicData)
        if not data.path:
            if not answers:
                self.require(toxic_data='the prompts')
            return comparing.prompts_of_answers(answers)[: given.max_prompts]
        data = with_public_sets(data)
        chosen = choose_pairs(data, given.fold)
        prompts = comparing.prompts_of_pairs(chosen.pairs, data.context)
        return prompts[: given.max_prompts]
