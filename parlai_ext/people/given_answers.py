"""
What annotators send back: the files that rating pages save and sheets that were filled
in (`people/rating_set.py`), read against the keys of what was asked, and what
crowdsourcing tasks record.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import scipy

from parlai_ext.core import (
    DATA_ERRORS,
    HumanJudgement,
    JsonObject,
    UserError,
    frozen,
    grouped,
    option,
    require_known,
)
from parlai_ext.core.records import user_record
from parlai_ext.data.chat_logs import BadRecord, Chat
from parlai_ext.data.judged import DataFile, read_spot_the_bot
from parlai_ext.files import (
    json_lines,
    parse_number,
    read_csv,
    read_human_scores,
    read_json,
)
from parlai_ext.people.ranking import (
    FEATURES,
    HUMAN,
    TIE,
    Comparison,
    Judgements,
    judged_units,
)
from parlai_ext.people.rating_set import (
    ANSWER_COLUMN,
    BETTER,
    BUCKET,
    FORMAT,
    LETTERS,
    PAIR,
    SIDES,
    SPEAKERS,
    TIED,
    UNRELATED,
    KeyDialogue,
    Questionnaire,
    RatingKey,
    Wording,
    read_questionnaire,
)
from parlai_ext.view import count_of, one_line
from parlai_ext.view.page import terminal_notes
from parlai_ext.view.progress import counted

VALUES = {SIDES[0]: 1.0, SIDES[1]: 0.0, TIED: TIE, UNRELATED: TIE}
SHEETS = ('.csv', '.jsonl')
MARKED = ('x', '1', 'yes', 'true', 'y', '1.0')
NOT_MARKED = ('', '0', 'no', 'false', 'n', '0.0')
MOST_NAMED = 20  # annotators, in a note
FEWEST_ALIKE = 10  # answers of an annotator of which it is said that they are alike
UNLIKELY = 0.05  # the chance that an annotator without a preference is named
FLAGGED = 'Flagged'  # the dimension of flags: 1 where a dialogue was flagged


@frozen
class FastAnswers:
    """
    Which answers were given faster than an item can be read, and whether they count.

    They do unless the user says otherwise: a time is a hint and no proof, and which
    answers count is part of a study's design, to be settled before its ranking is seen.
    """

    min_seconds: float = option(
        # of careless answers to questionnaires: Huang et al., "Detecting and deterring
        # insufficient effort responding to surveys", J. of Business and Psychology
        # 27(1), 2012
        2.0,
        low=0,
        metavar='SECONDS',
        help='rating pages: answers in less time since the item was shown are named by '
        'annotator in a note (0: none)',
    )
    drop_fast: bool = option(
        False, help='rating pages: leave out answers below --min-seconds'
    )

    def checked(
        self, answers: Sequence[GivenAnswer]
    ) -> tuple[Sequence[GivenAnswer], list[str]]:
        """
        Return the answers that count, and a note on how many were too fast, and whose.
        """
        kept = [
            a for a in answers if a.seconds is None or a.seconds >= self.min_seconds
        ]
        given = Counter(answer.annotator for answer in answers)
        fast = given - Counter(answer.annotator for answer in kept)
        total = sum(fast.values())
        if not total:
            return answers, []
        named = named_annotators(
            f'{name} {number} of {given[name]}'
            for name, number in sorted(fast.items(), key=lambda f: (-f[1], f[0]))
        )
        done = 'counted; --drop-fast true leaves them out'
        note = (
            f'{total} of {len(answers)} answers were given in less than '
            f'{self.min_seconds:g} s, too fast to read ({named}); '
            f'they are {"left out" if self.drop_fast else done}'
        )
        return kept if self.drop_fast else answers, [note]


@frozen
class GivenAnswer:
    """
    One annotator's answer: of a pair ``a``, ``b``, ``tie`` or ``unrelated``, else the
    number of a label, from 1.

    :param left: which of a pair stood first, on the left, where that is known.
    :param seconds: how long the item had been shown until this answer.
    :param flags: which of the item were flagged, ``a`` or ``b``.
    """

    item: str
    dimension: str
    answer: str
    left: str | None = None
    seconds: float | None = None
    flags: tuple[str, ...] | None = None
    annotator: str = ''
    rating_set: str = ''

    @property
    def place(self) -> tuple[str, ...]:
        """
        What an annotator answers once.
        """
        return self.rating_set, self.annotator, self.item, self.dimension


@frozen
class PageAnswers:
    """
    The file that one annotator's browser saved.

    :param saved: when, in milliseconds since 1970: of two answers to the same question,
        the later one counts.
    """

    format: str
    rating_set: str
    page: int
    annotator: str
    saved: float
    answers: Sequence[GivenAnswer]


def read_given_answers(
    paths: Sequence[Path], keys: Mapping[str, RatingKey]
) -> tuple[list[GivenAnswer], list[str]]:
    """
    Return the answers in files of rating pages (``.json``) and in sheets, empty ones
    left out, and what a reader should know.

    An annotator may save a page twice, and answer the same item on two pages: the
    answer that was saved last counts.

    :param keys: the rating sets that may have been asked, by their ids.
    :raises UserError: names file and place of the first mistake; also where a sheet has
        an answer that its annotator has given already.
    """
    answers: dict[tuple[str, ...], GivenAnswer] = {}
    sheets = [path for path in paths if path.suffix in SHEETS]
    files = counted([path for path in paths if path not in sheets], 'file')
    pages = [read_page_file(path, keys) for path in files]
    num_given = 0
    for page in sorted(pages, key=lambda page: page.saved):
        num_given += len(page.answers)
        answers |= {answer.place: answer for answer in page.answers}
    notes = []
    if repeated := num_given - len(answers):
        notes.append(repeated_note(repeated))
    for path in sheets:
        for where, answer in _sheet_answers(path, keys):
            if answer.place in answers:
                raise UserError(
                    f'{where}: {answer.annotator} has answered about this item '
                    'already; files of the same name count as one annotator'
                )
            answers[answer.place] = answer
    return list(answers.values()), notes


def repeated_note(number: int) -> str:
    """
    Return the note on answers to a question that their annotator answered again.
    """
    return f'given again, so that the last one counts: {count_of(number, "answer")}'


def _sheet_answers(
    path: Path, keys: Mapping[str, RatingKey]
) -> Iterator[tuple[str, GivenAnswer]]:
    """
    Yield each answer of a sheet with its place. The annotator is the cell ``annotator``
    of the row, or the name of the file.
    """
    by_item = {item: key for key in keys.values() for item in key.items}
    rows: Iterator[tuple[int, JsonObject]]
    rows = json_lines(path) if path.suffix == '.jsonl' else read_csv(path, ('row',))
    for line, row in rows:
        where, (item, _, order) = f'{path}:{line}', str(row.get('row')).partition('-')
        column = next((name for name in ANSWER_COLUMN.values() if name in row), None)
        if column is None:
            columns = ' or '.join(ANSWER_COLUMN.values())
            raise UserError(f'{where}: the column {columns} is missing')
        cell = _cell(row, column).lstrip("'")
        if not cell:
            continue
        key = by_item.get(item)
        if key is None or (key.kind == PAIR and order not in ('1', '2')):
            raise UserError(f'{where}: row: {row.get("row")!r} is not in the key')
        sides = SIDES if order == '1' else SIDES[::-1]
        letters = {**dict(zip(sides, 'AB', strict=True)), **LETTERS}
        names = {letters.get(name, name): a for name, a in key.named_answers.items()}
        text = cell.upper().replace('\u2212', '-').removeprefix('+').removesuffix('.0')
        require_known(text, names, f'{where}: {ANSWER_COLUMN[key.kind]}: {cell!r}')
        answer = GivenAnswer(
            item,
            key.questions[0].dimension,
            names[text],
            annotator=_cell(row, 'annotator') or path.stem.strip(),
            rating_set=key.rating_set,
        )
        if key.kind == PAIR:
            flags = tuple(sorted(_sheet_flags(row, sides, where)))
            answer = replace(answer, left=sides[0], flags=flags)
        yield where, answer


def _sheet_flags(row: JsonObject, sides: Sequence[str], where: str) -> Iterator[str]:
    """
    Yield the sides that a row of a sheet flags.

    :param sides: those that stand first and second in it.
    """
    for letter, side in zip('ab', sides, strict=True):
        mark = _cell(row, f'flag_{letter}').casefold()
        if mark not in (*MARKED, *NOT_MARKED):
            raise UserError(f'{where}: flag_{letter}: {mark!r}; x, or nothing')
        if mark in MARKED:
            yield side


def _cell(row: JsonObject, column: str) -> str:
    value = row.get(column)
    return '' if value is None else str(value).strip()


def read_page_file(path: str | Path, keys: Mapping[str, RatingKey]) -> PageAnswers:
    """
    Return the answers of one file, each checked against the key of its rating set.
    """
    where = f'{path}: no answers of a rating page'
    file = user_record(PageAnswers, read_json(path, dict), where)
    if file.format != FORMAT:
        raise UserError(f'{path}: format: {FORMAT!r} is expected, not {file.format!r}')
    if not file.annotator.strip():
        raise UserError(f'{path}: annotator: is empty')
    key = keys.get(file.rating_set)
    if key is None:
        raise UserError(
            f'{path}: rating_set: {file.rating_set!r} is of no key in this run; the '
            'key is in the folder that rate_dialogues wrote'
        )
    allowed = {one.dimension: key.answers_to(one) for one in key.questions}
    for place, answer in enumerate(file.answers):
        for name, known in (
            ('item', key.items),
            ('dimension', allowed),
            ('answer', allowed.get(answer.dimension, ())),
        ):
            value = getattr(answer, name)
            require_known(value, known, f'{path}: answers[{place}].{name}: {value!r}')
    name, rating_set = file.annotator.strip(), file.rating_set
    answers = [replace(a, annotator=name, rating_set=rating_set) for a in file.answers]
    return replace(file, answers=answers)


def answers_of_judgements(
    judgements: Judgements, key: RatingKey, form: str
) -> list[GivenAnswer]:
    """
    Return the answers about the items of a key that a crowdsourcing task recorded.

    :raises UserError: for a key of another kind than the task, an answer about no item,
        or a bucket that is no label.
    """
    if (form == 'acute_eval') != (key.kind == PAIR):
        raise UserError(
            f'--format {form}: the key is of {key.kind} items, not of those'
        )
    items = {
        frozenset(d.dialogue_id for d in shown): item
        for item, shown in key.items.items()
    }
    labels = {BUCKET + name: answer for name, answer in key.named_answers.items()}
    answers = []
    for one in judgements.every:
        values = {dialogue: value for (_, dialogue, _), value in judged_units(one)}
        if 1 not in values.values():  # a bucket that was not ticked
            continue
        item = items.get(frozenset(values))
        if item is None:
            ids = ' and '.join(values)
            raise UserError(f'--answers: {ids}: of no item of the key')
        if key.kind == PAIR:  # there is no tie and no flag
            wins = [values[d.dialogue_id] == 1 for d in key.items[item]]
            answer = SIDES[wins.index(True)]
        else:
            problem = f'--answers: bucket {one.dimension}: no label'
            require_known(one.dimension, labels, problem)
            answer = labels[one.dimension]
        answers.append(GivenAnswer(item, '', answer, annotator=one.rater or ''))
    return answers


def judgements_of(
    answers: Sequence[GivenAnswer], keys: Mapping[str, RatingKey], notes: Sequence[str]
) -> Judgements:
    """
    Return answers as ratings and comparisons. Each dialogue that could be flagged has a
    rating, too: 1 if it was and 0 if not.

    :raises UserError: as `refuse_two_scales` does.
    """
    refuse_two_scales([keys[name] for name in sorted({a.rating_set for a in answers})])
    ratings: list[HumanJudgement] = []
    flagged, comparisons = [], []
    for answer in answers:
        key = keys[answer.rating_set]
        name, shown = answer.annotator, key.items[answer.item]
        question = key.question(answer.dimension)
        if key.kind == PAIR:
            first, second = shown
            comparisons.append(
                Comparison(
                    name,
                    answer.dimension,
                    first.system,
                    second.system,
                    VALUES[answer.answer],
                    first.dialogue_id,
                    second.dialogue_id,
                    answer.item,
                )
            )
        else:
            ratings += _ratings(answer, question, shown)
        if key.flag and question == key.questions[0]:
            for side, d in zip(SIDES, shown, strict=False):
                value = float(side in (answer.flags or ()))
                flag = HumanJudgement(d.system, FLAGGED, value, name, d.dialogue_id)
                flagged.append(flag)
    return Judgements(
        (*ratings, *flagged, *comparisons),
        lower_is_better=frozenset({FLAGGED}),
        notes=(*notes, *annotator_notes(answers)),
    )


def refuse_two_scales(keys: Iterable[RatingKey]) -> None:
    """
    Refuse a dimension whose answers are worth other numbers in one rating set than in
    another one.
    """
    scales: dict[str, tuple[float, ...]] = {}
    for key in keys:
        for one in key.questions:
            possible = () if key.kind == PAIR else key.answers_to(one)
            scale = tuple(map(one.value, possible))
            if scales.setdefault(one.dimension, scale) != scale:
                raise UserError(
                    f'--answers: {one.dimension} was asked on two scales, the other '
                    f'one by {key.name}; import their answers apart, with --out'
                )


def _ratings(
    answer: GivenAnswer, question: Wording, shown: Sequence[KeyDialogue]
) -> Iterator[HumanJudgement]:
    """
    Yield what an answer says of the dialogue; of a segment, of each speaker who was
    judged, as of its last turn.
    """
    dimension, value = question.dimension, question.value(answer.answer)
    values: Sequence[float | None] = [value]
    if question.speaker is not None:
        dimension = dimension.removesuffix(f' ({SPEAKERS[question.speaker]})')
        values = (value, None) if question.speaker == 0 else (None, value)
    elif len(shown) > 1:
        values = BETTER[int(answer.answer) - 1]
    for d, one in zip(shown, values, strict=True):
        if one is not None:
            turn = None if d.exchanges is None else 2 * d.exchanges - 1
            yield HumanJudgement(
                d.system, dimension, one, answer.annotator, d.dialogue_id, turn
            )


def annotator_notes(answers: Iterable[GivenAnswer]) -> list[str]:
    """
    Return notes on how often the side that stood first was preferred (about half, if
    sides do not matter), and on annotators who prefer one side beyond chance, answer
    everything alike, or gave the very answers of another one.
    """
    by_annotator = sorted(grouped((a.annotator, a) for a in answers).items())
    chosen = {}
    for name, own in by_annotator:
        sides = [a.answer == a.left for a in own if {a.left, a.answer} <= {*SIDES}]
        if sides:
            chosen[name] = sum(sides), len(sides)
    many = [(name, own) for name, own in by_annotator if len(own) >= FEWEST_ALIKE]
    kinds = {name: {a.answer for a in own} for name, own in many}
    equal = grouped(
        (frozenset((a.item, a.dimension, a.answer, a.flags) for a in own), name)
        for name, own in many
    )
    # Bonferroni: no annotator is named by chance in 95 % of studies
    lopsided = [
        f'{name} {k} of {n}'
        for name, (k, n) in chosen.items()
        if scipy.stats.binomtest(k, n).pvalue * len(chosen) < UNLIKELY
    ]
    return terminal_notes(
        'annotator_notes',
        chosen=chosen,
        lopsided=lopsided,
        alike=[n for n, one in kinds.items() if len(one) == 1 and not one & {*SIDES}],
        equal=equal.values(),
        named_annotators=named_annotators,
    )


def named_annotators(named: Iterable[str]) -> str:
    """
    Return the first of these annotators in one line, and how many they are.
    """
    first = list(map(one_line, named))
    more = f', … ({len(first)} annotators)' if len(first) > MOST_NAMED else ''
    return ', '.join(first[:MOST_NAMED]) + more


# --- crowdsourcing tasks --------------------------------------------------------------
# What crowdsourcing tasks record, read as judgements; one reader for each format.
#
# ``acute_eval``: the ``*.full.csv`` of ParlAI's ACUTE-Eval analysis.
# ``model_chat``: the JSON files of ParlAI's model_chat, ratings such as ``4|5|3|4``.
# ``turn_annotations``: ``agent_data.json`` of ParlAI's turn_annotations_static.
# ``spot_the_bot``: Spot The Bot's ``annotated-….jsonl`` beside its dialogues.
# ``csv``: plain CSV: system, dimension, value, rater, dialogue_id.
#
# Quality control is taken as it was recorded: annotators who failed ACUTE's onboarding,
# annotators whom model_chat lists as bad, and dialogues with a recorded violation are
# dropped and counted.

ACUTE_COLUMNS = ('worker', 'question', 'winner', 'loser', 'is_onboarding')
ANSWERED_ONCE = ('run_id', 'worker', 'question', 'pairing_id')
SEPARATOR = '|'
NO_PROBLEM = 'none_all_good'  # the bucket of good turns
TRUE, FALSE = ('true', '1', '1.0'), ('false', '0', '0.0')
# truth values that model_chat and turn annotations keep beside the buckets of a turn
NO_BUCKETS = ('do_annotate', 'episode_done', 'fake_start')


@frozen
class CrowdFormat:
    """
    A format: its reader, which files of a folder are read, and the questionnaire that
    the reader is given, if any.
    """

    read: Callable[..., Judgements]
    files: str
    questionnaire: str | None = None


# --------------------------------------------------------------------------- ACUTE-Eval


def read_acute(paths: Sequence[Path], asked: Questionnaire) -> Judgements:
    """
    Return the comparisons of ACUTE-Eval's ``full.csv``.

    A question in the words of the questionnaire has its dimension there; any other
    question is a dimension itself.
    """
    dimensions = {question.text: question.dimension for question in asked.questions}
    # by what an annotator answers once; an analysis that is run again repeats it
    tasks = {}
    failed, num_given = set(), 0
    for path in paths:
        for line, row in counted(read_csv(path, ACUTE_COLUMNS)):
            where, onboarding = f'{path}:{line}', row['is_onboarding'].casefold()
            if onboarding not in (*TRUE, *FALSE):
                problem = 'column is_onboarding: True or False is expected'
                raise UserError(f'{where}: {problem}')
            if onboarding in FALSE:
                num_given += 1
                key = tuple(row.get(name, '') for name in ANSWERED_ONCE)
                tasks[key if row.get('pairing_id') else (where,)] = where, row
            elif row.get('correct', '').casefold() in FALSE:
                failed.add(row['worker'])
    comparisons = [
        _acute_comparison(row, where, dimensions)
        for where, row in tasks.values()
        if row['worker'] not in failed
    ]
    notes = [repeated_note(repeated)] if (repeated := num_given - len(tasks)) else []
    if failed:
        notes.append(
            f'{count_of(len(failed), "annotator")} failed the onboarding; dropped: '
            f'{count_of(len(tasks) - len(comparisons), "comparison")} of theirs'
        )
    return Judgements(comparisons, notes=notes)


def _acute_comparison(
    row: Mapping[str, str], where: str, dimensions: Mapping[str, str]
) -> Comparison:
    """
    Return the comparison of one row; the systems are in the order of their names, so
    that all comparisons of a pair have the same first dialogue.
    """
    for column in ACUTE_COLUMNS[:-1]:
        if not row[column]:
            raise UserError(f'{where}: column {column}: is empty')
    winner, loser, question = row['winner'], row['loser'], row['question']
    if winner == loser:
        raise UserError(f'{where}: column loser: {loser!r} is the winner as well')
    first, second = sorted((winner, loser))
    # other batches count pairs and dialogues anew
    batch = f' of {row["run_id"]}' if row.get('run_id') else ''
    pair = f'{row.get("pairing_id", "")}{batch}'
    ids = [f'{name} in pair {pair}' for name in (first, second)]
    if row.get('pairs_to_eval'):
        try:
            ids = _dialogue_ids(row['pairs_to_eval'], batch, first, second)
        except (SyntaxError, *DATA_ERRORS):
            raise UserError(
                f'{where}: column pairs_to_eval: the pair as ACUTE-Eval writes it is '
                'expected, with speakers_to_eval and dialogue_ids'
            ) from None
    return Comparison(
        row['worker'],
        dimensions.get(question, question),
        first,
        second,
        value=float(winner == first),
        first_dialogue=ids[0],
        second_dialogue=ids[1],
        item=' '.join(ids),
    )


@cache  # every annotator of a pair has the same text
def _dialogue_ids(pair: str, batch: str, *names: str) -> list[str]:
    """
    Return the id of each system's dialogue: its own, or its number in the pairings file
    of a batch.
    """
    data = ast.literal_eval(pair)
    numbers = dict(zip(data['speakers_to_eval'], data['dialogue_ids'], strict=True))
    return [
        str(data[name].get('id') or f'{name} {numbers[name]}{batch}') for name in names
    ]


# --------------------------------------------------------------------------- model_chat


def read_model_chat(paths: Sequence[Path], asked: Questionnaire) -> Judgements:
    """
    Return the ratings of model_chat's dialogues, and the annotations of their turns.

    A rating such as ``4|5|3|4`` answers the questions of the questionnaire in order.
    """
    ratings: list[HumanJudgement] = []
    rejected: Counter[str] = Counter()
    for path in counted(paths, 'file'):
        chat = _read_chat(path)
        if chat.rejected:
            rejected[chat.rejected] += 1
            continue
        whose = (chat.worker, chat.id)
        for place, turn in enumerate(chat.turns):
            if (rating := turn.get('final_rating')) is not None:
                values = _rating_values(rating, asked, f'{path}: dialog[{place}]')
                ratings += [
                    HumanJudgement(chat.system, dimension, value, *whose)
                    for dimension, value in values.items()
                ]
            ratings += [
                HumanJudgement(chat.system, bucket, value, *whose, place)
                for bucket, value in _buckets(turn.get('problem_data') or {})
            ]
    return with_problems(
        ratings,
        [f'dropped: {count_of(n, "dialogue")} {why}' for why, n in rejected.items()],
    )


def own_chats(names: Sequence[str]) -> set[tuple[str, str | None]]:
    """
    Return, from logs of model_chat, each annotator with the ids of their own chats.
    """
    paths = answer_files('--chats', names, FORMATS['model_chat'].files)
    return {(chat.worker, chat.id) for chat in map(_read_chat, paths)}


def _read_chat(path: Path) -> Chat:
    try:
        chat = Chat.from_record(read_json(path, dict))
    except BadRecord as error:
        raise UserError(f'{path}: {error}') from None
    return replace(chat, id=chat.id or path.stem)


def _rating_values(rating: Any, asked: Questionnaire, where: str) -> dict[str, float]:
    """
    Return the rating of each dimension; a single number is of the last question.
    """
    parts = str(rating).split(SEPARATOR)
    names = [question.dimension for question in asked.questions]
    if len(parts) == 1:
        names = names[-1:]
    if len(parts) != len(names):
        raise UserError(
            f'{where}.final_rating: {len(parts)} ratings, but {asked.name} has '
            f'{len(names)} questions; --questionnaire names another'
        )
    values = {}
    for name, part in zip(names, parts, strict=True):
        if (value := parse_number(part)) is None:
            raise UserError(f'{where}.final_rating: {rating!r}: numbers are expected')
        values[name] = value
    return values


# --------------------------------------------------------------------- turn annotations


def read_turn_annotations(paths: Sequence[Path]) -> Judgements:
    """
    Return the annotations of single turns: 1 where a bucket was ticked, 0 otherwise.

    The annotator is the folder of the file. Which dialogue a turn is of stands in its
    ``other_metadata``, where `export_crowdsourcing` has put it.
    """
    ratings: list[HumanJudgement] = []
    unfinished = 0
    for path in counted(paths, 'file'):
        outputs = read_json(path, dict).get('outputs')
        subtasks = outputs.get('final_data') if isinstance(outputs, dict) else None
        if not isinstance(subtasks, list):
            unfinished += 1
            continue
        for place, subtask in enumerate(subtasks):
            where = f'{path}: outputs.final_data[{place}].data'
            turns = subtask.get('data') if isinstance(subtask, dict) else None
            if not isinstance(turns, list) or {*map(type, turns)} - {dict}:
                raise UserError(f'{where}: a list of utterances is expected')
            for k, turn in enumerate(turns):
                if turn.get('agent_idx') == 1 and turn.get('do_annotate', True):
                    at = f'{where}[{k}].other_metadata'
                    ratings += _turn_ratings(turn, path.parent.name, at)
    note = f'left out: {count_of(unfinished, "file")} without annotations'
    return with_problems(ratings, [note] if unfinished else [])


def _turn_ratings(
    turn: JsonObject, annotator: str, where: str
) -> Iterator[HumanJudgement]:
    """
    Yield what an annotator ticked or not of one turn.
    """
    where = f'{where}, as export_crowdsourcing writes it'
    judged = user_record(JudgedTurn, turn.get('other_metadata') or {}, where)
    for bucket, value in _buckets(turn):
        yield HumanJudgement(
            judged.system,
            bucket,
            value,
            annotator,
            judged.dialogue_id,
            judged.utterance_index,
        )


@frozen
class JudgedTurn:
    """
    Which turn of a run an annotated one is.
    """

    system: str
    dialogue_id: str
    utterance_index: int


def with_problems(
    ratings: Sequence[HumanJudgement], notes: Sequence[str]
) -> Judgements:
    """
    Return judgements in which a bucket of turns is better the fewer it has, but for
    the one that ParlAI keeps for turns without a problem.
    """
    marks = {r.dimension for r in ratings if r.utterance_index is not None}
    problems = frozenset(marks - {NO_PROBLEM})
    return Judgements(ratings, lower_is_better=problems, notes=notes)


def _buckets(marks: JsonObject) -> Iterator[tuple[str, float]]:
    """
    Yield the buckets that were ticked or not.
    """
    for name, mark in marks.items():
        if isinstance(mark, bool) and name not in NO_BUCKETS:
            yield name, float(mark)


# ------------------------------------------------------------------------- Spot The Bot


def read_spotted_segments(paths: Sequence[Path]) -> Judgements:
    """
    Return what Spot The Bot's annotators said of both sides of each segment.
    """
    return Judgements(
        [
            HumanJudgement(
                item.system,
                quality,
                one.value,
                one.annotator,
                item.dialogue,
                len(item.context) - 1,
            )
            for path in paths
            for item in read_spot_the_bot(DataFile(path, str(path), '', {}))
            for quality in (HUMAN, *FEATURES)
            for one in item.annotations.get(quality, ())
            if one.value is not None
        ]
    )


FORMATS = {
    'acute_eval': CrowdFormat(read_acute, '*.full.csv', 'acute'),
    'model_chat': CrowdFormat(read_model_chat, '**/*.json', 'likert_2022'),
    'turn_annotations': CrowdFormat(read_turn_annotations, '**/agent_data.json'),
    'spot_the_bot': CrowdFormat(read_spotted_segments, 'annotated-*.jsonl'),
    'csv': CrowdFormat(
        lambda paths: Judgements(
            [row for path in paths for row in read_human_scores(path)]
        ),
        '*.csv',
    ),
}


def read_crowd_answers(
    format: str, names: Sequence[str], questionnaire: str | None
) -> Judgements:
    """
    Return the judgements in these files, or in the files of these folders.

    :raises UserError: names file and place of the first mistake.
    """
    kind = FORMATS[format]
    paths = answer_files('--answers', names, kind.files)
    if kind.questionnaire is None:
        return kind.read(paths)
    return kind.read(paths, read_questionnaire(questionnaire or kind.questionnaire))


def answer_files(option: str, names: Sequence[str], *patterns: str) -> list[Path]:
    """
    Return the files that an option names, and those of a folder that fit a pattern.
    """
    paths = []
    for path in map(Path, names):
        inside = [path]
        if path.is_dir():
            inside = [found for one in patterns for found in sorted(path.glob(one))]
        if not inside:
            raise UserError(f'{option} {path}: no {", ".join(patterns)} is in it')
        paths += inside
    # a file that was named twice, or lies in a folder that was named, too, is read once
    return list({path.resolve(): path for path in paths}.values())
