"""
Dialogue corpora as their authors publish them, read as lists of utterances.

    dailydialog      the official archives train.zip, validation.zip and test.zip, or
                     the text files in them (Li et al. 2017)
    convai2          ParlAI's files, train_none_original_no_cands.txt and the like
    dailydialog_pp   JSON lines of DailyDialog++ (Sai et al. 2020): contexts with five
                     good, five adversarial and five random responses each
    jsonl            our own: ``{"dialogue": ["text", …]}`` a line
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.core.json_text import parse_json
from parlai_ext.files.text_file import read_utf8
from parlai_ext.files.zip_file import open_zip

Turns = tuple[str, ...]
SPLITS = ('train', 'validation', 'test')
END = '__eou__'  # of an utterance of DailyDialog
PERSONA = ('your persona:', "partner's persona:")
CONVAI2_FILES = ('{split}_none_original_no_cands.txt', '{split}_none_original.txt')
SHORT = 30  # letters of two turns that unrelated dialogues may share
MOST_BYTES = 2**29  # of one text file in an archive


@dataclass(frozen=True)
class AnnotatedContext:
    """
    A context of DailyDialog++ with its responses.
    """

    context: Turns
    positive: Turns
    adversarial: Turns
    random: Turns


def read_corpus(name: str, path: str | Path, split: str = 'train') -> list[Turns]:
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
    if path.is_dir():
        choices = [path / f'{split}.zip', path / member, path / split / member]
        path = _first_file(choices, path)
    if path.suffix == '.zip':
        return _eou_lines(_text_in_archive(path, member), f'{path}:{member}')
    return _eou_lines(read_utf8(path), str(path))


def read_convai2(path: Path, split: str) -> list[Turns]:
    """
    Return the dialogues of one split of ConvAI2, in ParlAI's text format, without the
    personas. ParlAI calls the validation split ``valid``.
    """
    if path.is_dir():
        short = {'validation': 'valid'}.get(split, split)
        names = [name.format(split=short) for name in CONVAI2_FILES]
        path = _first_file([path / name for name in names], path)
    dialogues: list[Turns] = []
    turns: list[str] = []
    for number, line in enumerate(read_utf8(path).split('\n'), 1):
        if not line.strip():
            continue
        place, space, rest = line.partition(' ')
        if not (place.isdigit() and space):
            raise UserError(f'{path}:{number}: a line number and a text are expected')
        if place == '1' and turns:
            dialogues.append(tuple(turns))
            turns = []
        if not rest.startswith(PERSONA):
            turns += [text.strip() for text in rest.split('\t')[:2] if text.strip()]
    return [*dialogues, *([tuple(turns)] if turns else [])]


def read_own_lines(path: Path, split: str) -> list[Turns]:
    """
    Return the dialogues of a file of JSON lines, ``{"dialogue": ["text", …]}`` each.
    """
    return [_texts(row, 'dialogue', path, number) for number, row in json_lines(path)]


def annotated_contexts(path: str | Path) -> list[AnnotatedContext]:
    """
    Return the contexts of a file of DailyDialog++; `data_positives.json` has no wrong
    responses.
    """
    place = Path(path).expanduser()
    return [
        AnnotatedContext(
            _texts(row, 'context', place, number),
            _texts(row, 'positive_responses', place, number),
            _texts(row, 'adversarial_negative_responses', place, number, needed=False),
            _texts(row, 'random_negative_responses', place, number, needed=False),
        )
        for number, row in json_lines(place)
    ]


def annotated_dialogues(path: Path, split: str) -> list[Turns]:
    """
    Return each context of DailyDialog++ with its first good response.
    """
    if path.is_dir():
        short = {'validation': 'dev', 'train': 'data_positives'}.get(split, split)
        path = path / f'{short}.json'
    return [(*one.context, one.positive[0]) for one in annotated_contexts(path)]


CORPORA: Mapping[str, Callable[[Path, str], list[Turns]]] = {
    'dailydialog': read_dailydialog,
    'convai2': read_convai2,
    'dailydialog_pp': annotated_dialogues,
    'jsonl': read_own_lines,
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
    Return the dialogues that share no two successive turns with a held-out one.

    The splits of DailyDialog overlap: 28% of its test dialogues share such turns with
    its training dialogues. Short turns, which many dialogues share, do not count.
    """
    held = {turns for dialogue in held_out for turns in successive_turns(dialogue)}
    return [one for one in dialogues if held.isdisjoint(successive_turns(one))]


def successive_turns(dialogue: Turns) -> set[tuple[str, str]]:
    """
    Return each two successive turns of a dialogue, letters and digits only.
    """
    letters = [''.join(filter(str.isalnum, turn.casefold())) for turn in dialogue]
    pairs = zip(letters, letters[1:], strict=False)
    return {(one, two) for one, two in pairs if len(one) + len(two) > SHORT}


def json_lines(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """
    Yield the number and the object of each line that is not empty.

    :raises UserError: names file and line.
    """
    for number, line in enumerate(read_utf8(path).split('\n'), 1):
        if not line.strip():
            continue
        try:
            row = parse_json(line)
        except ValueError as error:
            raise UserError(f'{path}:{number}: not JSON: {error}') from None
        if not isinstance(row, dict):
            raise UserError(f'{path}:{number}: a JSON object is expected')
        yield number, row


def _texts(
    row: Mapping[str, Any], key: str, path: Path, number: int, needed: bool = True
) -> Turns:
    values = row.get(key, None if needed else [])
    if not isinstance(values, list) or not all(isinstance(v, str) for v in values):
        raise UserError(f'{path}:{number}: {key}: a list of texts is expected')
    if needed and not values:
        raise UserError(f'{path}:{number}: {key}: it is empty')
    return tuple(without_token_spaces(value) for value in values)


def _first_file(choices: Sequence[Path], folder: Path) -> Path:
    path = next((choice for choice in choices if choice.is_file()), None)
    if path is None:
        names = ' or '.join(choice.name for choice in choices)
        raise UserError(f'{folder}: there is no {names} in it')
    return path


def _text_in_archive(path: Path, member: str) -> str:
    """
    Return the text of the member with this name, whatever its folder.
    """
    try:
        with open_zip(path) as archive:
            infos = [i for i in archive.infolist() if Path(i.filename).name == member]
            if not infos:
                raise UserError(f'{path}: there is no {member} in it')
            if infos[0].file_size > MOST_BYTES:
                raise UserError(f'{path}: {member} is larger than {MOST_BYTES:,} bytes')
            with io.TextIOWrapper(archive.open(infos[0]), 'utf-8') as text:
                return text.read()
    except (zipfile.BadZipFile, UnicodeDecodeError) as error:
        raise UserError(f'{path}: it cannot be read: {error}') from None


def _eou_lines(text: str, where: str) -> list[Turns]:
    """
    Return the dialogues of a text with one dialogue a line.
    """
    dialogues = []
    for number, line in enumerate(text.split('\n'), 1):
        if not line.strip():
            continue
        if END not in line:
            raise UserError(f'{where}:{number}: no {END} after an utterance')
        turns = (without_token_spaces(turn) for turn in line.split(END))
        dialogues.append(tuple(turn for turn in turns if turn))
    return dialogues


def without_token_spaces(text: str) -> str:
    """
    Return a text without the spaces that a tokenizer put before punctuation and around
    apostrophes.

    DailyDialog has them, the responses of DailyDialog++ do not: a judge would learn to
    tell the two apart by them.
    """
    text = ' '.join(text.replace('\u2019', "'").split())
    text = re.sub(r" ?' ?(?=(?:s|m|t|d|re|ve|ll)\b)", "'", text)
    return re.sub(r' (?=[.,!?;:%)])', '', text)
