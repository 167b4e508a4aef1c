"""
`import_annotation`: what annotators said of recorded answers, as tables.
"""

from collections.abc import Sequence
from pathlib import Path

from parlai_ext.commands.command import Command, print_lines
from parlai_ext.commands.options import Resamples
from parlai_ext.core import UserError, errors_about, frozen, option, optional
from parlai_ext.people import answer_shares
from parlai_ext.people.given_answers import (
    FastAnswers,
    GivenAnswer,
    answer_files,
    answers_of_judgements,
    read_crowd_answers,
    read_given_answers,
)
from parlai_ext.people.rating_set import RatingKey, read_key
from parlai_ext.store import write_texts

FILES, ACUTE, TURNS = FORMATS = ('files', 'acute_eval', 'turn_annotations')
ENDINGS = ('*.csv', '*.jsonl', '*.json')


@frozen(kw_only=True)
class ImportAnnotationOptions(Resamples):
    """
    Which key is asked, and which answers count.
    """

    key: str = option(
        metavar='FOLDER',
        help='the folder that export_annotation wrote, or its key.json',
    )
    answers: tuple[str, ...] = option(
        nargs='+',
        metavar='FILE|FOLDER',
        help='what annotators sent back; a sheet’s name is its annotator',
    )
    format: str = option(
        FILES,
        choices=FORMATS,
        help='files: sheets (*.csv, *.jsonl) and the files of rating pages (*.json); '
        'acute_eval: *.full.csv; turn_annotations: agent_data.json',
    )
    drop_failed: bool = option(
        False,
        help='leave out annotators whose control items cannot be told from guessing',
    )
    min_agreeing: tuple[str, ...] = option(
        (),
        metavar='N|ANSWER=N,…',
        help='only items to which N annotators or more gave the same answer; 1=5,-1=6: '
        'five the label 1, or six the label -1, and no others',
    )
    out: str | None = optional(
        metavar='FOLDER',
        help='where the tables go, without texts (default: results beside the key)',
    )

    def read(self, key: RatingKey) -> tuple[list[GivenAnswer], list[str]]:
        """
        Return the answers to the questions of a key, and notes about them.

        :raises UserError: when there is none.
        """
        if self.format == FILES:
            paths = answer_files('--answers', self.answers, *ENDINGS)
            answers, notes = read_given_answers(paths, {key.rating_set: key})
        else:
            judgements = read_crowd_answers(self.format, self.answers, None)
            answers = answers_of_judgements(judgements, key, self.format)
            notes = list(judgements.notes)
        if not answers:
            raise UserError('--answers: no answer is in them')
        return answers, notes


class ImportAnnotation(Command):
    """
    Read what annotators sent back; print how often each system won or got which label,
    how far annotators agree, and who is no better than guessing; write it as CSV.
    """

    usage = '--key FOLDER --answers FILE|FOLDER … [option …]'
    declares = (ImportAnnotationOptions, FastAnswers)

    def run(self) -> object:
        """
        Print the tables, write them, and return them.
        """
        given = self.options(ImportAnnotationOptions)
        place = Path(given.key)
        with errors_about('--key'):
            key = read_key(place)
        answers, notes = given.read(key)
        counted, fast_notes = self.options(FastAnswers).checked(answers)
        results = answer_shares.annotation_results(
            counted,
            key,
            drop_failed=given.drop_failed,
            min_agreeing=agreement_limits(given.min_agreeing),
            bootstraps=given.bootstraps,
            seed=given.seed,
        )
        every_note = (*notes, *fast_notes, *results.notes)
        if not results.num_answers:
            raise UserError(f'--answers: no answer is left; {"; ".join(every_note)}')
        print_lines(answer_shares.share_lines(results))
        print_lines(f'note: {note}' for note in every_note)
        home = place if place.is_dir() else place.parent
        out = Path(given.out or home / 'results')
        tables = answer_shares.result_tables(results, counted, key)
        write_texts(out, tables)
        print(f'{out}: {", ".join(tables)}')
        return results


def agreement_limits(texts: Sequence[str]) -> dict[str, int]:
    """
    Return the number of annotators for each answer (``''``: for any) of
    ``--min-agreeing``.

    >>> agreement_limits(['1=5', '-1=6']), agreement_limits(['5'])
    ({'1': 5, '-1': 6}, {'': 5})
    """
    limits = {}
    for text in texts:
        name, _, number = text.rpartition('=')
        if not number.isdecimal() or (not name and len(texts) > 1):
            raise UserError(f'--min-agreeing {text}: N, or ANSWER=N,… is expected')
        limits[name] = int(number)
    return limits
