"""
Protocol files: one published method as one YAML file, every key checked.

    name: bipartite_2022                # the file's name, when it is left out
    pairing: bipartite                  # one of parlai_ext/core/pairings.py
    openers: ext:empathetic_openers     # a ParlAI task, or say:TEXT, one utterance
    num_dialogues: 600                  # of each pairing
    num_turns: 12                       # utterances of a dialogue, given ones included
    score: target                       # whose utterances are judged: target or both
    seed: 0
    scorer: {name: fed, judge_model_file: zoo:blender/blender_9B/model}
    ranking: {bootstraps: 2000, max_failed_share: 0.05, partners: sampled}
    # or by a tournament: {rule: tournament, rating: openskill, shuffles: 3}
    roster: bipartite_2022              # a name, a path, or targets: and partners:
    reference: {kind: human, Overall: {some-system: 4.2}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError, nearest
from parlai_ext.core.nouns import Protocol
from parlai_ext.core.pairings import SCHEMES
from parlai_ext.files.roster_file import (
    RosterFile,
    beside,
    load_roster,
    read_roster,
    read_shipped,
)
from parlai_ext.files.yaml_file import Document, Key

SIMPLE: dict[str, type] = {
    'name': str,
    'pairing': str,
    'openers': str,
    'num_dialogues': int,
    'num_turns': int,
    'score': str,
    'seed': int,
}
KEYS = (*SIMPLE, 'description', 'scorer', 'ranking', 'roster', 'reference')
CHOICES = {
    'pairing': tuple(SCHEMES),
    'score': ('target', 'both'),
    'partners': ('sampled', 'fixed'),
    'rule': ('mean', 'tournament'),
    'rating': (
        *('openskill', 'trueskill', 'bradley_terry'),
        *('3-1-0', '2-1-0', 'sum_of_ranks'),
    ),
}
SHARES = ('max_failed_share', 'max_truncated_share')
LEAST = {'num_dialogues': 1, 'num_turns': 3, 'bootstraps': 1, 'shuffles': 1}
SCORER: dict[str, type] = {
    'name': str,
    'judge_model_file': str,
    'followups': str,
    'variant': str,
    'scope': str,
    'polarity': str,
    'token_reduction': str,
    'followup_reduction': str,
    'reading': str,
    'entities': str,
    'concepts': str,
    'repetition': float,
    'contradiction': float,
    'recall_distance': int,
    'concept_share': float,
    'perplexity_cap': float,
    'perplexity_unit': str,
    'distinct_unit': str,
    'first_judged': int,
}
RANKING: dict[str, type] = {
    'bootstraps': int,
    'max_failed_share': float,
    'max_truncated_share': float,
    'partners': str,
    'rule': str,
    'rating': str,
    'shuffles': int,
}
# an option of the command line -> the key that it replaces
OVERRIDES: dict[str, tuple[str, ...]] = {
    **{key: (key,) for key in (*SIMPLE, 'roster')},
    'judge_model_file': ('scorer', 'judge_model_file'),
    'rule': ('ranking', 'rule'),
    'rating': ('ranking', 'rating'),
    'shuffles': ('ranking', 'shuffles'),
    'followups': ('scorer', 'followups'),
    'bootstraps': ('ranking', 'bootstraps'),
    'max_failed_share': ('ranking', 'max_failed_share'),
    'max_truncated_share': ('ranking', 'max_truncated_share'),
}


def load_protocol(
    name_or_path: str, overrides: Mapping[str, Any] | None = None
) -> Protocol:
    """
    Return a protocol by shipped name or by path.

    :param overrides: options by name, with underscores; `None` means not given.
    :raises UserError: for anything in it that cannot be meant.
    """
    return load_protocol_and_info(name_or_path, overrides)[0]


def load_protocol_and_info(
    name_or_path: str, overrides: Mapping[str, Any] | None = None
) -> tuple[Protocol, Mapping[str, Mapping[str, Any]]]:
    """
    Return a protocol, and what its roster tells of each system beside its options.
    """
    doc = read_shipped('protocols', name_or_path)
    given = {k: v for k, v in (overrides or {}).items() if v is not None}
    data = doc.mapping(doc.data or {}, (), KEYS, 'a protocol')
    found = _simple(doc, data)
    found.setdefault('name', Path(doc.source).stem)
    if data.get('description') is not None:
        doc.typed(data['description'], ('description',), str)
    found['scorer'] = _section(doc, data, 'scorer', SCORER)
    found['ranking'] = _section(doc, data, 'ranking', RANKING)
    _apply(found, given)
    _check_rule(doc, found)
    roster = _roster(doc, data, given.get('roster'), found.get('pairing'))
    kind, reference = _reference(doc, data.get('reference'), roster, 'roster' in given)
    protocol = Protocol(
        **found, roster=roster.roster, reference=reference, reference_kind=kind
    )
    return protocol, roster.info


def _simple(doc: Document, data: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the keys that hold one plain value.
    """
    return {
        key: _checked(doc, (key,), data[key], kind)
        for key, kind in SIMPLE.items()
        if data.get(key) is not None
    }


def _section(
    doc: Document, data: Mapping[str, Any], name: str, kinds: Mapping[str, type]
) -> dict[str, Any]:
    """
    Return a mapping of plain values such as ``scorer:``, paths resolved.
    """
    raw = data.get(name)
    section = doc.mapping({} if raw is None else raw, (name,), kinds, f'{name}:')
    found = {
        key: _checked(doc, (name, key), value, kinds[key])
        for key, value in section.items()
        if value is not None
    }
    for key in {'judge_model_file', 'followups', 'concepts'} & set(found):
        found[key] = beside(doc, found[key])
    return found


def _checked(doc: Document, where: tuple[Key, ...], value: Any, kind: type) -> Any:
    """
    Return a value of the right type, among the choices, and large enough.
    """
    key = str(where[-1])
    value = doc.typed(value, where, kind)
    if key in CHOICES and value not in CHOICES[key]:
        choices = ', '.join(CHOICES[key])
        raise doc.error(where, f'{value!r} is none of {choices}')
    if key in LEAST and value < LEAST[key]:
        raise doc.error(where, f'at least {LEAST[key]} is expected, not {value}')
    if key in SHARES and not 0 <= value <= 1:
        raise doc.error(where, f'a share between 0 and 1 is expected, not {value}')
    return value


def _apply(found: dict[str, Any], given: Mapping[str, Any]) -> None:
    """
    Put the command line's values in the place of the file's.
    """
    for option, value in given.items():
        if option not in OVERRIDES:
            raise UserError(f'no protocol key {option!r}; {nearest(option, OVERRIDES)}')
        *outer, key = OVERRIDES[option]
        if key == 'roster':
            continue
        kinds = {'scorer': SCORER, 'ranking': RANKING}[outer[0]] if outer else SIMPLE
        doc = Document(None, '--' + option.replace('_', '-'))
        place = found[outer[0]] if outer else found
        place[key] = _checked(doc, (key,), value, kinds[key])


def _check_rule(doc: Document, found: Mapping[str, Any]) -> None:
    """
    Refuse a tournament in which nobody would have an opponent to be compared with.
    """
    ranking = found['ranking']
    if ranking.get('rule') != 'tournament' or ranking.get('rating') == 'sum_of_ranks':
        return
    swapping = [name for name, scheme in SCHEMES.items() if scheme.swaps_roles]
    for key, known in (('pairing', swapping), ('score', ['both'])):
        if found.get(key) not in known:
            needed = ' or '.join(known)
            raise doc.error(
                ('ranking', 'rule'),
                f'a tournament needs {key}: {needed} (or rating: sum_of_ranks, which '
                'needs no opponents)',
            )


def _roster(
    doc: Document, data: Mapping[str, Any], given: Any, pairing: str | None
) -> RosterFile:
    """
    Return the roster, without partners where the pairing scheme has none.
    """
    raw = data.get('roster')
    if given is not None:
        found = load_roster(given)
    elif raw is None:
        raise doc.error((), "a protocol needs the key 'roster' (or --roster)")
    elif isinstance(raw, str):
        found = _named_roster(doc, raw)
    else:
        found = read_roster(doc, ('roster',))
    name = pairing or Protocol('').pairing
    if not SCHEMES[name].has_partners:
        return replace(found, roster=replace(found.roster, partners=()))
    if not found.roster.partners:
        raise doc.error(('roster',), f'{name} pairing needs partners: it has none')
    return found


def _named_roster(doc: Document, name: str) -> RosterFile:
    """
    Return the roster that a protocol file names; its mistakes name its own lines.
    """
    is_path = '/' in name or name.endswith(('.yaml', '.yml'))
    try:
        return load_roster(beside(doc, name) if is_path else name)
    except UserError as e:
        if str(e).startswith('no roster'):
            raise doc.error(('roster',), str(e)) from None
        raise


def _reference(
    doc: Document, raw: Any, roster: RosterFile, replaced: bool
) -> tuple[str | None, dict[str, dict[str, float]]]:
    """
    Return kind and values of the reference.

    :param replaced: the roster is not the file's own, so it may lack systems.
    """
    if raw is None:
        return None, {}
    where: tuple[Key, ...] = ('reference',)
    reference = dict(doc.typed(raw, where, dict))
    kind = reference.pop('kind', None)
    if kind not in ('human', 'planted'):
        raise doc.error(where, "needs 'kind: human' or 'kind: planted'")
    names = {s.name for s in roster.roster.targets}
    found: dict[str, dict[str, float]] = {}
    for dimension, values in reference.items():
        here = (*where, dimension)
        values = doc.typed(values, here, dict)
        for name in values:
            if name not in names and not replaced:
                hint = nearest(name, names)
                raise doc.error((*here, name), f'no target of that name; {hint}')
        found[dimension] = {
            n: doc.typed(v, (*here, n), float) for n, v in values.items() if n in names
        }
    return kind, found
