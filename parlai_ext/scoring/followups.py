"""
Follow-up sets: what a partner would say after a good utterance, and after a bad one.

    dimensions:                       # the shape of the shipped sets
      Specificity:
        positive: [Good to know!]
        negative: [You could say that to anyone.]

A file in the shape ``turn: {quality: {positive, negative}}, dialogue: …`` is read too,
and one that chooses from another set, side by side:

    of: fed_2020
    dimensions:
      Overall: {positive: {likeable: all}, negative: {likeable: [2]}}   # places from 1

Those of Mehri and Eskenazi (2020) carry no licence, so they are not shipped but fetched
from the authors' repository on request. Their file is a program: its lists are read as
literals and nothing in it is run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError, nearest
from parlai_ext.core.nouns import content_id
from parlai_ext.files.yaml_file import Document, Key
from parlai_ext.scoring.shipped_file import read_shipped_file
from parlai_ext.systems.fetch.data_folder import data_folder
from parlai_ext.systems.fetch.pinned_file import PinnedFile, assigned_literals

SIDES = ('positive', 'negative')
LEVELS = ('turn', 'dialogue')
FED_2020 = 'fed_2020'
URL = (
    'https://raw.githubusercontent.com/Shikib/fed/'
    'fd498618c669f590cb5d78e6b55a70240e967925/fed.py'
)
SHA256 = '1f47bae5e49395fe83f72d2e404f52ba45bec209526c37ba90bea658b0d25b9e'
VARIABLES = {'turn_level_utts': 'turn', 'dialog_level_utts': 'dialogue'}


@dataclass(frozen=True)
class Sides:
    """
    The follow-ups of one dimension.
    """

    positive: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()


@dataclass(frozen=True)
class FollowUps:
    """
    The follow-ups of each dimension, in order.

    `dialogue_level` names those that are asked of a whole dialogue, not of each turn.
    """

    dimensions: Mapping[str, Sides]
    dialogue_level: frozenset[str] = frozenset()

    @property
    def hash(self) -> str:
        """
        Return 16 hex digits that depend on dimensions, levels and texts alone.
        """
        levels = [sorted(self.dialogue_level)] if self.dialogue_level else []
        return content_id(
            'followups',
            [[name, s.positive, s.negative] for name, s in self.dimensions.items()],
            *levels,
        )

    def without(self, left_out: Collection[str]) -> FollowUps:
        """
        Return the follow-ups of the other dimensions.

        :raises UserError: for a dimension that is not there, or if none is left.
        """
        for name in left_out:
            if name not in self.dimensions:
                hint = nearest(name, self.dimensions)
                raise UserError(f'scorer: without: no dimension {name!r}; {hint}')
        kept = {n: s for n, s in self.dimensions.items() if n not in left_out}
        if not kept:
            raise UserError('scorer: without: no dimension is left')
        return FollowUps(kept, self.dialogue_level & frozenset(kept))


def load_followups(name: str) -> FollowUps:
    """
    Return a follow-up set by shipped name, by path, or ``fed_2020`` (fetched).

    :raises UserError: for anything in the file that cannot be meant.
    """
    if name == FED_2020:
        return read_followups(fetch_fed_2020())
    doc = read_shipped_file('followups', name, 'followups', (FED_2020,))
    if isinstance(doc.data, dict) and 'of' in doc.data:
        return chosen_followups(doc)
    return read_followups(doc)


def chosen_followups(doc: Document) -> FollowUps:
    """
    Return dimensions whose follow-ups are chosen from qualities of another set.

    :raises UserError: with file, line and key.
    """
    keys = ('of', 'description', 'dimensions')
    data = doc.mapping(doc.data, (), keys, 'a choice of follow-ups')
    source = doc.typed(data['of'], ('of',), str)
    qualities = load_followups(source).dimensions

    def texts(side: str, choice: Any, where: tuple[Key, ...]) -> list[str]:
        found = []
        for quality, which in doc.typed(choice or {}, where, dict).items():
            here = (*where, quality)
            if quality not in qualities:
                hint = nearest(quality, qualities)
                raise doc.error(here, f'{source} has no such quality; {hint}')
            known = getattr(qualities[quality], side)
            places = range(1, len(known) + 1)
            wanted = places if which == 'all' else doc.typed(which, here, list)
            if wrong := [place for place in wanted if place not in places]:
                problem = f'all, or places from 1 to {len(known)}, not {wrong[0]!r}'
                raise doc.error(here, problem)
            found += [known[place - 1] for place in wanted]
        return found

    chosen = {}
    dimensions = doc.typed(data.get('dimensions') or {}, ('dimensions',), dict)
    for name, sides in dimensions.items():
        here = ('dimensions', name)
        sides = doc.mapping(sides, here, SIDES, f'dimension {name!r}')
        chosen[name] = {s: texts(s, sides[s], (*here, s)) for s in sides}
    return read_followups(replace(doc, data={'dimensions': chosen}))


def read_followups(doc: Document) -> FollowUps:
    """
    Return the follow-ups of a document with the key ``dimensions``, or with the
    authors' keys ``turn`` and ``dialogue``.

    :raises UserError: with file, line and key.
    """
    data = doc.typed(doc.data or {}, (), dict)
    dialogue_level: frozenset[str] = frozenset()
    if any(level in data for level in LEVELS):
        doc.mapping(data, (), LEVELS, 'follow-ups by level')
        by_level = {
            level: _dimensions(doc, sides or {}, (level,))
            for level, sides in data.items()
        }
        count = Counter(name for sides in by_level.values() for name in sides)
        # a quality that is judged on both levels has a name for each
        levelled = {
            name if count[name] == 1 else f'{level} {name}': (level, sides)
            for level, by_name in by_level.items()
            for name, sides in by_name.items()
        }
        dimensions = {name: sides for name, (_, sides) in levelled.items()}
        dialogue_level = frozenset(
            n for n, (level, _) in levelled.items() if level != 'turn'
        )
    else:
        data = doc.mapping(
            data, (), ('dimensions', 'description', *LEVELS), 'a follow-up set'
        )
        dimensions = _dimensions(doc, data.get('dimensions') or {}, ('dimensions',))
    if not dimensions:
        raise doc.error((), 'a follow-up set needs at least one dimension')
    return FollowUps(dimensions, dialogue_level)


def _dimensions(doc: Document, raw: Any, where: tuple[Key, ...]) -> dict[str, Sides]:
    """
    Return the follow-ups of each dimension of a mapping.
    """
    dimensions = {}
    for name, sides in doc.typed(raw, where, dict).items():
        here = (*where, name)
        sides = doc.mapping(sides, here, SIDES, f'dimension {name!r}')
        positive = _texts(doc, sides.get('positive'), (*here, 'positive'))
        negative = _texts(doc, sides.get('negative'), (*here, 'negative'))
        if not positive and not negative:
            raise doc.error(here, 'needs positive or negative follow-ups')
        dimensions[name] = Sides(positive, negative)
    return dimensions


def _texts(doc: Document, raw: Any, where: tuple[Key, ...]) -> tuple[str, ...]:
    """
    Return a list of different texts; nothing at all is an empty list.
    """
    texts: list[str] = []
    for i, text in enumerate([] if raw is None else doc.typed(raw, where, list)):
        text = doc.typed(text, (*where, i), str)
        if not text.strip():
            raise doc.error((*where, i), 'an empty follow-up')
        if text in texts:
            raise doc.error((*where, i), f'{text!r} is there already')
        texts.append(text)
    return tuple(texts)


def fetch_fed_2020() -> Document:
    """
    Return the authors' lists by level and quality, from the cache or the network.

    :raises UserError: when they cannot be had, with what to do instead.
    """
    home = Path(data_folder())
    authors = PinnedFile(URL, SHA256, f'follow-ups {FED_2020!r}', '--followups FILE')
    program = authors.fetch(home / 'followups' / 'fed_2020.txt').decode('utf-8')
    lists = assigned_literals(program)
    return Document({level: lists[name] for name, level in VARIABLES.items()}, URL)
