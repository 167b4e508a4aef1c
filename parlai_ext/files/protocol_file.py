"""
Protocol files, one published method as one YAML file, and the rosters in them: the
systems that are evaluated and their partners, from YAML or a command line. Every key is
checked.

    name: bipartite_2022                # the file's name, when it is left out
    pairing: bipartite                  # a scheme of core/protocol.py
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

A roster, here or in a file of its own, has `targets:` and `partners:`; each entry is
the name of a shipped system, a mapping with the keys of `SystemEntry`, or a file with
such a mapping.

A relative path in a file (`model_file`, candidates, …) is taken from the file's own
folder when it exists there, and else from the working directory. Of a retriever,
``fixed_candidates_path: task:TASK`` asks for the replies of a ParlAI task.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import StrictBool

from parlai_ext import zoo_configs
from parlai_ext.core import (
    SCHEMES,
    SCORER_OVERRIDES,
    JsonDict,
    JsonObject,
    Protocol,
    ProtocolOptions,
    RankingOptions,
    Roster,
    System,
    UserError,
    frozen,
    given_options,
    known_values,
    nearest,
    options_of,
)
from parlai_ext.core.records import Record, WholeNumber
from parlai_ext.files.model_cards import (
    check_kind,
    is_model_name,
    model_card,
    model_names,
)
from parlai_ext.files.yaml_file import Document, Where, read_file, read_text

# options that may also be a folder, or how the names of several files begin
INDEX_OPTIONS = ('path_to_index', 'path_to_dense_embeddings')
# options that name a file
FILE_OPTIONS = (
    'model_file',
    'init_model',
    'dict_file',
    'fixed_candidates_path',
    'bpe_vocab',
    'bpe_merge',
    # what RAG and FiD look up
    *INDEX_OPTIONS,
    'path_to_dpr_passages',
    'dpr_model_file',
    'poly_faiss_model_file',
)
# options that name a folder, or a repository of the hub
FOLDER_OPTIONS = ('hf_model', 'model_name')
SYSTEM_FILES = ('.yaml', '.yml', '.json')
PREFIXED = re.compile(r'^[A-Za-z_]{2,}:')  # zoo:, models:, task:, internal:


class SystemInfo(Record):
    """
    What a roster says of a system, for readers, besides its name and options.

    :param params: its number of parameters.
    :param confidence: how sure it is that this is the system.
    :param guess: the options are a guess.
    :param family: what it is akin to: systems with one family count as siblings.
    :param alternatives: what else it may be.
    """

    params: WholeNumber | None = None
    notes: str | None = None
    confidence: str | None = None
    guess: StrictBool | None = None
    family: str | None = None
    alternatives: tuple[str, ...] = ()


class SystemEntry(SystemInfo):
    """
    One system as a roster file describes it: what tables call it, its ParlAI options.
    """

    name: str
    opt: dict[str, Any]


class RosterEntries(Record):
    """
    The keys of a roster file.
    """

    description: str | None = None
    targets: tuple[Any, ...] = ()
    partners: tuple[Any, ...] = ()


@frozen
class RosterFile:
    """
    A roster, and what its file says of each system besides its options.
    """

    roster: Roster
    info: Mapping[str, SystemInfo] = field(default_factory=dict)


def load_roster(roster: str | JsonObject) -> RosterFile:
    """
    Return a roster by shipped name, by path, or from an inline mapping.

    :raises UserError: names file, line and key of the first mistake.
    """
    if isinstance(roster, str):
        return read_roster(read_shipped('rosters', roster), ())
    return read_roster(Document(dict(roster), 'roster'), ())


def read_shipped(kind: str, name: str) -> Document:
    """
    Return the document in a file of this kind (`protocols`, `rosters`, …): one of ours
    by its name, or any by its path.
    """
    try:
        return read_file(zoo_configs.path(kind, name))
    except FileNotFoundError as e:
        raise UserError(str(e)) from None


def read_roster(doc: Document, where: Where) -> RosterFile:
    """
    Return the roster at the key path ``where`` of a document.
    """
    entries = doc.record(RosterEntries, where)
    systems: dict[str, list[System]] = {'targets': [], 'partners': []}
    info: dict[str, SystemInfo] = {}
    for side, members in systems.items():
        for i, entry in enumerate(getattr(entries, side)):
            here = (*where, side, i)
            system, more = read_system(doc, entry, here)
            if system.name in info:
                raise doc.error(here, f'{system.name!r} is in the roster already')
            info[system.name] = more
            members.append(system)
    return RosterFile(Roster(*map(tuple, systems.values())), info)


def read_system(doc: Document, entry: Any, where: Where) -> tuple[System, SystemInfo]:
    """
    Return the system of one entry: a mapping, the name of a shipped system (or a
    mapping of ``name`` and ``family``), or a file with a mapping.
    """
    if isinstance(entry, str) and entry.endswith(SYSTEM_FILES):
        path = resolve_path(doc, entry)
        if not Path(path).is_file():
            raise doc.error(where, f'there is no file {entry}')
        return read_system_file(path)
    if isinstance(entry, str):
        shipped = find_system(entry)
        if shipped is None:
            hint = nearest(entry, shipped_systems())
            raise doc.error(where, f'no shipped system {entry!r}; {hint}')
        return shipped
    if isinstance(entry, dict) and set(entry) == {'name', 'family'}:
        name, family = (
            doc.typed(entry[key], (*where, key), str) for key in ('name', 'family')
        )
        system, info = read_system(doc, name, where)
        return system, info.model_copy(update={'family': family})
    for key in ('model', 'model_file'):
        if isinstance(entry, dict) and key in entry:
            raise doc.error((*where, key), f'belongs under opt: (opt: {{{key}: …}})')
    options = doc.record(SystemEntry, where)
    name = checked_name(doc, options.name, (*where, 'name'))
    here = (*where, 'opt')
    if not options.opt.get('model_file') and not options.opt.get('model'):
        raise doc.error(here, "needs 'model_file' or 'model' (an agent)")
    return System(name, _model_options(doc, options.opt, here)), options


def read_system_file(path: str) -> tuple[System, SystemInfo]:
    """
    Return the system that a file describes; its paths are taken from its own folder.
    """
    doc = read_file(path)
    return read_system(doc, doc.typed(doc.data, (), dict), ())


def checked_name(doc: Document, name: str, where: Where) -> str:
    """
    Return a system's name if it can stand in a table, a CSV cell and a page.
    """
    if not name or name != name.strip() or not name.isprintable():
        raise doc.error(where, f'a name is one line of text, not {name!r}')
    return name


def _model_options(doc: Document, opt: JsonObject, where: Where) -> JsonObject:
    """
    Return ParlAI options with underscores and with paths resolved.
    """
    options: dict[str, Any] = {}
    for key, value in opt.items():
        name = key.replace('-', '_')
        if isinstance(value, float):
            doc.typed(value, (*where, key), float)
        if name in (*FILE_OPTIONS, *FOLDER_OPTIONS) and value is not None:
            value = resolve_path(doc, doc.typed(value, (*where, key), str))
        options[name] = value
    return options


def resolve_path(doc: Document, value: str) -> str:
    """
    Return a path, resolved from the document's folder if a file is there.
    """
    value = os.path.expanduser(value)
    if is_model_name(value) or PREFIXED.match(value) or Path(value).is_absolute():
        return value
    near = Path(doc.source).parent / value
    there = near.exists() or near.with_name(f'{near.name}.index').exists()
    return str(near.absolute()) if there else value


@cache
def shipped_systems() -> dict[str, tuple[System, SystemInfo]]:
    """
    Return every system of `zoo_configs/systems`, of the shipped rosters and of the
    catalogue of models, and its info, by name.
    """
    systems = [catalogue_system(name) for name in model_names('chat')]
    for path in sorted((zoo_configs.HOME / 'systems').glob('*.yaml')):
        systems.append(read_system_file(str(path)))
    for path in sorted((zoo_configs.HOME / 'rosters').glob('*.yaml')):
        doc = read_file(path)
        for side in ('targets', 'partners'):
            for i, entry in enumerate((doc.data or {}).get(side) or []):
                if isinstance(entry, dict) and 'opt' in entry:
                    systems.append(read_system(doc, entry, (side, i)))
    return {system.name: (system, info) for system, info in systems}


def find_system(name: str) -> tuple[System, SystemInfo] | None:
    """
    Return the shipped system called ``name`` and its info, or `None`.

    :raises UserError: as `catalogue_system` does.
    """
    if name not in shipped_systems() and is_model_name(name):
        return catalogue_system(name)
    return shipped_systems().get(name)


def catalogue_system(name: str) -> tuple[System, SystemInfo]:
    """
    Return a chat model of the catalogue as a system, and its info.

    :raises UserError: for a model of another kind.
    """
    check_kind(name, 'chat')
    card = model_card(name)
    info = SystemInfo(params=card.parameters, notes=card.title)
    return System(name, {'model': 'ext:hf', 'hf_model': name}), info


def parse_target(spec: str) -> tuple[System, SystemInfo]:
    """
    Return the system that ``--add-target`` describes, and its info.

    ``NAME=MODEL_FILE[,key=value…]``, ``NAME=FOLDER[,key=value…]`` (a Hugging Face
    model, with a ``config.json``), ``NAME=agent:MODULE[,key=value…]`` (an agent without
    a model file), ``NAME=ADDRESS[,key=value…]`` (a chat endpoint), a YAML or JSON file
    with `name` and `opt`, the name of a shipped system, or a model file or folder alone
    (its folder names it).

    :raises UserError: says which part is wrong.
    """
    if spec.endswith(SYSTEM_FILES) and '=' not in spec:
        return read_system_file(spec)
    head, *options = spec.split(',')
    name, sign, model = head.partition('=')
    if not sign:
        name, model = '', head
    if not options and not sign and not Path(model).exists():
        shipped = find_system(model)
        if shipped:
            return shipped
    doc = Document(None, f'--add-target {spec}')
    model = os.path.expanduser(model)
    agent = model.removeprefix('agent:')
    if not agent or (sign and not name):
        raise doc.error((), 'NAME=MODEL_FILE[,key=value…] is expected')
    given: dict[str, Any] = {}
    for text in options:
        key, sign_of_option, value = text.partition('=')
        if not sign_of_option or not key.strip():
            hint = '(values with commas: use a file)'
            raise doc.error((), f'key=value is expected, not {text!r} {hint}')
        data = read_text(value, doc.source).data if value else ''
        given[key.strip().replace('-', '_')] = data
    opt = _options_of(model, given)
    if not name:  # that of the file, or of its folder where it is called ``model``
        *folders, name = (part for part in re.split(r'[/\\:]', agent) if part)
        name = folders[-1] if name == 'model' and folders else name
    name = checked_name(doc, name, ())
    return System(name, {**opt, **given}), SystemInfo()


def _options_of(model: str, given: JsonObject) -> JsonObject:
    """
    Return the options by which ParlAI builds what the command line calls ``model``.
    """
    if model.startswith('agent:'):
        return {'model': model.removeprefix('agent:')}
    if model.startswith(('http://', 'https://')):
        return {'model': 'ext:remote', 'remote_url': model}
    if is_model_name(model):
        return dict(catalogue_system(model)[0].opt)
    if (Path(model) / 'config.json').is_file() and 'model' not in given:
        return {'model': 'ext:hf', 'hf_model': model}
    is_code = re.fullmatch(r'.*\.py|(?!zoo:)[\w.]+:[A-Z]\w*', model)
    if is_code and not Path(model).exists():
        raise UserError(f'{model} is no model file; an agent is agent:MODULE:CLASS')
    return {'model_file': model}


# --- protocols ------------------------------------------------------------------------

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
    ranking = _section(doc, 'ranking', data.get('ranking'), RankingOptions)
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
    where = 'openers_file'
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
    values = _section(doc, 'scorer', raw, cls)
    return cls, known_values({'name': name, **values})


def _section(doc: Document, name: str, raw: Any, cls: type) -> JsonDict:
    """
    Return the keys that are given in the section of this name, paths resolved.
    """
    given = doc.typed(raw or {}, name, dict)
    values = given_options(cls, given, doc.error_in((name,)))
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
