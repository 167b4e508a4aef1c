"""
Features of pairs of a prompt and an answer, in the columns of DSTC10's Track 5.

A feature whose model is not there stays an empty cell; nothing is guessed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from parlai_ext.core.display import single_spaced
from parlai_ext.core.errors import UserError
from parlai_ext.core.options import option
from parlai_ext.data.turn_pairs import TurnPair
from parlai_ext.models.handle import ModelHandle
from parlai_ext.toxic.detectors import find_label

SIDES = ('toxic', 'answer')  # what the Track calls prompt and answer
NLI = ('contradiction', 'neutral', 'entailment')
TAGS = {'FAC': 'FACILITY'}  # where the Track's tag is another word than spaCy's label
Row = dict[str, str]


@dataclass(frozen=True)
class FeatureOptions:
    """
    The models behind the features.
    """

    entities: str | None = option(
        None,
        metavar='NAME',
        help='who finds named entities: spacy[:PIPELINE] or stanza[:LANGUAGE]',
    )
    max_entities: int = option(
        1, low=0, help='pairs with more in a phrase are left out (1)'
    )
    humour: str | None = option(None, metavar='MODEL[,LABEL]', help='a classifier')
    sarcasm: str | None = option(None, metavar='MODEL[,LABEL]', help='a classifier')
    nli: str | None = option(
        None,
        metavar='MODEL',
        help='a classifier of pairs: contradiction, neutral, entailment',
    )
    emotion: str | None = option(
        None, metavar='MODEL', help='a classifier whose labels are emotions'
    )


Fill = Callable[[Sequence[Row]], None]  # writes the cells of a feature
Mask = Callable[[Sequence[str]], list[tuple[str, int]]]


@dataclass
class Features:
    """
    The features of a table, their columns, and the models that are missing.
    """

    columns: list[str]
    fill: list[Fill]
    missing: list[str] = field(default_factory=list)
    mask: Mask | None = None


def load_features(options: FeatureOptions, models: ModelHandle) -> Features:
    """
    Return the features that the options name, their models loaded. Where a model is
    not there, its columns stay empty.
    """
    columns = [f'{side}_ner' for side in SIDES]
    columns += ['length_toxic', 'length_answer', 'ratio_lengths']
    features = Features(columns, [fill_lengths])
    try:
        if options.entities:
            features.mask = load_masker(options.entities)
        else:
            features.missing.append('entities: none named; toxic_ner, answer_ner empty')
    except UserError as error:
        features.missing.append(f'{error}; toxic_ner, answer_ner stay empty')
    for name, spec, ends, make in (
        ('humour', options.humour, ('humour_score',), _label_filler),
        ('sarcasm', options.sarcasm, ('sarcasm',), _label_filler),
        ('nli', options.nli, (), _nli_filler),
        ('emotion', options.emotion, ('emotion', 'emotion_score'), _emotion_filler),
    ):
        columns = [f'{side}_{end}' for side in SIDES for end in ends] or list(NLI)
        features.columns += columns
        if spec is None:
            features.missing.append(f'{name}: none named; {", ".join(columns)} empty')
            continue
        model, _, label = spec.partition(',')
        try:
            features.fill.append(make(models.classifier(model), columns, label, name))
        except UserError as error:
            features.missing.append(f'{name}: {error}; {", ".join(columns)} stay empty')
    return features


def fill_lengths(rows: Sequence[Row]) -> None:
    """
    Write the words, parted by blanks, of each text, and answer's by prompt's number.
    """
    for row in rows:
        lengths = [len(row[side].split()) for side in SIDES]
        row['length_toxic'], row['length_answer'] = map(str, lengths)
        row['ratio_lengths'] = f'{lengths[1] / lengths[0]:.4g}' if lengths[0] else ''


def _label_filler(model: Any, columns: Sequence[str], label: str, name: str) -> Fill:
    """
    Return what writes the probability of a label: the one named, one called as the
    feature, or the last of two.
    """
    place = find_label(model.labels, [label or name])
    names = [one.casefold() for one in model.labels]
    if place is None and not label and [n[:5] for n in names] == ['label'] * 2:
        place = 1
    if place is None:
        raise UserError(f'which label? {", ".join(model.labels)}: MODEL,LABEL')

    def fill(rows: Sequence[Row]) -> None:
        for side, column in zip(SIDES, columns, strict=True):
            values = model.probabilities([row[side] for row in rows])[:, place]
            for row, value in zip(rows, values, strict=True):
                row[column] = f'{value:.4f}'

    return fill


def _nli_filler(model: Any, columns: Sequence[str], label: str, name: str) -> Fill:
    """
    Return what writes the three probabilities of prompt and answer.
    """
    labels = [one.casefold() for one in model.labels]
    if sorted(labels) != sorted(NLI):
        raise UserError(f'its labels are {", ".join(labels)}, not {", ".join(NLI)}')

    def fill(rows: Sequence[Row]) -> None:
        prompts, answers = ([row[side] for row in rows] for side in SIDES)
        values = model.probabilities(prompts, answers)
        for row, three in zip(rows, values, strict=True):
            for column in columns:
                row[column] = f'{three[labels.index(column)]:.4f}'

    return fill


def _emotion_filler(model: Any, columns: Sequence[str], label: str, name: str) -> Fill:
    """
    Return what writes the most likely emotion and its probability.
    """

    def fill(rows: Sequence[Row]) -> None:
        for side in SIDES:
            values = model.probabilities([row[side] for row in rows])
            for row, of_row in zip(rows, values, strict=True):
                best = int(np.argmax(of_row))
                row[f'{side}_emotion'] = model.labels[best]
                row[f'{side}_emotion_score'] = f'{of_row[best]:.4f}'

    return fill


def load_masker(name: str) -> Mask:
    """
    Return what gives each text with a tag such as ``[PERSON]`` for each named entity,
    tokens parted by blanks, and the number of entities.

    :raises UserError: when the library or its pipeline is not there.
    """
    from parlai_ext.scoring.chatmatch.entities import load_pipeline

    read = load_pipeline(name, 'entities').read
    return lambda texts: [
        (masked(*found), len(found.entities)) for found in read(texts)
    ]


def masked(
    text: str,
    tokens: Sequence[tuple[int, int]],
    entities: Sequence[tuple[int, int, str]],
) -> str:
    """
    Return the tokens of a text, parted by blanks, with one tag for each entity.

    :param tokens: begin and end of each token.
    :param entities: begin, end and label of each entity.

    >>> masked('Ann is here', [(0, 3), (4, 6), (7, 11)], [(0, 3, 'PERSON')])
    '[PERSON] is here'
    """
    words: list[str] = []
    done: set[int] = set()
    for begin, end in tokens:
        inside = [i for i, (b, e, _) in enumerate(entities) if b <= begin < e]
        if not inside:
            words.append(text[begin:end])
        elif inside[0] not in done:
            label = entities[inside[0]][2]
            words.append(f'[{TAGS.get(label, label)}]')
            done.add(inside[0])
    return single_spaced(' '.join(words))


def row_of(pair: TurnPair) -> Row:
    """
    Return a pair as a row of the table, with what its file says of it.
    """
    texts = (single_spaced(text) for text in (pair.prompt, pair.answer))
    return {**pair.features, 'id': pair.id, **dict(zip(SIDES, texts, strict=True))}
