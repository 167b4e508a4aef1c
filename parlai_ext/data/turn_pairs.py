"""
Pairs of successive turns, read one after the other from large files of dialogues.

    csv          columns toxic and answer, or those that are named; further ones stay
    chanel       NAME_main.csv of CHANEL@JSALT2020 (MovieDic, Cornell, …), with Azure's
                 scores where NAME_content_moderator.csv lies beside it
    cornell      movie_lines.txt, movie_conversations.txt (Danescu-Niculescu-Mizil and
                 Lee 2011)
    twitter      text lines of chat_corpus: a prompt, its answer, the next prompt, …
    reddit       JSON lines of DSTC8: ``{"id": …, "turns": ["text", …]}``
    dailydialog  DailyDialog's archives or text files

Memory does not grow with a file, but for Cornell's, whose lines are looked up by id,
and DailyDialog's, which are small.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from parlai_ext.core.errors import UserError
from parlai_ext.core.options import option
from parlai_ext.data.corpora import read_corpus
from parlai_ext.files.csv_file import read_csv
from parlai_ext.files.json_file import json_lines
from parlai_ext.files.text_file import text_lines

FIELDS = ' +++$+++ '  # parts of a line of Cornell's files
MODERATOR = {'offensive_score': 'azure_score', 'profanity_terms': 'azure_terms'}


@dataclass(frozen=True)
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
    if source.place.is_dir():
        files = sorted(source.place.glob('*_main.csv'))
        if not files:
            raise UserError(f'{source.place}: there is no *_main.csv in it')
    else:
        files = [source.place]
    for path in files:
        beside = path.with_name(path.name.replace('_main', '_content_moderator'))
        scores = read_csv(beside, ('UID',)) if beside.is_file() else iter(())
        before: tuple[str, dict[str, str], str] | None = None
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


SOURCES: Mapping[str, Callable[[PairSource], Iterator[TurnPair]]] = {
    'csv': csv_pairs,
    'chanel': chanel,
    'cornell': cornell,
    'twitter': twitter,
    'reddit': reddit,
    'dailydialog': dailydialog,
}


@dataclass(frozen=True)
class PairSource:
    """
    A file or folder of dialogues.
    """

    source: str | None = option(
        None,
        metavar='FORMAT',
        choices=SOURCES,
        help=f'format of --path: {", ".join(SOURCES)}',
    )
    path: str | None = option(None, path=True, metavar='PATH', help='file or folder')
    split: str = option('train', help='of DailyDialog or of --task (train)')
    prompt_column: str = option('toxic', help='of a CSV file: the prompts (toxic)')
    answer_column: str = option('answer', help='of a CSV file: the answers (answer)')
    id_column: str = option('id', help='of a CSV file: ids (id)')

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
