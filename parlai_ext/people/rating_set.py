"""
What one call of `rate_dialogues` asks: pages of items, and the key that says which
systems' dialogues they are.

    RUN/people/<name>/key.json         stays with whoever evaluates
    RUN/people/<name>/rate-1.html …    go to the annotators, and name no system
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from parlai_ext.core.errors import UserError, nearest
from parlai_ext.core.nouns import content_id
from parlai_ext.core.options import option
from parlai_ext.core.records import WrongType, record_from_json, record_to_json
from parlai_ext.people.draw_items import SIDES, RatingItem, draw_items
from parlai_ext.people.questionnaire import (
    LIKERT,
    Questionnaire,
    Wording,
    read_questionnaire,
)
from parlai_ext.people.run_dialogues import judged_dialogues
from parlai_ext.store import RunFolder

FOLDER = 'people'
KEY = 'key.json'
SCHEMA = 1
TIED, UNRELATED = 'tie', 'unrelated'  # answers about a pair beside its sides


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
        'likert_2022 (one at a time), or a file',
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
    A dialogue behind an item: whose it is, and over which opener.
    """

    dialogue_id: str
    system: str
    opener_id: str


@dataclass(frozen=True)
class RatingKey:
    """
    What is needed to read the answers: the questions, and what the items are.

    :param items: by item id one dialogue, or the two called ``a`` and ``b``.
    :param tie, unrelated, flag, values, offensive: as in `Questionnaire`.
    """

    schema: int
    rating_set: str
    kind: str
    ties: bool
    questions: tuple[Wording, ...]
    items: Mapping[str, tuple[KeyDialogue, ...]]
    tie: str | None = None
    unrelated: str | None = None
    flag: str | None = None
    values: tuple[float, ...] | None = None
    offensive: bool | None = None

    def value(self, answer: str) -> float:
        """
        Return what the number of a label is worth.
        """
        return self.values[int(answer) - 1] if self.values else float(answer)


@dataclass(frozen=True)
class RatingSet:
    """
    The pages of a rating set with their key, and what a user should know.
    """

    key: RatingKey
    pages: tuple[tuple[RatingItem, ...], ...]
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
    own = max(0, options.num_items - shared)
    wanted = min(shared, options.num_items) + own * options.num_pages
    items = draw_items(dialogues, asked.kind, wanted, options.seed)
    pages = _split_pages(items, wanted - own * options.num_pages, options.num_pages)
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
    return RatingSet(rating_key(asked, items), pages, tuple(notes))


def check_targets(run: RunFolder, systems: Sequence[str]) -> None:
    """
    Refuse a system that is no target of the run.
    """
    unknown = sorted(set(systems) - set(run.manifest.targets))
    if unknown:
        hint = nearest(unknown[0], run.manifest.targets)
        raise UserError(f'--systems {unknown[0]}: no target of the run; {hint}')


def _split_pages(
    items: Sequence[RatingItem], num_shared: int, num_pages: int
) -> tuple[tuple[RatingItem, ...], ...]:
    """
    Return the items of each page: the first ones on all, the others dealt out.
    """
    shared, others = items[:num_shared], items[num_shared:]
    return tuple((*shared, *others[k::num_pages]) for k in range(num_pages))


def rating_key(asked: Questionnaire, items: Sequence[RatingItem]) -> RatingKey:
    """
    Return the key to the answers about these items.
    """
    by_item = {
        item.id: tuple(
            KeyDialogue(d.dialogue_id, d.system, d.opener_id) for d in item.dialogues
        )
        for item in items
    }
    content = [record_to_json(asked), sorted(by_item)]
    identity = content_id('rating set', content)
    return RatingKey(
        SCHEMA,
        identity,
        asked.kind,
        asked.ties,
        asked.wordings,
        by_item,
        tie=asked.tie,
        unrelated=asked.unrelated,
        flag=asked.flag,
        values=asked.values,
        offensive=asked.offensive,
    )


def write_key(run: RunFolder, name: str, key: RatingKey) -> None:
    """
    Write the key of a rating set into its folder.

    :raises UserError: when the folder holds the key of another rating set.
    """
    file = f'{FOLDER}/{name}/{KEY}'
    data = record_to_json(key)
    if (run.root / file).exists() and run.read_json(file) != data:
        raise UserError(
            f'--name {name}: {run.root / file} is of other items or questions, whose '
            'answers may still come; give another --name'
        )
    run.write_json(file, data)


def read_keys(run: RunFolder) -> dict[str, RatingKey]:
    """
    Return the keys of all rating sets of a run.

    :raises UserError: for a damaged one.
    """
    keys = {}
    for path in sorted((run.root / FOLDER).glob(f'*/{KEY}')):
        try:
            data = run.read_json(str(path.relative_to(run.root)), 'restore it')
            key = record_from_json(RatingKey, data)
        except WrongType as error:
            raise UserError(f'{path}: {error}') from None
        keys[key.rating_set] = key
    return keys


def answers_to(key: RatingKey) -> tuple[str, ...]:
    """
    Return the answers that each question of a rating set has.
    """
    if key.kind == LIKERT:
        return tuple(str(k + 1) for k in range(len(key.questions[0].answers)))
    more = {TIED: key.ties, UNRELATED: key.unrelated}
    return (*SIDES, *(answer for answer, offered in more.items() if offered))
