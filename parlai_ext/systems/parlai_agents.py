"""
From a system's name and options to a ParlAI agent that can talk.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from parlai.core.agents import create_agent
from parlai.core.opt import Opt
from parlai.core.params import ParlaiParser
from parlai.utils import logging as parlai_logging

from parlai_ext.compat.parlai_setup import prepare_parlai
from parlai_ext.core.errors import SystemFailed, UserError, nearest
from parlai_ext.core.nouns import System
from parlai_ext.systems.candidates import candidates_file, is_spec
from parlai_ext.systems.fetch.data_folder import is_zoo_path, local_path
from parlai_ext.systems.misfit import check_reader, why_unfit
from parlai_ext.systems.players import (
    Player,
    in_words,
    weights_key,
)
from parlai_ext.systems.rag import check_retrieval
from parlai_ext.systems.rankers import check_candidates, fresh_candidates
from parlai_ext.systems.remote.names import samples_remotely
from parlai_ext.systems.safe.load import BadModelFile, guarded, read_opt
from parlai_ext.systems.tokenizer_files import missing_urls
from parlai_ext.systems.torch_memory import is_out_of_memory
from parlai_ext.systems.zoo import ensure_checked_downloads, fetch_path

# never datatype=train, which builds an optimizer; batch size 1, since some agents
# (gpt2.py:276) refuse others, while `batch_act` takes as many clones as one likes
DEFAULTS = {'datatype': 'valid', 'interactive_mode': True}
SAMPLING = (
    *('topk', 'nucleus', 'factual_nucleus', 'delayedbeam', 'delayednucleusbeam'),
    'sample',  # of ext:hf
)


def load_system(
    system: System,
    *,
    datapath: str | None = None,
    no_cuda: bool = False,
    fp16: bool | None = None,
) -> Player:
    """
    Build the system's agent; its options win over those in the model's own `.opt`.

    :raises UserError: naming the system and the option, when it cannot be built.
    """
    prepare_parlai()
    with _data_only(system, datapath):
        try:
            return _built(system, datapath, no_cuda, fp16)
        except BadModelFile:
            raise
        except UserError as error:
            raise SystemFailed(system.name, str(error)) from error.__cause__


def _built(
    system: System, datapath: str | None, no_cuda: bool, fp16: bool | None
) -> Player:
    given = _given(system, datapath)
    opt = parsed_options(system, given)
    whole = {**opt, **effective_opt(system, datapath)}
    check_candidates({**whole, **given}, _bad(system))
    check_retrieval(whole, _bad(system), datapath)
    for key, value in _ours(opt, given, no_cuda, fp16).items():
        opt[key] = opt['override'][key] = value
    try:
        with ensure_checked_downloads(datapath), fresh_candidates(), _few_words():
            agent = create_agent(opt, requireModelExists='model_file' in given)
    except UserError as error:
        if any(url in str(error) for url in missing_urls(whole, datapath)):
            raise _bad(system)('dict_tokenizer', str(error)) from error
        raise
    except (Exception, SystemExit) as error:
        what = why_unfit(error, opt) or f'it cannot be built: {in_words(error)}'
        if is_out_of_memory(error):
            what = f'{weights_key(given)}: out of memory while it was loaded; it needs '
            what += f'a larger machine ({in_words(error)})'
        raise SystemFailed(system.name, what) from error
    return Player(system.name, agent)


def check_options(system: System, datapath: str | None = None) -> None:
    """
    Read the system's options as `load_system` does, without loading it.

    :raises UserError: naming the system and the option that cannot be meant.
    """
    prepare_parlai()
    with _data_only(system, datapath):
        parsed_options(system, _given(system, datapath))


def samples(system: System, datapath: str | None = None) -> bool:
    """
    Tell whether the system draws its replies at random.

    Reads the model's own `.opt` where it is on disk; downloads nothing.
    """
    if samples_remotely(system.opt):
        return True
    return effective_opt(system, datapath).get('inference') in SAMPLING


def effective_opt(system: System, datapath: str | None = None) -> dict[str, Any]:
    """
    Return the model's own options, as far as they are on disk, with the system's over
    them.
    """
    given = {k: v for k, v in system.opt.items() if v is not None}
    path = model_path(system, datapath)
    if path is None or not Path(f'{path}.opt').is_file():
        return given
    with _data_only(system, datapath):
        return {**read_opt(f'{path}.opt'), **given}


def model_path(system: System, datapath: str | None = None) -> Path | None:
    """
    Return where the system's model file is, or would be after a download.
    """
    path = str(system.opt.get('model_file') or '')
    return local_path(path, datapath) if path else None


def _given(system: System, datapath: str | None) -> dict[str, Any]:
    """
    Return the options that build the system, its model file found or downloaded.
    """
    given = {k: v for k, v in system.opt.items() if v is not None}
    if str(given.get('datatype', '')).startswith('train'):
        raise _bad(system)('datatype', 'train builds an optimizer; leave it out')
    if 'model_file' in given:
        given['model_file'] = _found(system, str(given['model_file']), datapath)
    elif 'model' not in given:
        raise _bad(system)('model_file', 'not given, and no model either')
    check_reader(effective_opt(system, datapath))
    if isinstance(given.get('stop'), list):  # which ParlAI would join with commas
        given['stop'] = json.dumps(given['stop'], ensure_ascii=False)
    candidates = given.get('fixed_candidates_path')
    if is_spec(candidates):
        try:
            found = candidates_file(str(candidates), datapath)
        except UserError as error:
            raise _bad(system)('fixed_candidates_path', str(error)) from error
        given['fixed_candidates_path'] = str(found)
    if datapath is not None:
        given.setdefault('datapath', datapath)
    return given


def _ours(
    opt: Opt, given: Mapping[str, Any], no_cuda: bool, fp16: bool | None
) -> dict[str, Any]:
    """
    Return the options that every system gets, whatever its own `.opt` says.
    """
    found = {key: given.get(key, value) for key, value in DEFAULTS.items()}
    found['batchsize'] = 1
    if no_cuda and 'no_cuda' in opt:
        found['no_cuda'] = True
    if fp16 is not None and 'fp16' in opt and 'fp16' not in given:
        found['fp16'] = fp16
    if 'fixed_candidate_vecs' in opt:
        found['fixed_candidate_vecs'] = 'replace'
    return found


def _found(system: System, path: str, datapath: str | None) -> str:
    """
    Return the model file's path on this machine.
    """
    try:
        with _few_words():
            found = fetch_path(path, datapath)
    except UserError as error:
        raise _bad(system)('model_file', str(error)) from error
    if not found.is_file():
        where = f' ({path})' if is_zoo_path(path) else ''
        raise _bad(system)('model_file', f'there is no file {found}{where}')
    return str(found)


def parsed_options(system: System, given: Mapping[str, Any]) -> Opt:
    """
    Return the options as `parlai` reads them, types checked, ``override`` filled.
    """
    parser = ParlaiParser(True, True)
    bad = _bad(system)
    try:
        with _few_words():
            return parser.parse_kwargs(**given)
    except (ImportError, AttributeError) as error:
        name = effective_opt(system, given.get('datapath')).get('model')
        raise bad('model', f'no agent {name!r}: {in_words(error)}') from error
    except KeyError as error:
        options = (o for action in parser._actions for o in action.option_strings)
        known = {o.lstrip('-').replace('-', '_') for o in options}
        unknown = [key for key in given if key not in known]
        if not unknown:
            raise UserError(f'system {system.name!r}: {in_words(error)}') from error
        raise bad(unknown[0], f'unknown; {nearest(unknown[0], known)}') from error
    except (ValueError, TypeError) as error:
        # "argument --beam-size: invalid int value: 'x'"
        spelled, _, what = str(error).removeprefix('argument ').partition(': ')
        if not what:
            raise UserError(f'system {system.name!r}: {in_words(error)}') from error
        key = spelled.split('/')[-1].lstrip('-').replace('-', '_')
        raise bad(key, what) from error
    except UserError:
        raise
    except (Exception, SystemExit) as error:  # of an agent's own `add_cmdline_args`
        raise bad('model', f'its options cannot be read: {in_words(error)}') from error


@contextmanager
def _data_only(system: System, datapath: str | None) -> Iterator[None]:
    """
    Let the system's files be read as data; say whose file is more, or damaged.
    """
    place = {} if datapath is None else {'datapath': datapath}
    try:
        with guarded(given={**place, **system.opt}):
            yield
    except BadModelFile as error:
        raise SystemFailed(system.name, error.as_option) from error


def _bad(system: System) -> Any:
    """
    Return a maker of errors about one option of this system.
    """

    def bad(key: str, what: str) -> UserError:
        return UserError(f'system {system.name!r}: {key}: {what}')

    return bad


@contextmanager
def _few_words() -> Iterator[None]:
    """
    Keep ParlAI from reporting every option that it overrides.
    """
    handler = parlai_logging.logger.streamHandler
    level = handler.level
    handler.setLevel(parlai_logging.ERROR)
    try:
        yield
    finally:
        handler.setLevel(level)
