"""
`import_judgements`: what people said of dialogues, as files that other commands read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from parlai_ext.commands.command import Command, print_lines
from parlai_ext.commands.options import Resamples
from parlai_ext.core import (
    UserError,
    frozen,
    named_pairs,
    option,
    optional,
    record_to_json,
)
from parlai_ext.people.given_answers import (
    FORMATS,
    FastAnswers,
    answer_files,
    judgements_of,
    own_chats,
    read_crowd_answers,
    read_given_answers,
)
from parlai_ext.people.ranking import (
    CARD,
    COMPARISON_COLUMNS,
    FILE,
    TABLES,
    Judgements,
    PeopleRanking,
    judged_card,
    judged_lines,
    judgements_csv,
    people_lines,
    rank_by_people,
    spot_the_bot_tables,
)
from parlai_ext.people.rating_set import (
    DialogueReference,
    judged_dialogues,
    read_keys,
    stream_turns,
)
from parlai_ext.store import RunFolder, json_text, no_garbage_collection, write_texts
from parlai_ext.view import Table

PAGE = 'page'


@frozen(kw_only=True)
class ImportJudgementsOptions(Resamples):
    """
    Where judgements go, and what their dimensions are called.
    """

    answers: tuple[str, ...] = option(
        nargs='+',
        metavar='FILE|FOLDER',
        help='answers that annotators gave; of a folder all files of the format',
    )
    out: str | None = optional(
        metavar='FOLDER',
        help='where the files go (default: RUN/people/judgements)',
    )
    format: str = option(
        PAGE,
        choices=(PAGE, *FORMATS),
        help='page: files that rating pages saved; acute_eval: *.full.csv; model_chat '
        'and turn_annotations: JSON files; spot_the_bot: annotated-*.jsonl; '
        'csv: system,dimension,value,rater,dialogue_id',
    )
    questionnaire: str | None = optional(
        metavar='NAME|FILE',
        help='the questions of acute_eval (acute) or of model_chat (likert_2022)',
    )
    dimensions: tuple[str, ...] = option(
        (), metavar='DIMENSION,…', help='only these dimensions (default: all judged)'
    )
    rename: tuple[str, ...] = option(
        (),
        metavar='DIMENSION=NAME,…',
        help='other names of dimensions, such as Engaging=Overall, so that a scorer’s '
        'dimension is compared with them',
    )
    outlier_deviations: float | None = optional(
        above=0,
        help='leave out ratings farther than X deviations from the median of their '
        'item (1.4826 times the median absolute one; DSTC10 Track 5: 1)',
    )
    chats: tuple[str, ...] = option(
        (),
        nargs='+',
        metavar='FILE|FOLDER',
        help='model_chat logs of the judged dialogues: what annotators said of their '
        'own chats is left out',
    )

    def counted(self, judgements: Judgements) -> Judgements:
        """
        Return the judgements that count, their dimensions renamed.

        :raises UserError: when there is none.
        """
        if self.chats:
            judgements = judgements.without_own(own_chats(self.chats))
        names = named_pairs('--rename', self.rename, 'DIMENSION=NAME')
        judgements = judgements.chosen(self.dimensions, names)
        if self.outlier_deviations is not None:
            judgements = judgements.without_outliers(self.outlier_deviations)
        if not judgements.every:
            notes = '; '.join(['', *judgements.notes])
            raise UserError(f'--answers: there is no answer in them{notes}')
        return judgements


class ImportJudgements(Command):
    """
    Read what annotators sent back, rank the systems by it, and write it as files.
    """

    usage = '--run-dir FOLDER --answers FILE|FOLDER … [--format NAME] [option …]'
    declares = ('--run-dir', ImportJudgementsOptions, FastAnswers)

    @no_garbage_collection()
    def run(self) -> object:
        """
        Write the files, print the ranking by people, and return it.
        """
        given = self.options(ImportJudgementsOptions)
        kind = FORMATS.get(given.format)  # of others than pages
        if given.questionnaire and not (kind and kind.questionnaire):
            raise UserError(
                f'--questionnaire: --format {given.format} asks none; leave it out'
            )
        if given.format == PAGE or not given.out:
            self.require(run_dir='the folder of the run whose dialogues were judged')
        run = self.existing_run if self.opt['run_dir'] else None
        dialogues = judged_dialogues(run)[0] if run else []
        judgements = given.counted(self._judgements(given, run, dialogues))
        rankings = rank_by_people(judgements, given.bootstraps, given.seed)
        root = run.root if run else Path()
        out = Path(given.out or root / 'people' / 'judgements')
        tables = list(spot_the_bot_tables(judgements.ratings))
        csv = {f'{name}.csv': table.csv() for name, _, table in tables}
        write_judgements(run, dialogues, judgements, rankings, csv, out)
        planted = None
        if run and run.manifest.protocol.reference_kind == 'planted':
            orders = list(run.manifest.protocol.reference.values())
            planted = orders[0] if len(orders) == 1 else None
        for ranking in rankings:
            print_lines(people_lines(ranking, planted))
        for _, title, table in tables:
            print_lines([title, *table.lines('  ')])
        print_lines(f'note: {note}' for note in judgements.notes)
        print(f'judgements: {out / JUDGEMENTS} (--human-scores of rank_systems)')
        return rankings

    def _judgements(
        self,
        given: ImportJudgementsOptions,
        run: RunFolder | None,
        dialogues: Sequence[DialogueReference],
    ) -> Judgements:
        """
        Return the judgements in the files, by their format.

        :param dialogues: the judged dialogues of the run.
        """
        if run is not None and given.format == PAGE:
            paths = answer_files('--answers', given.answers, '*.json')
            keys = read_keys(run)
            every, notes = read_given_answers(paths, keys)
            answers, fast_notes = self.options(FastAnswers).checked(every)
            judgements = judgements_of(answers, keys, [*notes, *fast_notes])
        else:
            judgements = read_crowd_answers(
                given.format, given.answers, given.questionnaire
            )
        openers = {d.dialogue_id: d.opener_id for d in dialogues}
        sides = {
            (s.system, s.dialogue_id) for d in dialogues for s in (d, d.other_side)
        }
        judged, notes = judgements.sides, [*judgements.notes]
        if run is not None and (others := judged - sides):
            notes.append(
                'judged dialogues that are no whole dialogue of a target of the run: '
                f'{len(others)} of {len(judged)}'
            )
        return replace(judgements, contexts=openers, notes=tuple(notes))


JUDGEMENTS, COMPARISONS, RANKINGS = 'judgements.csv', 'comparisons.csv', 'people.json'


def write_judgements(
    run: RunFolder | None,
    dialogues: Sequence[DialogueReference],
    judgements: Judgements,
    rankings: Sequence[PeopleRanking],
    tables: Mapping[str, str],
    out: Path,
) -> None:
    """
    Write the judgements as CSV and as a judged set, and the ranking by people.

    :param tables: of Spot The Bot, as CSV by the name of the file.
    """
    rows = judgements.by_dialogue()
    texts = {
        JUDGEMENTS: judgements_csv(rows),
        RANKINGS: json_text(record_to_json(list(rankings))),
        **tables,
    }
    if judgements.comparisons:
        texts[COMPARISONS] = Table(COMPARISON_COLUMNS, judgements.comparisons).csv()
    if run is not None:
        judged = {(j.system, j.dialogue_id) for j in rows}
        shown = [d for d in dialogues if (d.system, d.dialogue_id) in judged]
        turns = {
            (dialogue.system, dialogue.dialogue_id): turns
            for dialogue, turns in stream_turns(run, shown)
        }
        if lines := judged_lines(rows, turns):
            card = judged_card(sorted({row.dimension for row in rows}))
            texts |= {FILE: lines, CARD: card}
    # what an earlier import wrote besides is of other answers
    for name in (COMPARISONS, FILE, CARD, *(f'{table}.csv' for table in TABLES)):
        if name not in texts:
            (out / name).unlink(missing_ok=True)
    write_texts(out, texts)
