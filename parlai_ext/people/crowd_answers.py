"""
What crowdsourcing tasks record, read as judgements; one reader for each format.

``acute_eval``: the ``*.full.csv`` of ParlAI's ACUTE-Eval analysis.
``model_chat``: the JSON files of ParlAI's model_chat, ratings such as ``4|5|3|4``.
``turn_annotations``: ``agent_data.json`` of ParlAI's turn_annotations_static.
``spot_the_bot``: Spot The Bot's ``annotated-….jsonl`` beside its dialogues.
``csv``: plain CSV: system, dimension, value, rater, dialogue_id.

Quality control is taken as it was recorded: annotators who failed ACUTE's onboarding,
annotators whom model_chat lists as bad, and dialogues with a recorded violation are
dropped and counted.
"""

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from parlai_ext.core import HumanJudgement, UserError, frozen
from parlai_ext.core.records import user_record
from parlai_ext.data.chat_logs import Chat
from parlai_ext.data.judged.readers import FEATURES, DataFile, read_spot_the_bot
from parlai_ext.data.source_file import BadRecord
from parlai_ext.files import number, read_csv, read_human_scores, read_json
from parlai_ext.people.given_answers import repeated_note
from parlai_ext.people.judgements import Comparison, Judgements
from parlai_ext.people.questionnaire import (
    Questionnaire,
    read_questionnaire,
)
from parlai_ext.people.spot_the_bot import HUMAN
from parlai_ext.view import count_of
from parlai_ext.view.progress import counted

ACUTE_COLUMNS = ('worker', 'question', 'winner', 'loser', 'is_onboarding')
ANSWERED_ONCE = ('run_id', 'worker', 'question', 'pairing_id')
SEPARATOR = '|'
NO_PROBLEM = 'none_all_good'  # the bucket of good turns
TRUE, FALSE = ('true', '1', '1.0'), ('false', '0', '0.0')
# what model_chat and turn annotations keep beside the annotations of an utterance
UTTERANCE_KEYS = {
    *('text', 'agent_idx', 'id', 'do_annotate', 'other_metadata', 'episode_done'),
    *('final_rating', 'problem_data', 'fake_start', 'turn_idx', 'input_mode'),
    *('message_id', 'update_id', 'timestamp', 'task_data'),
}


@frozen
class CrowdFormat:
    """
    A format: its reader, which files of a folder are read, and its questionnaire.
    """

    read: Callable[[Sequence[Path], Questionnaire], Judgements]
    files: str
    questionnaire: str


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
    comparisons = tuple(
        _acute_comparison(row, where, dimensions)
        for where, row in tasks.values()
        if row['worker'] not in failed
    )
    notes = [repeated_note(repeated)] if (repeated := num_given - len(tasks)) else []
    if failed:
        notes.append(
            f'{count_of(len(failed), "annotator")} failed the onboarding; dropped: '
            f'{count_of(len(tasks) - len(comparisons), "comparison")} of theirs'
        )
    return Judgements(comparisons, notes=tuple(notes))


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
        except (ValueError, SyntaxError, KeyError, TypeError, AttributeError):
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
        whose = (chat.worker, chat.id or path.stem)
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
    chats = ((_read_chat(path), path.stem) for path in paths)
    return {(chat.worker, chat.id or stem) for chat, stem in chats}


def _read_chat(path: Path) -> Chat:
    try:
        return Chat.from_record(read_json(path, dict))
    except BadRecord as error:
        raise UserError(f'{path}: {error}') from None


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
        if (value := number(part)) is None:
            raise UserError(f'{where}.final_rating: {rating!r}: numbers are expected')
        values[name] = value
    return values


# --------------------------------------------------------------------- turn annotations


def read_turn_annotations(paths: Sequence[Path], asked: Questionnaire) -> Judgements:
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
            ratings += _turn_judgements(turns, where, path.parent.name)
    note = f'left out: {count_of(unfinished, "file")} without annotations'
    return with_problems(ratings, [note] if unfinished else [])


@frozen
class JudgedTurn:
    """
    Which turn of a run an annotated one is.
    """

    system: str
    dialogue_id: str
    utterance_index: int


def _turn_judgements(
    turns: Sequence[Mapping[str, Any]], where: str, annotator: str
) -> Iterator[HumanJudgement]:
    for place, turn in enumerate(turns):
        if turn.get('agent_idx') != 1 or not turn.get('do_annotate', True):
            continue
        known = user_record(
            JudgedTurn,
            turn.get('other_metadata') or {},
            f'{where}[{place}].other_metadata, as export_crowdsourcing writes it',
        )
        for bucket, value in _buckets(turn):
            yield HumanJudgement(
                known.system,
                bucket,
                value,
                annotator,
                known.dialogue_id,
                known.utterance_index,
            )


def with_problems(
    ratings: Sequence[HumanJudgement], notes: Sequence[str]
) -> Judgements:
    """
    Return judgements in which a bucket of turns is better the fewer it has, but for
    the one that ParlAI keeps for turns without a problem.
    """
    marks = {r.dimension for r in ratings if r.utterance_index is not None}
    problems = frozenset(marks - {NO_PROBLEM})
    return Judgements(tuple(ratings), lower_is_better=problems, notes=tuple(notes))


def _buckets(marks: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """
    Yield the buckets that were ticked or not.
    """
    for name, mark in marks.items():
        if isinstance(mark, bool) and name not in UTTERANCE_KEYS:
            yield name, float(mark)


# ------------------------------------------------------------------------- Spot The Bot


def read_spotted_segments(paths: Sequence[Path], _: Questionnaire) -> Judgements:
    """
    Return what Spot The Bot's annotators said of both sides of each segment.
    """
    return Judgements(
        tuple(
            HumanJudgement(
                item.system,
                quality,
                one.value,
                one.annotator,
                item.dialogue,
                len(item.context) - 1,
            )
            for path in paths
            for item in read_spot_the_bot(DataFile(str(path), str(path), '', {}))
            for quality in (HUMAN, *FEATURES.values())
            for one in item.annotations.get(quality, ())
            if one.value is not None
        )
    )


FORMATS = {
    'acute_eval': CrowdFormat(read_acute, '*.full.csv', 'acute'),
    'model_chat': CrowdFormat(read_model_chat, '**/*.json', 'likert_2022'),
    'turn_annotations': CrowdFormat(
        read_turn_annotations, '**/agent_data.json', 'likert_2022'
    ),
    'spot_the_bot': CrowdFormat(
        read_spotted_segments, 'annotated-*.jsonl', 'spot_the_bot'
    ),
    'csv': CrowdFormat(
        lambda paths, _: Judgements(
            tuple(row for path in paths for row in read_human_scores(path))
        ),
        '*.csv',
        'likert_2022',
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
    asked = read_questionnaire(questionnaire or kind.questionnaire)
    return kind.read(answer_files('--answers', names, kind.files), asked)


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
