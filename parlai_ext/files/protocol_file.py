"""
Protocol files: one published method as one YAML file, every key checked.

    name: bipartite_2022                # the file's name, when it is left out
    pairing: bipartite                  # a scheme of worlds/pairings.py
    openers: ext:empathetic_openers     # a ParlAI task, or say:TEXT, one utterance
    openers_file: mine.csv              # or such a file, beside this one
    num_dialogues: 600                  # of each pairing
    num_turns: 12                       # utterances of a dialogue, given ones included
    score: target                       # whose utterances are judged: target or both
    seed: 0
    scorer: {name: fed, judge_model_file: zoo:blender/blender_9B/model}
    ranking: {bootstraps: 2000, max_failed_share: 0.05, partners: sampled}
    # or by a tournament: {rule: tournament, rating: openskill, shuffles: 3}
    roster: bipartite_2022              # a name, a path, or targets: and partners:
    reference: {kind: human, Overall: {some-system: 4.2}}

The plain keys and those of ``ranking:`` are declared in `core/protocol.py`, those of
``scorer:`` by each scorer.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from parlai_ext.core import (
    JsonDict,
    JsonObject,
    UserError,
    frozen,
    given_options,
    known_values,
    nearest,
    options_of,
)
from parlai_ext.core.protocol import (
    SCORER_OVERRIDES,
    Protocol,
    ProtocolOptions,
    RankingOptions,
)
from parlai_ext.files.roster_file import (
    RosterFile,
    SystemInfo,
    load_roster,
    read_roster,
    read_shipped,
    resolve_path,
)
from parlai_ext.files.yaml_file import Document
from parlai_ext.worlds.pairings import SCHEMES

SECTIONS = ('description', 'openers_file', 'scorer', 'ranking', 'roster', 'reference')


# returns the options class of the scorer that a section names
ScorerOptions = Callable[[str | None], type]


@frozen
class ProtocolFile:
    """
    A protocol, what its roster says of each system besides its options, and the file of
    its openers. That is no part of the protocol: runs are told apart by what it holds.
    """

    protocol: Protocol
    info: Mapping[str, SystemInfo]
    openers_file: str | None = None


def read_protocol_file(
    name_or_path: str,
    overrides: JsonObject | None,
    scorer_options: ScorerOptions,
) -> ProtocolFile:
    """
    Return the protocol in a file, by shipped name or by path.

    :param overrides: options of the command line, which replace keys of the file;
        `None` means not given.
    :param scorer_options: returns the options class of a scorer by its name
        (`scoring.registry.load_protocol_file`).
    :raises UserError: names file, line and key of the first mistake.
    """
    doc = read_shipped('protocols', name_or_path)
    given: JsonDict = known_values(overrides or {})
    own_roster = given.pop('roster', None)
    data = doc.typed(doc.data or {}, (), dict)
    values: dict[str, Any] = given_options(
        ProtocolOptions, data, doc.error_in(()), SECTIONS
    )
    values.setdefault('name', Path(doc.source).stem)
    doc.typed(data.get('description') or '', 'description', str)
    scorer_class, scorer = _scorer(doc, data, scorer_options)
    ranking = _section(doc, 'ranking', data, RankingOptions)
    _override(values, ranking, scorer, given, scorer_class)
    _check_tournament(doc, values, ranking)
    pairing = values.get('pairing', Protocol.pairing)
    roster = _roster(doc, data.get('roster'), own_roster, pairing)
    replaced = own_roster is not None
    kind, reference = _reference(doc, data.get('reference'), roster, replaced)
    protocol = Protocol(
        **values,
        scorer=scorer,
        ranking=ranking,
        roster=roster.roster,
        reference=reference,
        reference_kind=kind,
    )
    openers_file = None if 'openers' in given else _openers_file(doc, data, protocol)
    return ProtocolFile(protocol, roster.info, openers_file)


def _openers_file(doc: Document, data: JsonObject, protocol: Protocol) -> str | None:
    """
    Return the path of the file in ``openers_file:``, if there is one.
    """
    value = data.get('openers_file')
    if value is None:
        return None
    where = ('openers_file',)
    path = resolve_path(doc, doc.typed(value, where, str))
    if protocol.openers != Protocol.openers:
        problem = f'it is read in place of openers: {Protocol.openers}'
        raise doc.error(where, f'{problem}, not of {protocol.openers}; leave one out')
    if not Path(path).is_file():
        raise doc.error(where, f'there is no file {value}')
    return path


def _scorer(
    doc: Document, data: JsonObject, scorer_options: ScorerOptions
) -> tuple[type, JsonDict]:
    """
    Return the options class of the scorer, and the keys given in ``scorer:``. A scorer
    in a file may lie beside the document.
    """
    raw = dict(doc.typed(data.get('scorer') or {}, 'scorer', dict))
    name = raw.pop('name', None)
    if name is not None:
        source, colon, attribute = doc.typed(name, ('scorer', 'name'), str).rpartition(
            ':'
        )
        if source.endswith('.py'):
            name = f'{resolve_path(doc, source)}{colon}{attribute}'
    try:
        cls = scorer_options(name)
    except UserError as error:
        raise doc.error(('scorer', 'name'), str(error)) from None
    values = _section(doc, 'scorer', {'scorer': raw}, cls)
    return cls, known_values({'name': name, **values})


def _section(doc: Document, section: str, data: JsonObject, cls: type) -> JsonDict:
    """
    Return the keys that are given in a section, paths resolved.
    """
    raw = doc.typed(data.get(section) or {}, (section,), dict)
    values = given_options(cls, raw, doc.error_in((section,)))
    paths = {key for key, option in options_of(cls).items() if option.path}
    return values | {
        key: resolve_path(doc, value)
        for key, value in values.items()
        if key in paths and isinstance(value, str)
    }


def _override(
    protocol_values: JsonDict,
    ranking: JsonDict,
    scorer: JsonDict,
    overrides: JsonObject,
    scorer_class: type,
) -> None:
    """
    Replace values of a protocol file by those of the command line, in place.

    :param protocol_values: the file's plain keys.
    :param ranking: the keys of its ``ranking:`` section.
    :param scorer: the keys of its ``scorer:`` section.
    :param overrides: value by option name, without those that are not given.
    :param scorer_class: the options class of the scorer.
    :raises UserError: for a wrong value.
    """
    places = dict.fromkeys(SCORER_OVERRIDES, (scorer_class, scorer))
    for kind, keys in ((RankingOptions, ranking), (ProtocolOptions, protocol_values)):
        places |= dict.fromkeys(options_of(kind), (kind, keys))

    def error(key: str, problem: str) -> UserError:
        return UserError(f'--{key.replace("_", "-")}: {problem}')

    for name, value in overrides.items():
        cls, section = places[name]
        section.update(given_options(cls, {name: value}, error=error))


def _check_tournament(doc: Document, values: JsonObject, ranking: JsonObject) -> None:
    """
    Refuse a tournament in which no system would have an opponent to compare it with.
    """
    if ranking.get('rule') != 'tournament' or ranking.get('rating') == 'sum_of_ranks':
        return
    swapping = [name for name, scheme in SCHEMES.items() if scheme.swaps_roles]
    for key, allowed in (('pairing', swapping), ('score', ['both'])):
        if values.get(key) not in allowed:
            needed = ' or '.join(allowed)
            raise doc.error(
                ('ranking', 'rule'),
                f'a tournament needs {key}: {needed} (or rating: sum_of_ranks, which '
                'needs no opponents)',
            )


def _roster(doc: Document, from_file: Any, given: Any, pairing: str) -> RosterFile:
    """
    Return the roster, without partners where the pairing scheme has none.

    :param from_file: the file's ``roster:``.
    :param given: the roster that replaces it.
    """
    if given is not None:
        file = load_roster(given)
    elif from_file is None:
        raise doc.error((), "a protocol needs the key 'roster' (or --roster)")
    elif isinstance(from_file, str):
        is_path = '/' in from_file or from_file.endswith(('.yaml', '.yml'))
        try:
            file = load_roster(resolve_path(doc, from_file) if is_path else from_file)
        except UserError as e:  # its mistakes name its own lines
            if str(e).startswith('no roster'):
                raise doc.error('roster', str(e)) from None
            raise
    else:
        file = read_roster(doc, ('roster',))
    if not SCHEMES[pairing].has_partners:
        return replace(file, roster=replace(file.roster, partners=()))
    if not file.roster.partners:
        problem = f'{pairing} pairing needs partners: it has none'
        if given is not None:
            raise UserError(f'--roster {given}: {problem}')
        raise doc.error('roster', problem)
    return file


def _reference(
    doc: Document, raw: Any, roster: RosterFile, replaced: bool
) -> tuple[str | None, dict[str, dict[str, float]]]:
    """
    Return the kind of the reference and its values by dimension and system.

    :param replaced: the roster is not the file's own, so it may lack systems.
    """
    if raw is None:
        return None, {}
    dimensions = dict(doc.typed(raw, 'reference', dict))
    kind = dimensions.pop('kind', None)
    if kind not in ('human', 'planted'):
        raise doc.error('reference', "needs 'kind: human' or 'kind: planted'")
    targets = {system.name for system in roster.roster.targets}
    reference: dict[str, dict[str, float]] = {}
    for dimension, raw_values in dimensions.items():
        here = ('reference', dimension)
        reference[dimension] = {}
        for name, raw_value in doc.typed(raw_values, here, dict).items():
            value = doc.typed(raw_value, (*here, name), float)
            if name in targets:
                reference[dimension][name] = value
            elif not replaced:
                hint = nearest(name, targets)
                raise doc.error((*here, name), f'no target of that name; {hint}')
    return kind, reference
