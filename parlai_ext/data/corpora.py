"""
Dialogue corpora as their authors publish them, read as lists of utterances.

    dailydialog      the official archives train.zip, validation.zip and test.zip, or
                     the text files in them (Li et al. 2017)
    convai2          ParlAI's files, train_none_original_no_cands.txt and the like
    dailydialog_pp   JSON lines of DailyDialog++ (Sai et al. 2020): contexts with five
                     good, five adversarial and five random responses each
    jsonl            our own: ``{"dialogue": ["text", …]}`` a line
"""

import os
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.files.json_file import is_texts, json_lines
from parlai_ext.files.text_file import decoded_text, text_lines
from parlai_ext.files.zip_file import open_zip, read_member

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
    'random_negative_responses',
)
SHORT = 30  # letters of two turns that unrelated dialogues may share


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


CORPORA: Mapping[str, Callable[[Path, str], list[Turns]]] = {
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
    Return the texts of the members of an archive with this name, whatever their folder.

    :raises UserError: when there is none, or one cannot be read.
    """
    try:
        with open_zip(path) as archive:
            names = sorted(n for n in archive.namelist() if PurePath(n).match(pattern))
            if not names:
                raise UserError(f'{path}: there is no {pattern} in it')
            return [decoded_text(read_member(archive, n), str(path)) for n in names]
    except zipfile.BadZipFile as error:
        raise UserError(f'{path}: it cannot be read: {error}') from None


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
