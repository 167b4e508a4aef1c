"""
`export_annotation`: recorded answers as blind sheets or pages for annotators.
"""

from pathlib import Path

from parlai_ext.commands.command import Command, print_lines
from parlai_ext.core import UserError, frozen, option, optional
from parlai_ext.data.corpora import recorded_answers
from parlai_ext.people.answer_items import AnnotationOptions, make_annotation_set
from parlai_ext.people.rating_set import (
    LIKERT,
    PAIR,
    RatingSet,
    acute_files,
    item_lines,
    label_files,
    read_questionnaire,
    render_rating_page,
    sheet_files,
    turn_annotation_files,
    write_key,
)
from parlai_ext.store import write_text, write_texts

CSV, JSONL, PAGE, ACUTE, TURNS = FORMATS = (
    'csv',
    'jsonl',
    'page',
    'acute_eval',
    'turn_annotations',
)
# the questionnaire of each way to ask
PAIRS, LABELS = 'pairs', 'labels'
ASKED = {PAIRS: 'answer_pair', LABELS: 'answer_label'}
SEND, TEXTS = 'send', 'items.jsonl'


@frozen
class ExportAnnotationOptions:
    """
    What annotators do, and in which form they get it.
    """

    answers: tuple[str, ...] = option(
        nargs='+',
        metavar='[NAME=]FILE',
        help='recorded answers: *.csv or *.jsonl with system, prompt, answer; '
        '*.json of DiaSafety',
    )
    out: str = option(
        metavar='FOLDER',
        help='its folder send goes to annotators; key.json and items.jsonl stay',
    )
    items: str = option(
        PAIRS,
        choices=tuple(ASKED),
        help='pairs: the better of two answers, A, B, T or U, and flags; labels: -1, 0 '
        'or 1 for each answer',
    )
    format: str = option(
        CSV,
        choices=FORMATS,
        help='csv, jsonl: a sheet for each annotator; page: one offline HTML file; '
        'acute_eval (pairs), turn_annotations (labels): input of ParlAI’s '
        'crowdsourcing tasks',
    )
    questionnaire: str | None = optional(
        metavar='NAME|FILE',
        help='what is asked (answer_pair, answer_label)',
    )
    num_sheets: int = option(
        7,
        low=1,
        help='sheets, each with an order and sides of its own (7)',
    )

    def files(self, drawn: RatingSet, seed: int) -> dict[str, str]:
        """
        Return what annotators get, by the names of the files.

        :param seed: draws orders and sides of the sheets.
        """
        key, (items,) = drawn.key, drawn.pages
        if self.format in (CSV, JSONL):
            return sheet_files(drawn, self.num_sheets, self.format, seed)
        if self.format == PAGE:
            return {'annotate.html': render_rating_page(key, 1, items, drawn.turns)}
        if self.format == ACUTE:
            return acute_files(items, drawn.turns, key.questions[0])
        turns = turn_annotation_files(items, drawn.turns)
        return {**turns, **label_files(key)}


class ExportAnnotation(Command):
    """
    Draw single answers, or blind pairs of answers to the same prompt, with control
    items; write what annotators get and the key that stays. No text is printed.
    """

    usage = '--answers [NAME=]FILE … --out FOLDER [option …]'
    declares = (ExportAnnotationOptions, AnnotationOptions)

    def run(self) -> object:
        """
        Return the paths of the files that annotators get.
        """
        given = self.options(ExportAnnotationOptions)
        options = self.options(AnnotationOptions)
        asked = read_questionnaire(given.questionnaire or ASKED[given.items])
        asked.require(
            PAIR if given.items == PAIRS else LIKERT, f'--items {given.items}'
        )
        only = {ACUTE: PAIRS, TURNS: LABELS}.get(given.format, given.items)
        if given.items != only:
            raise UserError(f'--format {given.format}: takes --items {only} alone')
        answers = [a for spec in given.answers for a in recorded_answers(spec)]
        drawn = make_annotation_set(answers, asked, options)
        files = given.files(drawn, options.seed)
        folder = Path(given.out)
        key = write_key(folder, drawn.key, '--out')
        write_text(folder / TEXTS, item_lines(drawn))
        paths = write_texts(folder / SEND, files)
        print(*paths, sep='\n')
        print_lines(f'note: {note}' for note in drawn.notes)
        print(f'{key}, {folder / TEXTS}: say which system gave which answer; keep them')
        return paths
