"""
Judged dialogues of people with systems, and of systems with each other.

``dstc9``: ``chatbot1.json`` and the files like it of DSTC9 Track 3's interactive task.
``spot_the_bot``: the authors' dumps (Deriu et al. 2020), one domain a set.
``chitchat``: the wheel ``chitchat-dataset`` (Myers et al. 2020), which is read as data.
"""

import re
import zipfile
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.core.json_text import parse_json
from parlai_ext.data.import_rules import MARKERS
from parlai_ext.data.judged.data_file import DataFile, annotation
from parlai_ext.data.judged.judged_set import Annotation, JudgedItem
from parlai_ext.data.source_file import (
    BadRecord,
    SourceDialogue,
    SourceFile,
    id_value,
)
from parlai_ext.data.study_logs import SPOT_THE_BOT, rated_dialogues
from parlai_ext.files.json_file import json_lines
from parlai_ext.files.zip_file import open_zip

# Spot The Bot: a key of an annotation -> the quality
FEATURES = {
    'fluencyValue': 'Fluent',
    'sensitivenessValue': 'Sensible',
    'specificityValue': 'Specific',
}
HUMAN = {True: 2.0, None: 1.0, False: 0.0}  # as the authors count them
MEMBER = 'chitchat_dataset/dataset.json'
FEWEST_TURNS = 4  # of a chat that can be rated
UNTOUCHED = 5  # where the sliders of a chat stand that nobody moved


def _source_turns(dialogue: SourceDialogue) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """
    Return texts and speakers of a dialogue.

    :raises UserError: when it could not be read.
    """
    if dialogue.problems:
        raise UserError(f'judged set {dialogue.problems[0]}')
    texts = tuple(turn.text for turn in dialogue.turns)
    return texts, tuple(turn.speaker for turn in dialogue.turns)


def read_dstc9(file: DataFile) -> Iterator[JudgedItem]:
    """
    Yield the dialogues of all bots, whose files lie in one folder.

    A bot has the name of its file. Its annotators are not named in the file.
    """
    numbered = re.compile(r'(\d+)')
    paths = sorted(
        Path(file.path).parent.glob('chatbot*.json'),
        key=lambda path: [int(n) for n in numbered.findall(path.stem)],
    )
    for path in paths or [Path(file.path)]:
        for dialogue, ratings in rated_dialogues(SourceFile.from_path(path)):
            texts, speakers = _source_turns(dialogue)
            qualities = dict.fromkeys(q for rating in ratings for q in rating)
            annotations = {
                file.columns.get(quality, quality): tuple(
                    annotation(i, rating[quality])
                    for i, rating in enumerate(ratings)
                    if quality in rating
                )
                for quality in qualities
                if quality != 'context'
            }
            name, system = str(dialogue.id), path.stem
            yield JudgedItem(
                name,
                texts,
                None,
                system,
                annotations,
                speakers=speakers,
                dialogue=name,
            )


def read_spot_the_bot(file: DataFile) -> Iterator[JudgedItem]:
    """
    Yield both sides of every judged segment of the dialogues of two bots.

    A segment is the first 4, 6 or 10 turns of a dialogue, which the annotators saw;
    segments know their dialogue. The markers of generation that were left in turns
    (``</s>``, ``<pad>``) are taken off. Dialogues of two people are left out.

    ``Human`` is 2 for a side that was taken for a person, 1 for one that an annotator
    was not sure of; ``Win`` is 1 where that of the side is more than the other's, whose
    mean is the authors' rate of wins. A feature is 1 for the better side, or for both.
    """
    by_segment: dict[tuple[str, int], list[dict[str, list[Annotation]]]] = {}
    for number, raw in json_lines(Path(file.path)):
        try:
            turns = int(raw['entity0_annotation']['decision_turn'])
            segment = by_segment.setdefault(
                (str(id_value(raw, 'convo_id')), turns), [{}, {}]
            )
            for answers, values in zip(segment, _side_values(raw), strict=True):
                for quality, value in values.items():
                    given = Annotation(str(raw.get('user_name')), value)
                    answers.setdefault(quality, []).append(given)
        except (KeyError, TypeError, ValueError, BadRecord) as e:
            problem = f'an annotation of two sides is expected ({e!r})'
            raise file.error(number, problem) from None
    name = Path(file.path).name.replace('annotated', 'sampled')
    source = SourceFile.from_path(Path(file.neighbour(name).path))
    dialogues = {dialogue.id: dialogue for dialogue in SPOT_THE_BOT.read(source)}
    for (dialogue_id, turns), segment in by_segment.items():
        if dialogue_id not in dialogues:
            raise UserError(f'{file}: no dialogue {dialogue_id} in {name}')
        dialogue = dialogues[dialogue_id]
        if dialogue.humans:
            continue
        texts, speakers = _source_turns(dialogue)
        for side, system in enumerate(dialogue.sides):
            yield JudgedItem(
                f'{dialogue_id}-{turns}-{side}',
                tuple(MARKERS.sub('', text).strip() for text in texts[:turns]),
                None,
                system,
                {q: tuple(given) for q, given in segment[side].items()},
                speakers=speakers[:turns],
                dialogue=dialogue_id,
            )


def _side_values(raw: Mapping[str, Any]) -> list[dict[str, float]]:
    """
    Return, for each side of a segment, the value of each quality in one annotation.
    """
    sides = [raw[f'entity{k}_annotation'] for k in (0, 1)]
    human = [HUMAN[side['is_human']] for side in sides]
    return [
        {
            'Human': human[k],
            'Win': float(human[k] > human[1 - k]),
            **{q: float(side[key]) for key, q in FEATURES.items() if key in side},
        }
        for k, side in enumerate(sides)
    ]


def read_chitchat(file: DataFile) -> Iterator[JudgedItem]:
    """
    Yield the rated chats of two people that a rating can be of.

    Left out are chats in which one person said nothing, of fewer than `FEWEST_TURNS`
    turns, or whose ratings are all `UNTOUCHED`. The messages of a person in a row are
    one turn. Nobody's part is judged, but the chat.
    """
    try:
        with open_zip(file.path) as wheel:
            chats = parse_json(wheel.read(MEMBER))
        if not isinstance(chats, dict):
            raise ValueError('an object is expected')
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as e:
        raise UserError(f'{file}: {e}; it is {file.official}') from None
    for number, (chat_id, chat) in enumerate(chats.items(), 1):
        try:
            messages = [message for turn in chat['messages'] for message in turn]
            turns = [
                (sender, '\n'.join(message['text'].strip() for message in same))
                for sender, same in groupby(messages, key=lambda m: m['sender'])
            ]
            ratings = chat.get('ratings') or {}
        except (KeyError, TypeError, AttributeError):
            raise file.error(
                number, 'messages with text and sender are expected'
            ) from None
        chosen = [value for value in ratings.values() if value != UNTOUCHED]
        if chosen and len(turns) >= FEWEST_TURNS:
            yield JudgedItem(
                chat_id,
                tuple(text for _, text in turns),
                None,
                'people',
                {q: (annotation(0, value),) for q, value in ratings.items()},
            )
