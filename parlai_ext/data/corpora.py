"""
Corpora as their authors publish them: dialogues as lists of utterances or as pairs of
successive turns, toxic prompts with answers, and texts that people called toxic or not.

    dailydialog      the official archives train.zip, validation.zip and test.zip, or
                     the text files in them (Li et al. 2017)
    convai2          ParlAI's files, train_none_original_no_cands.txt and the like
    dailydialog_pp   JSON lines of DailyDialog++ (Sai et al. 2020): contexts with five
                     good, five adversarial and five random responses each
    jsonl            our own: ``{"dialogue": ["text", …]}`` a line
"""

from __future__ import annotations

import ast
import hashlib
import operator
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from operator import attrgetter
from pathlib import Path, PurePath
from typing import Any, Literal, TypeVar

from parlai_ext.core import (
    DATA_ERRORS,
    FOLDS,
    JsonObject,
    UserError,
    frozen,
    option,
    optional,
    require_known,
)
from parlai_ext.core.records import user_record
from parlai_ext.files import (
    decoded_text,
    is_texts,
    json_lines,
    open_zip,
    parse_number,
    read_csv,
    read_json,
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


# --- toxic prompts with answers -------------------------------------------------------
#
#   csv         DSTC10 Track 5, subtask 2: columns id, toxic, answer, toxic_ner,
#               answer_ner and features; and any CSV file with such columns
#   diasafety   train.json, val.json, test.json of DiaSafety (Sun et al. 2022)
#   toxichat    train.jsonl, dev.jsonl, test.jsonl of ToxiChat (Baheti et al. 2021)
#
# Every pair is read; ``polite`` says whether people call it a safe answer to a toxic
# prompt. Features are cells of the file by column; filters choose pairs by them.
# Labelled texts are the responses of DiaSafety, the turns and responses of ToxiChat,
# and the rows of CSV files with the columns ``text`` and ``label``.

T = TypeVar('T')
# what the name of a file calls a fold
FOLD_WORDS = {
    'train': 'train',
    'training': 'train',
    'valid': 'valid',
    'validation': 'valid',
    'val': 'valid',
    'dev': 'valid',
    'test': 'test',
}
# one file without folds: of 20 prompts, 3 are for valid and 3 for test, the shares of
# Twitter and Reddit in Table 4 of Zhang et al. (2021)
HASHED, HELD_OUT = 20, 3
POLITE, ALL = 'polite', 'all'
MASKED = '_ner'  # ends the columns in which named entities are tags
MISSING = ('', 'N.A.', 'NaN', 'nan')  # cells without a value
# columns that tell how toxic a text is; of a file, the first that it has
TOXICITY = ('toxicity', 'perspective_score', 'azure_score')
ORDERS = {'<=': operator.le, '>=': operator.ge, '<': operator.lt, '>': operator.gt}
CONDITION = re.compile(r'\s*([\w.]+)\s*(<=|>=|!=|=|<|>)\s*(.*?)\s*')


@frozen
class ToxicPair:
    """
    A prompt and one answer to it.

    :param answer: `None` where the file has none.
    :param context: the turns before the prompt, where the source has them.
    :param polite: whether the answer counts as a safe one to a toxic prompt.
    :param fold: the fold that a column of the file gives it.
    """

    id: str
    prompt: str
    answer: str | None
    context: tuple[str, ...] = ()
    polite: bool = True
    features: Mapping[str, str] = field(default_factory=dict)
    fold: str | None = None


@frozen
class Prompt:
    """
    A prompt, and the polite answers of people to it.

    :param other_ids: of further pairs with this prompt.
    """

    id: str
    text: str
    references: tuple[str, ...] = ()
    other_ids: tuple[str, ...] = ()


@frozen(kw_only=True)
class ToxicData(PairColumns):
    """
    Which pairs are read, from which files.
    """

    path: str | None = optional(
        flag='--toxic-data',
        path=True,
        metavar='PATH,…',
        help='a folder with train, valid and test files, or one CSV file; or several; '
        'diasafety and toxichat are fetched where there is no such folder',
    )
    format: str = option(
        'auto',
        flag='--toxic-format',
        choices=('auto', 'csv', 'diasafety', 'toxichat'),
        help='whose format; auto looks at the files (auto)',
    )
    masked: bool = option(
        False,
        flag='--toxic-masked',
        help='read toxic_ner and answer_ner, whose named entities are tags',
    )
    pairs: str = option(
        POLITE,
        flag='--toxic-pairs',
        choices=(POLITE, ALL),
        help='polite: toxic prompts with safe answers; all: every pair of the source',
    )
    context: bool = option(
        False,
        flag='--toxic-context',
        help='the turns before the prompt, where there are any, stand before it',
    )
    share_prompts: bool = option(
        False,
        help='train also on prompts that valid and test have, too',
    )
    where: tuple[str, ...] = option(
        (),
        metavar='CONDITION,…',
        help='conditions on feature columns: ratio_lengths<=2,answer_emotion=neutral|'
        'happiness. A pair without the value is left out',
    )
    min_prompt_toxicity: float | None = optional(help='toxicity of the prompt')
    max_answer_toxicity: float | None = optional(help='toxicity of the answer')
    emotion: tuple[str, ...] = option(
        (), metavar='NAME,…', help='emotions that answers may have'
    )
    prompt_emotion: tuple[str, ...] = option(
        (), metavar='NAME,…', help='the same of prompts'
    )


@frozen
class Condition:
    """
    A comparison of one feature column with a number, or with words.

    :param text: how the user wrote it.
    """

    column: str
    sign: str
    values: Sequence[str]
    text: str

    def holds(self, pair: ToxicPair) -> bool:
        """
        True if a pair meets the condition; one without a value does not.
        """
        cell = pair.features.get(self.column, '')
        if cell in MISSING:
            return False
        value, bounds = parse_number(cell), [parse_number(one) for one in self.values]
        if self.sign in ORDERS:
            [bound] = bounds
            if value is None or bound is None:
                return False
            return ORDERS[self.sign](value, bound)
        words = [one.strip().casefold() for one in self.values]
        is_same = cell.casefold() in words or (value is not None and value in bounds)
        return is_same == (self.sign == '=')


@frozen
class ChosenPairs:
    """
    The pairs of one fold that all conditions leave, and how many each left out.
    """

    pairs: Sequence[ToxicPair]
    left_out: Mapping[str, int]


def read_condition(text: str) -> Condition:
    """
    Return the condition that a text such as ``ratio_lengths<=2`` spells.

    :raises UserError: when it spells none.
    """
    match = CONDITION.fullmatch(text)
    if match is None or not match[3]:
        raise UserError(
            f'--where {text}: COLUMN<=NUMBER, COLUMN=WORD or COLUMN=WORD|WORD is '
            'expected'
        )
    column, sign, value = match.groups()
    if sign in ORDERS and parse_number(value) is None:
        raise UserError(f'--where {text}: {value!r} is no number')
    values = [value] if sign in ORDERS else value.split('|')
    return Condition(column, sign, values, text)


def choose_pairs(data: ToxicData, fold: str) -> ChosenPairs:
    """
    Return the pairs of a fold that the options choose.

    :raises UserError: for files that cannot be read, for a condition on a column that
        there is not, and when no pair is left.
    """
    everything = read_pairs(data)
    pairs = everything[fold]
    left_out = {}
    for reason, test in tests_of_options(data, fold, everything).items():
        kept = [*filter(test, pairs)]
        if n := len(pairs) - len(kept):
            left_out[reason] = n
        pairs = kept
    if not pairs:
        reasons = ', '.join(f'{n} by {why}' for why, n in left_out.items())
        raise UserError(
            f'{data.path}: no pair for {fold}; left out: {reasons or "nothing"}'
        )
    return ChosenPairs(pairs, left_out)


def tests_of_options(
    data: ToxicData, fold: str, everything: Mapping[str, Sequence[ToxicPair]]
) -> dict[str, Callable[[ToxicPair], bool]]:
    """
    Return what the options ask of a pair of a fold, by what is said of one that fails.

    :param everything: all pairs by fold.
    """
    columns = {name for pair in everything[fold] for name in pair.features}
    tests: dict[str, Callable[[ToxicPair], bool]] = {}
    if data.pairs == POLITE:
        tests['no safe answer to a toxic prompt'] = attrgetter('polite')
        tests['no answer'] = lambda p: p.answer is not None
    tests |= {one.text: one.holds for one in conditions_of(data, columns)}
    if fold == 'train' and not data.share_prompts:
        held = {prompt_key(p.prompt) for f in ('valid', 'test') for p in everything[f]}
        tests['the prompt is in valid or test, too'] = lambda p: (
            prompt_key(p.prompt) not in held
        )
    return tests


def conditions_of(data: ToxicData, columns: set[str]) -> list[Condition]:
    """
    Return all conditions of the options, on the columns of a file.

    :raises UserError: for a column that there is not, with the nearest.
    """
    conditions = [read_condition(text) for text in data.where]
    for side, sign, bound, flag in (
        ('toxic', '>=', data.min_prompt_toxicity, '--min-prompt-toxicity'),
        ('answer', '<=', data.max_answer_toxicity, '--max-answer-toxicity'),
        ('toxic', '=', data.prompt_emotion, '--prompt-emotion'),
        ('answer', '=', data.emotion, '--emotion'),
    ):
        if isinstance(bound, float):
            names = [f'{side}_{ending}' for ending in TOXICITY]
            name = next((name for name in names if name in columns), names[0])
            text = f'{flag} {bound:g}'
            conditions.append(Condition(name, sign, [str(bound)], text))
        elif bound:
            text = f'{flag} {",".join(bound)}'
            conditions.append(Condition(f'{side}_emotion', sign, bound, text))
    for one in conditions:
        problem = f'{one.text}: there is no column {one.column!r}'
        require_known(one.column, columns, problem)
    return conditions


def read_pairs(data: ToxicData) -> dict[str, list[ToxicPair]]:
    """
    Return all pairs by fold.

    :raises UserError: names the file, and the line or object that is wrong.
    """
    if not data.path:
        raise UserError(
            '--toxic-data is needed: a folder of DiaSafety or ToxiChat, or CSV files '
            'with the columns id, toxic, answer'
        )
    places = [Path(data.path)]
    if not places[0].exists():  # a comma may be part of a name if there is but one
        places = [Path(part.strip()).expanduser() for part in data.path.split(',')]
    pairs: dict[str, list[ToxicPair]] = {fold: [] for fold in FOLDS}
    for place in places:
        if not place.exists():
            raise UserError(f'--toxic-data: there is no file or folder {place}')
        for fold, pair in pairs_of_place(place, data):
            pairs[fold].append(pair)
    return pairs


def pairs_of_place(place: Path, data: ToxicData) -> Iterator[tuple[str, ToxicPair]]:
    """
    Yield all pairs of a file or folder, one after the other, each after its fold.

    :raises UserError: when no file of the format is there; or names the file, and the
        line or object that is wrong.
    """
    forms = READERS if data.format == 'auto' else {data.format: READERS[data.format]}
    for name, (ending, read) in forms.items():
        files = [place] if place.suffix == ending else []
        if place.is_dir():
            files = sorted(p for p in place.glob(f'*{ending}') if p.is_file())
            if len(files) > 1 or name != 'csv':
                files = [path for path in files if fold_of_file(path)]
        for path in files:
            fold = fold_of_file(path)
            for pair in read(path, data):
                yield pair.fold or fold or fold_of_prompt(pair.prompt), pair
        if files:
            return
    endings = ' or '.join(f'*{ending}' for ending, _ in forms.values())
    raise UserError(
        f'{place}: no {endings} whose name has train, valid (val, dev) or test'
        if place.is_dir()
        else f'{place}: a file {endings} is expected'
    )


def fold_of_file(path: Path) -> str | None:
    """
    Return the fold that the name of a file says, or `None`.

    >>> fold_of_file(Path('moviedic_dev.csv'))
    'valid'
    """
    words = re.split('[^a-z]+', path.stem.lower())
    return next((FOLD_WORDS[word] for word in words if word in FOLD_WORDS), None)


def fold_of_prompt(prompt: str) -> str:
    """
    Return the fold of a prompt whose file does not say one; it depends on its letters
    alone, so that equal prompts are in one fold.
    """
    digest = hashlib.sha256(prompt_key(prompt).encode('utf-8', 'replace')).digest()
    part = int.from_bytes(digest[:4]) % HASHED // HELD_OUT
    return {0: 'valid', 1: 'test'}.get(part, 'train')


def track_csv(path: Path, data: ToxicData) -> Iterator[ToxicPair]:
    """
    Yield the pairs of a CSV file, each with its fold where a column ``split`` says one.

    Text columns are those that the options name, and with ``_ner`` the masked ones; all
    others are features, which may be shown.
    """
    ending = MASKED if data.masked else ''
    prompt, answer = data.prompt_column + ending, data.answer_column + ending
    both = (data.prompt_column, data.answer_column)
    texts = {data.id_column, 'split', *both, *(name + MASKED for name in both)}
    for number, row in read_csv(path, [prompt]):
        if row[prompt] in MISSING:
            continue
        given = row.get(answer, '')
        if split := row.get('split', '').lower():
            require_known(split, FOLD_WORDS, f'{path}:{number}: split: {split!r}')
        yield ToxicPair(
            id=row.get(data.id_column) or f'{path.stem}:{number}',
            prompt=single_spaced(row[prompt]),
            answer=None if given in MISSING else single_spaced(given),
            features={name: cell for name, cell in row.items() if name not in texts},
            fold=FOLD_WORDS.get(split),
        )


def diasafety(path: Path, data: ToxicData | None = None) -> Iterator[ToxicPair]:
    """
    Yield the pairs of a file of DiaSafety.

    Contexts have no label of their own. Those of the category Toxicity Agreement are
    toxic; a safe response to one does not agree with it.

    :raises UserError: names the file and the object that is wrong.
    """
    for number, row in diasafety_rows(path, LabelledResponse):
        yield ToxicPair(
            id=f'diasafety:{path.stem}:{number}',
            prompt=single_spaced(row.context),
            answer=single_spaced(row.response) or None,
            polite=row.label == 'Safe' and row.category == AGREEMENT,
            features={'category': row.category, 'label': row.label},
        )


def toxichat(path: Path, data: ToxicData) -> Iterator[ToxicPair]:
    """
    Yield each turn of ToxiChat's threads with the next one, and each last turn with the
    responses of DialoGPT and GPT-3.

    An answer is polite if its prompt is offensive, and it is safe, does not agree with
    the prompt, and makes sense.
    """
    for thread in toxichat_threads(path):
        for place, prompt in enumerate(thread.turns):
            number = prompt.about.get('turn_id', place + 1)
            for answer in thread.turns[place + 1 : place + 2] or thread.responses:
                stance = answer.about.get(f'stance_label_towards_turn_{number}')
                features = {
                    'prompt_label': prompt.label,
                    'answer_label': answer.label,
                    'speaker': answer.speaker,
                    'stance': stance or '',
                    'coherence': answer.about.get('coherence') or '',
                }
                yield ToxicPair(
                    id=f'{thread.id}:{number}:{answer.speaker}',
                    prompt=prompt.text,
                    answer=answer.text or None,
                    context=tuple(turn.text for turn in thread.turns[:place]),
                    polite=prompt.label == 'Offensive'
                    and answer.label == 'Safe'
                    and stance != 'Agree'
                    and features['coherence'] != 'Not Plausible',
                    features=features,
                )


READERS = {
    'csv': ('.csv', track_csv),
    'diasafety': ('.json', diasafety),
    'toxichat': ('.jsonl', toxichat),
}


def prompt_key(text: str) -> str:
    """
    Return what two spellings of a prompt have in common: its letters and digits; one
    without any is itself. Blanks do not count, since texts lack some: two words are one
    with the word that they make up.

    >>> prompt_key('Oh, no!') == prompt_key('oh no')
    True
    """
    return ''.join(split_words(text)) or text.strip()


# ------------------------------------------------------------ the files

AGREEMENT = 'Toxicity Agreement'  # the category whose contexts are toxic
BOTS = {'final_dgpt_response': 'dgpt', 'final_gpt3_response': 'gpt3'}


@frozen
class ThreadTurn:
    """
    A turn of a thread, or a bot's response to the last one.

    :param about: all that the file says of it.
    """

    speaker: str
    text: str
    label: str
    about: Mapping[str, Any]


@frozen
class Thread:
    """
    A thread of ToxiChat: the turns of people, and a response of each bot to the last.
    """

    id: str
    turns: Sequence[ThreadTurn]
    responses: Sequence[ThreadTurn]


@frozen
class LabelledResponse:
    """
    An object of DiaSafety's files: a response to a context, and what people call it.
    """

    context: str
    response: str
    category: str
    label: str


@frozen
class GeneratedResponses:
    """
    An object of DiaSafety's files of generated responses: those of one system.
    """

    context: str
    gen_response: tuple[str, ...]


def diasafety_rows(path: Path, kind: type[T]) -> Iterator[tuple[int, T]]:
    """
    Yield number and content of the objects of a file of DiaSafety.

    :raises UserError: names the file and the object that is wrong.
    """
    for number, row in enumerate(read_json(path, list), 1):
        yield number, user_record(kind, row, f'{path}: object {number}')


def toxichat_threads(path: Path) -> Iterator[Thread]:
    """
    Yield the threads of a file of ToxiChat.

    :raises UserError: names the file and the line that is wrong.
    """
    rows: Iterator[tuple[int, Mapping[str, Any]]] = json_lines(path)
    for number, row in rows:
        try:
            turns = [('human', turn) for turn in row['reddit_thread']]
            bots = [(bot, row[key]) for key, bot in BOTS.items() if key in row]
            read = tuple(
                ThreadTurn(
                    name, single_spaced(turn['text']), turn['offense_label'], turn
                )
                for name, turn in (*turns, *bots)
            )
        except DATA_ERRORS as error:
            raise UserError(
                f'{path}:{number}: no thread of ToxiChat: {error!r}'
            ) from None
        place = len(turns)
        yield Thread(f'toxichat:{path.stem}:{number}', read[:place], read[place:])


# ------------------------------------------------------------ labelled texts

YES = ('1', 'true', 'yes', 'toxic', 'offensive', 'unsafe', '__notok__')
NO = ('0', 'false', 'no', 'safe', 'ok', 'not toxic', '__ok__')


@frozen
class LabelledText:
    """
    A text and whether people call it toxic.

    :param kind: a part of its set, which has a line of its own in tables.
    :param group: texts of a group, such as the turns of a thread, are drawn together.
    """

    id: str
    text: str
    toxic: bool
    kind: str
    group: str


def labelled_texts(name: str, folder: Path, fold: str) -> list[LabelledText]:
    """
    Return the texts of one fold of a set.

    :param name: a key of `SETS`, whose folder lies in ``folder``; or a CSV file.
    :raises UserError: when the set is not there, or no text is in it.
    """
    if name.endswith('.csv'):
        texts = list(_csv_texts(Path(name).expanduser()))
        if not texts:
            raise UserError(f'--sets {name}: there is no text in it')
        return texts
    require_known(name, SETS, f'--sets {name}: neither a CSV file nor a set')
    ending, _ = READERS[name]
    home = folder / name if (folder / name).is_dir() else folder
    files = [p for p in sorted(home.glob(f'*{ending}')) if fold_of_file(p) == fold]
    if not files:
        raise UserError(f'{home}: there is no *{ending} of {name} for {fold} in it')
    return [one for path in files for one in SETS[name](path) if one.text]


def sets_in(folder: Path) -> list[str]:
    """
    Return the names of the sets that lie in a folder.
    """
    if not folder.is_dir():
        raise UserError(f'--toxic-path {folder}: there is no such folder')
    there = [name for name in SETS if (folder / name).is_dir()]
    if not there:
        raise UserError(
            f'--toxic-path {folder}: none of the folders {", ".join(SETS)} is in it'
        )
    return there


def _diasafety_texts(path: Path) -> Iterator[LabelledText]:
    """
    Yield each response; responses to one context are a group.
    """
    for pair in diasafety(path):
        toxic, kind = pair.features['label'] == 'Unsafe', pair.features['category']
        yield LabelledText(pair.id, pair.answer or '', toxic, kind, pair.prompt)


def _toxichat_texts(path: Path) -> Iterator[LabelledText]:
    """
    Yield each turn and each response of a bot; those of one thread are a group.
    """
    for thread in toxichat_threads(path):
        for place, turn in enumerate((*thread.turns, *thread.responses), 1):
            toxic, name = turn.label == 'Offensive', f'{thread.id}:{place}'
            yield LabelledText(name, turn.text, toxic, turn.speaker, thread.id)


def _csv_texts(path: Path) -> Iterator[LabelledText]:
    for number, row in read_csv(path, ['text', 'label']):
        label = row['label'].casefold()
        if label not in (*YES, *NO):
            raise UserError(
                f'{path}:{number}: label: {row["label"]!r}; toxic or safe, 1 or 0'
            )
        name, kind = f'{path.stem}:{number}', row.get('kind', '')
        if kind == ALL:
            raise UserError(f'{path}:{number}: kind: {ALL!r} means all texts of a set')
        group = row.get('group') or name
        yield LabelledText(name, row['text'], label in YES, kind, group)


SETS = {
    'diasafety': _diasafety_texts,
    'toxichat': _toxichat_texts,
}

# --- answers that systems gave --------------------------------------------------------
# Answers that systems gave to prompts before: CSV, JSON lines, DiaSafety's files.
#
#   CSV, JSON lines   columns or keys ``system``, ``prompt`` (or ``id``, as the file of
#                     prompts has it) and ``answer``; ``safety`` says what a safety
#                     layer answered to in the system's place: prompt or answer
#   DiaSafety         a JSON list of objects with ``context`` and ``gen_response``, a
#                     list of answers; the file's name is the system's. Or the labelled
#                     responses of train.json, val.json, test.json: those to toxic
#                     contexts are two systems, NAME_safe and NAME_unsafe

ENDINGS = ('.csv', '.jsonl', '.json')
DEFLECTED = ('prompt', 'answer')  # the values of `safety` that are deflections


@frozen
class AnswerRow:
    """
    A line of a file of answers; what it need not have may be empty.
    """

    answer: str
    system: str | None = None
    prompt: str | None = None
    id: str | None = None
    safety: Literal['', 'none', 'prompt', 'answer'] | None = None


@frozen
class RecordedAnswer:
    """
    An answer of a system to a prompt.

    :param prompt: its text; '' where only its id is known.
    :param text: '' for an empty answer; `None` where the system failed.
    :param deflected: what the system's safety layer answered to in its place.
    :param reason: why there is no text.
    """

    system: str
    prompt: str
    text: str | None
    deflected: str | None = None
    reason: str | None = None
    prompt_id: str | None = None


def recorded_answers(spec: str) -> list[RecordedAnswer]:
    """
    Return the answers in a file.

    :param spec: ``FILE``, or ``NAME=FILE``: the system whose answers the file has.
    :raises UserError: names the file, and the line or object that is wrong; also for a
        file without answers.
    """
    name, sign, file = spec.partition('=')
    path = Path(file if sign else spec).expanduser()
    own = name if sign else None
    if path.suffix not in ENDINGS:
        raise UserError(f'--answers {spec}: a file {", ".join(ENDINGS)} is expected')
    if path.suffix == '.json':
        answers = list(_diasafety_answers(path, own or path.stem))
    else:
        lines = (
            json_lines(path) if path.suffix == '.jsonl' else read_csv(path, ['answer'])
        )
        answers = [_answer(row, own, f'{path}:{number}') for number, row in lines]
    if not answers:
        raise UserError(f'--answers {spec}: there is no answer in it')
    return answers


def _diasafety_answers(path: Path, system: str) -> Iterator[RecordedAnswer]:
    """
    Yield the generated responses of a system; of labelled responses those to toxic
    contexts, as of two systems.
    """
    rows = read_json(path, list)
    if rows and isinstance(rows[0], dict) and 'label' in rows[0]:
        for pair in diasafety(path):
            if pair.answer and pair.features['category'] == AGREEMENT:
                ending = '_safe' if pair.features['label'] == 'Safe' else '_unsafe'
                yield RecordedAnswer(system + ending, pair.prompt, pair.answer)
        return
    for _, row in diasafety_rows(path, GeneratedResponses):
        for text in row.gen_response:
            prompt = single_spaced(row.context)
            yield RecordedAnswer(system, prompt, single_spaced(text))


def _answer(row: JsonObject, own: str | None, where: str) -> RecordedAnswer:
    """
    Return the answer of a line.
    """
    cells = {k: single_spaced(v) if isinstance(v, str) else v for k, v in row.items()}
    given = user_record(AnswerRow, cells, where)
    if own and given.system not in (None, '', own):
        raise UserError(
            f'{where}: system: {given.system!r} is not {own!r}; without {own}= all '
            'systems of the file are read'
        )
    system = own or given.system
    if not system:
        raise UserError(f'{where}: system is needed; or NAME=FILE names it')
    if not (given.prompt or given.id):
        raise UserError(f'{where}: prompt is needed, or the id of one')
    return RecordedAnswer(
        system,
        given.prompt or '',
        given.answer,
        given.safety if given.safety in DEFLECTED else None,
        prompt_id=given.id or None,
    )
