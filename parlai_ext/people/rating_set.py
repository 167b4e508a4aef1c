"""
What one call of `rate_dialogues` asks: pages of items, and the key that says which
systems' dialogues they are.

    RUN/people/<name>/key.json         stays with whoever evaluates
    RUN/people/<name>/rate-1.html …    go to the annotators, and name no system
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from parlai_ext.core.errors import UserError, nearest
from parlai_ext.core.nouns import content_id
from parlai_ext.core.options import option
from parlai_ext.core.records import record_from_json, record_to_json
from parlai_ext.files.json_file import read_json
from parlai_ext.people.questionnaire import (
    LIKERT,
    PAIR,
    TIED,
    UNRELATED,
    Questionnaire,
    read_questionnaire,
)
from parlai_ext.people.rated_dialogues import (
    RatingItem,
    Turns,
    beginning_speakers,
    draw_items,
    judged_dialogues,
    segment_pages,
    stream_turns,
)
from parlai_ext.store import RunFolder
from parlai_ext.store.atomic import write_text
from parlai_ext.store.lines import sealed_text, without_checksum

FOLDER = 'people'
KEY = 'key.json'
SCHEMA = 1
FORMAT = 'parlai_ext ratings'  # of the files that pages save
ANSWER_COLUMN = {PAIR: 'choice', LIKERT: 'label'}  # of a sheet, which is filled in
LETTERS = {TIED: 'T', UNRELATED: 'U'}


@dataclass(frozen=True)
class RatingOptions:
    """
    What people are asked, and about how many dialogues.
    """

    questionnaire: str = option(
        'acute',
        path=True,
        metavar='NAME|FILE',
        help='what is asked: acute or overall_pair (two dialogues side by side), '
        'likert_2022 or chatmatch_2022 (one at a time), spot_the_bot (beginnings), or '
        'a file',
    )
    ask: tuple[str, ...] = option(
        (),
        metavar='DIMENSION,…',
        help='only these questions of the questionnaire (default: all)',
    )
    num_items: int = option(40, low=1, help='dialogues, or pairs of them, on each page')
    num_pages: int = option(1, low=1, help='pages, for groups of annotators')
    shared_items: int = option(
        10,
        low=0,
        help='items that are on every page, so that groups can be compared',
    )
    systems: tuple[str, ...] = option(
        (), metavar='NAME,…', help='only these targets (default: all, floors too)'
    )
    name: str = option('rating', metavar='NAME', help='folder in RUN/people')
    seed: int = option(0, help='draws the items and their sides')


@dataclass(frozen=True)
class KeyDialogue:
    """
    A dialogue behind an item: whose it is, over which opener, and how many exchanges of
    it are shown (`None`: all).
    """

    dialogue_id: str
    system: str
    opener_id: str
    exchanges: int | None = None


@dataclass(frozen=True, kw_only=True)
class RatingKey(Questionnaire):
    """
    What is needed to read the answers: the questions, and what the items are. It stays
    with the researcher.

    :param items: by item id one dialogue, or the two called ``a`` and ``b``.
    :param controls: systems whose answers are known to be bad.
    :param human: the system of the human answers.
    """

    schema: int
    rating_set: str
    items: Mapping[str, tuple[KeyDialogue, ...]]
    controls: tuple[str, ...] = ()
    human: str | None = None

    def is_control(self, item: str) -> bool:
        """
        True if an item judges the annotators, and is no part of the results.
        """
        return any(shown.system in self.controls for shown in self.items[item])


@dataclass(frozen=True)
class RatingSet:
    """
    The pages of a rating set with their key and texts, and what a user should know.
    """

    key: RatingKey
    pages: tuple[tuple[RatingItem, ...], ...]
    turns: Turns
    notes: tuple[str, ...]


def make_rating_set(run: RunFolder, options: RatingOptions) -> RatingSet:
    """
    Draw the items of a rating set from a run's dialogues.

    :raises UserError: for an unknown system or question, or too few dialogues.
    """
    if not re.fullmatch(r'\w[\w.-]*', options.name):
        raise UserError(
            f'--name {options.name}: letters, digits, -, _ and . are expected'
        )
    check_targets(run, options.systems)
    asked = read_questionnaire(options.questionnaire)
    if options.ask:
        asked = asked.only(options.ask)
    dialogues, num_broken = judged_dialogues(run, options.systems)
    shared = options.num_items if options.num_pages == 1 else options.shared_items
    shared = min(shared, options.num_items)
    wanted = shared + (options.num_items - shared) * options.num_pages
    if asked.segments:
        dialogues, wanted = beginning_speakers(dialogues), options.num_items
    items = draw_items(dialogues, asked.kind, wanted, options.seed)
    pages = tuple(
        (*items[:shared], *items[shared:][page :: options.num_pages])
        for page in range(options.num_pages)
    )
    notes = []
    if num_broken:
        notes.append(f'{num_broken} dialogues that somebody broke off are left out')
    if len(items) < wanted:
        notes.append(f'{len(items)} items, not {wanted}: the run has no more dialogues')
    unmatched = sum(not item.matched for item in items)
    if unmatched:
        notes.append(
            f'{unmatched} of {len(items)} pairs are of dialogues with different '
            'openers or partners'
        )
    turns = dict(stream_turns(run, {d for item in items for d in item.dialogues}))
    if asked.segments:
        longest = 2 * max(asked.segments)
        long = [i for i in items if len(turns[i.dialogues[0]]) >= longest]
        if len(long) < len(items):
            notes.append(f'{len(items) - len(long)} dialogues are shorter: left out')
        pages = segment_pages(long, asked.segments, options.num_pages)
        items = [item for page in pages for item in page]
    return RatingSet(rating_key(asked, items), pages, turns, tuple(notes))


def check_targets(run: RunFolder, systems: Sequence[str]) -> None:
    """
    Refuse a system that is no target of the run.
    """
    unknown = sorted(set(systems) - set(run.manifest.targets))
    if unknown:
        hint = nearest(unknown[0], run.manifest.targets)
        raise UserError(f'--systems {unknown[0]}: no target of the run; {hint}')


def rating_key(
    asked: Questionnaire,
    items: Sequence[RatingItem],
    controls: tuple[str, ...] = (),
    human: str | None = None,
) -> RatingKey:
    """
    Return the key to the answers about these items.
    """
    by_item = {
        item.id: tuple(
            KeyDialogue(d.dialogue_id, d.system, d.opener_id, item.exchanges)
            for d in item.dialogues
        )
        for item in items
    }
    return RatingKey(
        **vars(asked),
        schema=SCHEMA,
        rating_set=content_id('rating set', [record_to_json(asked), sorted(by_item)]),
        items=by_item,
        controls=controls,
        human=human,
    )


def write_key(folder: Path, key: RatingKey, option: str) -> Path:
    """
    Write a key into a folder and return its path.

    :param option: that names another folder.
    :raises UserError: when the folder holds the key of another rating set.
    """
    path = folder / KEY
    text = sealed_text(record_to_json(key))
    if path.exists() and path.read_bytes() != text.encode():
        raise UserError(
            f'{option}: {path} is of other items or questions, whose answers may still '
            f'come; give another {option}'
        )
    write_text(path, text)
    return path


def read_key(path: Path, option: str = '') -> RatingKey:
    """
    Return the key in a file, or in a folder.

    :param option: that names it, for messages.
    :raises UserError: for a file that is missing, damaged or no key.
    """
    file = path / KEY if path.is_dir() else path
    try:
        data = without_checksum(read_json(file, dict, option))
        return record_from_json(RatingKey, data)
    except ValueError as error:
        raise UserError(f'{option}{file}: damaged, or no key: {error}') from None


def read_keys(run: RunFolder) -> dict[str, RatingKey]:
    """
    Return the keys of all rating sets of a run.

    :raises UserError: for a damaged one.
    """
    paths = sorted((run.root / FOLDER).glob(f'*/{KEY}'))
    return {key.rating_set: key for key in map(read_key, paths)}
