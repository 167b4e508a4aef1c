"""
Dialogue corpora as their authors publish them, read as lists of utterances, or as pairs
of successive turns.

    dailydialog      the official archives train.zip, validation.zip and test.zip, or
                     the text files in them (Li et al. 2017)
    convai2          ParlAI's files, train_none_original_no_cands.txt and the like
    dailydialog_pp   JSON lines of DailyDialog++ (Sai et al. 2020): contexts with five
                     good, five adversarial and five random responses each
    jsonl            our own: ``{"dialogue": ["text", …]}`` a line
"""

from __future__ import annotations

import ast
import os
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Any

from parlai_ext.core import UserError, frozen, option, optional
from parlai_ext.files import (
    decoded_text,
    is_texts,
    json_lines,
    open_zip,
    read_csv,
    read_member,
    text_lines,
)
from parlai_ext.view import single_spaced, split_words

Turns = tuple[str, ...]
SPLITS = ('train', 'validation', 'test')
END = '__eou__'  # of an utterance of DailyDialog
PERSONA = ('your persona:', "partner's persona:")
CONVAI2_FILES = ('{split}_none_original_no_cands.txt', '{split}_none_original.txt')
# keys of DailyDialog++, of which those of wrong responses may be absent
ANNOTATED = (
    'context',
    'positive_responses',
    'adversarial_negative_responses',
)
SHORT = 30  # bytes of two turns' letters that unrelated dialogues may share


@frozen
class AnnotatedContext:
    """
    A context of DailyDialog++ with its responses.
    """

    context: Turns
    positive: Turns
    adversarial: Turns


def read_corpus(name: str, path: str | Path, split: str) -> list[Turns]:
    """
    Return the dialogues of a corpus, each a tuple of utterances.

    :param name: a key of `CORPORA`.
    :param path: the folder of the corpus, or one file of it.
    :raises UserError: names the file, and the line where one is wrong.
    """
    place = Path(path).expanduser()
    if not place.exists():
        raise UserError(f'there is no file or folder {place}')
    dialogues = CORPORA[name](place, split)
    if not dialogues:
        raise UserError(f'{place}: no dialogues in it')
    return dialogues


def read_dailydialog(path: Path, split: str) -> list[Turns]:
    """
    Return the dialogues of one split of DailyDialog.
    """
    member = f'dialogues_{split}.txt'
    path = _file_of(path, f'{split}.zip', member, f'{split}/{member}')
    where, lines = str(path), text_lines(path)
    if path.suffix == '.zip':
        texts = archived_texts(path, member)
        where, lines = f'{path}:{member}', enumerate(texts[0].split('\n'), 1)
    dialogues = []
    for number, line in lines:
        if not line.strip():
            continue
        if END not in line:
            raise UserError(f'{where}:{number}: no {END} after an utterance')
        dialogues.append(tuple(map(without_token_spaces, marked_utterances(line))))
    return dialogues


def marked_utterances(line: str) -> Turns:
    """
    Return the utterances of a line of DailyDialog, their spaces between tokens kept.
    """
    return tuple(turn for text in line.split(END) if (turn := text.strip()))


def read_convai2(path: Path, split: str) -> list[Turns]:
    """
    Return the dialogues of one split of ConvAI2, in ParlAI's text format, without the
    personas. ParlAI calls the validation split ``valid``.
    """
    short = {'validation': 'valid'}.get(split, split)
    path = _file_of(path, *(name.format(split=short) for name in CONVAI2_FILES))
    dialogues: list[list[str]] = [[]]
    for number, line in text_lines(path):
        place, space, rest = line.partition(' ')
        if not (place.isdigit() and space):
            raise UserError(f'{path}:{number}: a line number and a text are expected')
        if place == '1':
            dialogues.append([])
        if not rest.startswith(PERSONA):
            texts = [text.strip() for text in rest.split('\t')[:2]]
            dialogues[-1] += filter(None, texts)
    return [tuple(turns) for turns in dialogues if turns]


def annotated_contexts(path: str | Path) -> list[AnnotatedContext]:
    """
    Return the contexts of a file of DailyDialog++; `data_positives.json` has no wrong
    responses.
    """
    place = Path(path).expanduser()
    contexts = []
    for number, row in json_lines(place):
        texts = (_texts(row, key, f'{place}:{number}') for key in ANNOTATED)
        contexts.append(AnnotatedContext(*texts))
    return contexts


def annotated_dialogues(path: Path, split: str) -> list[Turns]:
    """
    Return each context of DailyDialog++ with its first good response.
    """
    short = {'validation': 'dev', 'train': 'data_positives'}.get(split, split)
    path = _file_of(path, f'{short}.json')
    return [(*one.context, one.positive[0]) for one in annotated_contexts(path)]


CORPORA = {
    'dailydialog': read_dailydialog,
    'convai2': read_convai2,
    'dailydialog_pp': annotated_dialogues,
    # of ``{"dialogue": ["text", …]}`` each
    'jsonl': lambda path, split: [
        _texts(row, 'dialogue', f'{path}:{number}') for number, row in json_lines(path)
    ],
}


def held_out_dialogues(name: str, path: str | Path) -> list[Turns]:
    """
    Return the dialogues of one file that no judge may learn from: a file of the corpus,
    named after its split, or a file of DailyDialog++ (``.json``).
    """
    place = Path(path).expanduser()
    if not place.is_file():
        raise UserError(f'--leave-out: there is no file {place}')
    if place.suffix == '.json':
        return [one.context for one in annotated_contexts(place)]
    return CORPORA[name](place, place.stem)


def without_overlap(
    dialogues: Sequence[Turns], held_out: Sequence[Turns]
) -> list[Turns]:
    """
    Return the dialogues that are no held-out one and share no two successive turns
    with one.

    The splits of DailyDialog overlap: 28% of its test dialogues share such turns with
    its training dialogues. Short turns, which many dialogues share, do not count.
    """
    held = {turns for dialogue in held_out for turns in known_parts(dialogue)}
    return [one for one in dialogues if held.isdisjoint(known_parts(one))]


def known_parts(dialogue: Turns) -> set[Turns]:
    """
    Return a dialogue, and each two successive turns of it, letters and digits only.
    """
    letters = tuple(''.join(split_words(turn)) for turn in dialogue)
    # in bytes, since a Chinese letter says as much as several of ours
    long = (two for two in pairwise(letters) if len(''.join(two).encode()) > SHORT)
    return {letters, *long}


def _texts(row: Mapping[str, Any], key: str, where: str) -> Turns:
    needed = 'negative' not in key
    values = row.get(key, None if needed else [])
    if not is_texts(values):
        raise UserError(f'{where}: {key}: a list of texts is expected')
    if needed and not values:
        raise UserError(f'{where}: {key}: it is empty')
    return tuple(without_token_spaces(value) for value in values)


def _file_of(place: Path, *names: str) -> Path:
    """
    Return the first of these files that a folder has; a file is returned as it is.
    """
    if not place.is_dir():
        return place
    for name in names:
        if (place / name).is_file():
            return place / name
    wanted = ' or '.join(map(os.path.basename, names))
    raise UserError(f'{place}: there is no {wanted} in it')


def archived_texts(path: Path, pattern: str) -> list[str]:
    """
    Return the texts of the members of an archive whose path ends in this pattern, as
    `PurePath.match` has it, sorted by path.

    :raises UserError: when there is none, or one cannot be read.
    """
    try:
        with open_zip(path) as archive:
            names = sorted(n for n in archive.namelist() if PurePath(n).match(pattern))
            if not names:
                raise UserError(f'{path}: there is no {pattern} in it')
            return [decoded_text(read_member(archive, n), f'{path}:{n}') for n in names]
    except zipfile.BadZipFile as error:
        raise UserError(f'{path}: it cannot be read: {error}') from None


def without_token_spaces(text: str) -> str:
    """
    Return a text without the spaces that a tokenizer put before punctuation and around
    apostrophes.

    DailyDialog has them, the responses of DailyDialog++ do not: a judge would learn to
    tell the two apart by them.
    """
    text = single_spaced(text.replace('\u2019', "'"))
    text = re.sub(r" ?' ?(?=(?:s|m|t|d|re|ve|ll)\b)", "'", text)
    return re.sub(r' (?=[.,!?;:%)])', '', text)


# --- pairs of successive turns --------------------------------------------------------
# Pairs of successive turns, read one after the other from large files of dialogues.
#
#   csv          columns toxic and answer, or those that are named; further ones stay
#   chanel       NAME_main.csv of CHANEL@JSALT2020 (MovieDic, Cornell, …), with Azure's
#                scores where NAME_content_moderator.csv lies beside it
#   cornell      movie_lines.txt, movie_conversations.txt (Danescu-Niculescu-Mizil and
#                Lee 2011)
#   twitter      text lines of chat_corpus: a prompt, its answer, the next prompt, …
#   reddit       JSON lines of DSTC8: ``{"id": …, "turns": ["text", …]}``
#   dailydialog  DailyDialog's archives or text files
#
# Memory does not grow with a file, but for Cornell's, whose lines are looked up by
# id, and DailyDialog's, which are small.

FIELDS = ' +++$+++ '  # parts of a line of Cornell's files
MODERATOR = {'offensive_score': 'azure_score', 'profanity_terms': 'azure_terms'}


@frozen
class TurnPair:
    """
    Two successive turns, and what their file says of them, by column.
    """

    id: str
    prompt: str
    answer: str
    features: Mapping[str, str] = field(default_factory=dict)


def csv_pairs(source: PairSource) -> Iterator[TurnPair]:
    """
    Yield the pairs of a CSV file; its other columns are features.
    """
    texts = (source.prompt_column, source.answer_column)
    for number, row in read_csv(source.place, texts):
        prompt, answer = (row.pop(name) for name in texts)
        name = row.pop(source.id_column, '') or f'{source.place.stem}:{number}'
        yield TurnPair(name, prompt, answer, row)


def chanel(source: PairSource) -> Iterator[TurnPair]:
    """
    Yield the pairs of CHANEL's files; the UID of a turn is NAME-DIALOGUE-TURN.
    """
    files = [source.place]
    if source.place.is_dir():
        files = sorted(source.place.glob('*_main.csv'))
        if not files:
            raise UserError(f'{source.place}: there is no *_main.csv in it')
    for path in files:
        beside = path.with_name(path.name.replace('_main', '_content_moderator'))
        scores = read_csv(beside, ('UID',)) if beside.is_file() else iter(())
        before = None
        for _, row in read_csv(path, ('UID', 'SEG')):
            dialogue = row['UID'].rpartition('-')[0]
            _, score = next(scores, (0, {}))  # the moderator's file has the same order
            if score and score['UID'] != row['UID']:
                raise UserError(
                    f'the content moderator has {score["UID"]} where {row["UID"]} is '
                    'expected'
                )
            features = {
                ours: score.get(theirs, '')
                for theirs, ours in MODERATOR.items()
                if score
            }
            if before is not None and before[0] == dialogue:
                both = {
                    f'{side}_{name}': value
                    for side, known in (('toxic', before[1]), ('answer', features))
                    for name, value in known.items()
                }
                yield TurnPair(row['UID'], before[2], row['SEG'], both)
            before = dialogue, features, row['SEG']


def cornell(source: PairSource) -> Iterator[TurnPair]:
    """
    Yield the pairs of Cornell's movie dialogues.
    """
    texts = {}
    for _, line in text_lines(source.place / 'movie_lines.txt', 'iso-8859-1'):
        name, *_, text = line.split(FIELDS)
        texts[name] = text
    path = source.place / 'movie_conversations.txt'
    for number, line in text_lines(path, 'iso-8859-1'):
        try:
            names = ast.literal_eval(line.split(FIELDS)[-1])
            turns = [(name, texts[name]) for name in names]
        except (ValueError, SyntaxError, KeyError, TypeError):
            raise UserError(
                f'{path}:{number}: a list of known lines is expected'
            ) from None
        for (_, prompt), (name, answer) in pairwise(turns):
            yield TurnPair(name, prompt, answer)


def twitter(source: PairSource) -> Iterator[TurnPair]:
    """
    Yield the pairs of a text file: odd lines are prompts, even lines their answers.
    """
    lines = text_lines(source.place, empty=True)
    for (_, prompt), (number, answer) in zip(lines, lines, strict=False):
        yield TurnPair(f'{source.place.stem}:{number}', prompt, answer)


def reddit(source: PairSource) -> Iterator[TurnPair]:
    """
    Yield the pairs of JSON lines with the key ``turns`` or ``dialogue``.
    """
    files = [source.place]
    if source.place.is_dir():
        files = sorted(
            p for p in source.place.rglob('*') if p.suffix in ('.jsonl', '.txt')
        )
    for path in files:
        for number, row in json_lines(path):
            turns = row.get('turns', row.get('dialogue'))
            if not isinstance(turns, list):
                raise UserError(f'{path}:{number}: a list of turns is expected')
            name = row.get('id') or f'{path.stem}:{number}'
            for place, (prompt, answer) in enumerate(pairwise(map(str, turns)), 1):
                yield TurnPair(f'{name}:{place}', prompt, answer)


def dailydialog(source: PairSource) -> Iterator[TurnPair]:
    """
    Yield the pairs of one split of DailyDialog.
    """
    dialogues = read_corpus('dailydialog', source.place, source.split)
    for number, turns in enumerate(dialogues, 1):
        for place, (prompt, answer) in enumerate(pairwise(turns), 1):
            name = f'dailydialog:{source.split}:{number}:{place}'
            yield TurnPair(name, prompt, answer)


SOURCES = {
    'csv': csv_pairs,
    'chanel': chanel,
    'cornell': cornell,
    'twitter': twitter,
    'reddit': reddit,
    'dailydialog': dailydialog,
}


@frozen(kw_only=True)
class PairColumns:
    """
    The columns of a CSV file of prompts and answers.
    """

    prompt_column: str = option('toxic', help='of a CSV file: the prompts (toxic)')
    answer_column: str = option('answer', help='of a CSV file: the answers (answer)')
    id_column: str = option('id', help='of a CSV file: an id of the pair (id)')


@frozen
class PairSource(PairColumns):
    """
    A file or folder of dialogues.
    """

    source: str | None = optional(
        metavar='FORMAT',
        choices=SOURCES,
        help=f'format of --path: {", ".join(SOURCES)}',
    )
    path: str | None = optional(path=True, metavar='PATH', help='file or folder')
    split: str = option('train', help='of DailyDialog or of --task (train)')

    @property
    def place(self) -> Path:
        """
        The file or folder.
        """
        return Path(self.path or '')

    def pairs(self) -> Iterator[TurnPair]:
        """
        Yield all pairs, always in the same order.

        :raises UserError: names the file, and the line that is wrong.
        """
        if not self.place.exists():
            raise UserError(f'--path: there is no file or folder {self.path}')
        return SOURCES[self.source or ''](self)
