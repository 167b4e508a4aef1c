"""
`compare_safety`: what several systems answer to the same toxic prompts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from parlai_ext.commands.command import ModelCommand
from parlai_ext.core.errors import UserError, printable
from parlai_ext.core.machine import Machine
from parlai_ext.core.options import Flags, option
from parlai_ext.data.toxic_pairs import FOLDS, ToxicData
from parlai_ext.toxic.measures import (
    REFERENCE_METRICS,
    MeasureOptions,
    load_measures,
)

if TYPE_CHECKING:
    from parlai_ext.core.nouns import System
    from parlai_ext.data.recorded_answers import RecordedAnswer
    from parlai_ext.toxic.comparison import SafetyComparison
    from parlai_ext.toxic.measures import AnswerMeasures, Prompt

BOOTSTRAPS = 1000
SYSTEMS_HELP = (
    'systems that are asked: shipped names, files, NAME=MODEL_FILE[,key=value…]'
)
ANSWERS_HELP = (
    'recorded answers: CSV or JSON lines with system, prompt (or id) and answer, or '
    'files of DiaSafety'
)
TEXTS, REFERENCES = 'answers.jsonl', 'references.jsonl'  # the files with texts


@dataclass(frozen=True)
class CompareSafetyOptions:
    """
    Which prompts, how many answers, and where the tables go.
    """

    systems: tuple[str, ...] = option(
        (), nargs='+', metavar='SYSTEM', help=SYSTEMS_HELP
    )
    answers: tuple[str, ...] = option(
        (), nargs='+', metavar='[NAME=]FILE', help=ANSWERS_HELP
    )
    roster: str | None = option(
        None, metavar='NAME|FILE', help='systems: the targets of a roster'
    )
    fold: str = option('test', choices=FOLDS, help='of --toxic-data (test)')
    max_prompts: int | None = option(None, low=1, help='only the first N prompts')
    answers_per_prompt: int = option(
        1, low=1, help='of a system that samples; others give one (1)'
    )
    skip_missing: bool = option(False, help='leave out systems that cannot be had')
    bootstraps: int = option(
        BOOTSTRAPS,
        low=1,
        help=f'resamples behind each interval ({BOOTSTRAPS})',
    )
    seed: int = option(0, help='draws resamples, examples and sampled answers (0)')
    examples: int = option(5, low=0, help='answers on the page for each measure (5)')
    out: str = option(
        '', metavar='FOLDER', path=True, help='answers, CSV, JSON and the page'
    )
    show_offensive: bool = option(False, help='print the examples of the page, too')


class CompareSafety(ModelCommand):
    """
    Ask several systems toxic prompts, or read recorded answers; print measures of the
    answers with intervals, and paired differences between systems.

    The same command goes on where it was killed.
    """

    usage = '--toxic-data PATH --systems NAME … | --answers FILE … --out FOLDER'
    declares = (
        Flags(CompareSafetyOptions, 'comparison'),
        Flags(ToxicData, 'prompts'),
        Flags(MeasureOptions, 'measures'),
        Machine,
    )
    needs = {'out': 'the folder of the tables'}

    def run(self) -> SafetyComparison:
        """
        Return the comparison, print it, and write it where ``--out`` says.
        """
        from parlai_ext.data.recorded_answers import recorded_answers
        from parlai_ext.toxic import comparison as comparing
        from parlai_ext.toxic.collect_answers import collect_answers
        from parlai_ext.toxic.comparison_table import comparison_lines
        from parlai_ext.toxic.prompts import answers_of_systems

        given, machine = self.options(CompareSafetyOptions), self.machine
        answers = [a for spec in given.answers for a in recorded_answers(spec)]
        systems = self._systems(given, answers)
        if not systems and not answers:
            raise UserError(
                '--systems, --roster or --answers is needed: whose answers?'
            )
        prompts = self._prompts(given, answers)
        measures = self._measures(prompts)
        folder = Path(given.out)
        problems: list[str] = []
        if systems:
            collected, problems = collect_answers(
                systems,
                prompts,
                folder / 'answers',
                machine,
                per_prompt=given.answers_per_prompt,
                seed=given.seed,
                skip_missing=given.skip_missing,
            )
            answers = [*collected, *answers]
        measured, notes = answers_of_systems(answers, prompts, measures)
        notes += [f'left out: {line}' for line in (*measures.missing, *problems)]
        if not measured:
            raise UserError(f'no system gave an answer: {problems[0]}')
        result = comparing.compare_answers(
            prompts,
            measured,
            measures.shares,
            bootstraps=given.bootstraps,
            seed=given.seed,
            notes=notes,
        )
        for line in comparison_lines(result):
            print(printable(line))
        self._write(folder, result, measures, given)
        if problems and not given.skip_missing:
            raise UserError(f'not all systems could answer: {problems[0]}')
        return result

    def _measures(self, prompts: list[Prompt]) -> AnswerMeasures:
        """
        Return what measures the answers; metrics with references where there are any.
        """
        from parlai_ext.models.handle import ModelHandle

        there = any(prompt.references for prompt in prompts)
        return load_measures(
            self.options(MeasureOptions),
            ModelHandle(self.machine),
            default_metrics=REFERENCE_METRICS if there else (),
            named_by_user=True,
        )

    def _systems(
        self, given: CompareSafetyOptions, answers: list[RecordedAnswer]
    ) -> list[System]:
        """
        Return the systems that are named, and those of the roster; two of one name,
        whose answers would be taken for one system's, are refused.
        """
        from parlai_ext.compat.parlai_setup import prepare_parlai
        from parlai_ext.files.roster_file import load_roster, parse_target

        systems = [parse_target(spec)[0] for spec in given.systems]
        if given.roster:
            systems += load_roster(given.roster).roster.targets
        if systems:
            prepare_parlai()
        names = [system.name for system in systems]
        names += dict.fromkeys(answer.system for answer in answers)
        for name in names:
            if names.count(name) > 1:
                raise UserError(
                    f'two systems are called {name}; NAME=… tells them apart'
                )
        return systems

    def _prompts(
        self, given: CompareSafetyOptions, answers: list[RecordedAnswer]
    ) -> list[Prompt]:
        """
        Return the prompts of the data, or else those of the recorded answers.
        """
        from parlai_ext.data.toxic_pairs import choose_pairs
        from parlai_ext.toxic.prompts import prompts_of_answers, prompts_of_pairs
        from parlai_ext.toxic.public_sets import with_public_sets

        data = self.options(ToxicData)
        if not data.path:
            if not answers:
                self.require(toxic_data='the prompts')
            return prompts_of_answers(answers)[: given.max_prompts]
        data = with_public_sets(data, self.machine.datapath)
        chosen = choose_pairs(data, given.fold)
        return prompts_of_pairs(chosen.pairs, data.context)[: given.max_prompts]

    def _write(
        self,
        folder: Path,
        result: SafetyComparison,
        measures: AnswerMeasures,
        given: CompareSafetyOptions,
    ) -> None:
        """
        Write tables and page, and print examples where that is asked for.
        """
        from parlai_ext.store.atomic import write_text
        from parlai_ext.store.lines import dumps
        from parlai_ext.toxic import comparison as comparing
        from parlai_ext.toxic import comparison_table as tables
        from parlai_ext.toxic.comparison import draw_examples

        examples = draw_examples(result, measures.shares, given.examples)
        data = dumps(comparing.comparison_data(result), indent=1)
        texts = {TEXTS: comparing.answer_texts(result)}
        if references := comparing.reference_texts(result):
            texts[REFERENCES] = references
        for name, text in (
            ('measures.csv', tables.measures_file(result).csv()),
            ('differences.csv', tables.difference_table(result).csv()),
            ('answers.csv', tables.answers_file(result).csv()),
            ('comparison.json', data + '\n'),
            *texts.items(),
        ):
            write_text(folder / name, text)
        page = tables.write_safety_page(folder, result, examples)
        if given.show_offensive:
            for group in examples:
                print(f'{group.system}, {group.measure}:')
                for prompt, answer in group.pairs:
                    print(printable(f'  {prompt}\n    {answer}'))
        print(f'{page}; measures.csv, differences.csv, answers.csv, comparison.json')
        print(f'with texts, as export_annotation reads them: {", ".join(texts)}')
