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

from parlai_ext.core.errors import UserError, nearest, require_known
from parlai_ext.core.nouns import content_id
from parlai_ext.core.options import option
from parlai_ext.files.yaml_file import Document
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

    positive: tuple[str, ...] = option((), help='praise')
    negative: tuple[str, ...] = option((), help='complaints')


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
            problem = f'scorer: without: no dimension {name!r}'
            require_known(name, self.dimensions, problem)
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
    chosen: dict[str, dict[str, list[str]]] = {}
    dimensions = doc.typed(data.get('dimensions') or {}, ('dimensions',), dict)
    for name, sides in dimensions.items():
        here = ('dimensions', name)
        chosen[name] = {}
        for side, choice in doc.mapping(sides, here, SIDES, 'a dimension').items():
            texts = chosen[name][side] = []
            for quality, which in doc.typed(choice or {}, (*here, side), dict).items():
                place = (*here, side, quality)
                if quality not in qualities:
                    hint = nearest(quality, qualities)
                    raise doc.error(place, f'{source} has no such quality; {hint}')
                known = dict(enumerate(getattr(qualities[quality], side), 1))
                wanted = known if which == 'all' else doc.typed(which, place, list)
                if wrong := [one for one in wanted if one not in known]:
                    problem = f'all, or places from 1 to {len(known)}, not {wrong[0]!r}'
                    raise doc.error(place, problem)
                texts += [known[one] for one in wanted]
    return read_followups(replace(doc, data={'dimensions': chosen}))


def read_followups(doc: Document) -> FollowUps:
    """
    Return the follow-ups of a document with the key ``dimensions``, or with the
    authors' keys ``turn`` and ``dialogue``.

    :raises UserError: with file, line and key.
    """
    data = doc.typed(doc.data or {}, (), dict)
    keys: tuple[str, ...] = LEVELS
    if not any(level in data for level in LEVELS):
        keys = ('dimensions', 'description', *LEVELS)
    doc.mapping(data, (), keys, 'a follow-up set')
    by_level = {
        level: _dimensions(doc, given, level)
        for level, given in data.items()
        if level != 'description'
    }
    count = Counter(name for sides in by_level.values() for name in sides)
    # a quality that is judged on both levels has a name for each
    levelled = {
        name if count[name] == 1 else f'{level} {name}': (level, sides)
        for level, by_name in by_level.items()
        for name, sides in by_name.items()
    }
    if not levelled:
        raise doc.error((), 'a follow-up set needs at least one dimension')
    return FollowUps(
        {name: sides for name, (_, sides) in levelled.items()},
        frozenset(n for n, (level, _) in levelled.items() if level == 'dialogue'),
    )


def _dimensions(doc: Document, given: Any, level: str) -> dict[str, Sides]:
    """
    Return the follow-ups of each dimension of a mapping.
    """
    dimensions = {}
    for name, texts_of in doc.typed(given or {}, (level,), dict).items():
        here = (level, name)
        sides = dimensions[name] = doc.options(Sides, texts_of, here)
        if sides == Sides():
            raise doc.error(here, 'needs positive or negative follow-ups')
        for side, texts in vars(sides).items():
            for i, text in enumerate(texts):
                place = (*here, side, i)
                if not doc.typed(text, place, str).strip():
                    raise doc.error(place, 'an empty follow-up')
                if text in texts[:i]:
                    raise doc.error(place, f'{text!r} is there already')
    return dimensions


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
