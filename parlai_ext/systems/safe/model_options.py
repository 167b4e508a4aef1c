"""
What the options that come with a model (its `.opt`) may decide.

They may name agents of ParlAI and ours; to name any other would run the module that it
is in. No value may be the address of a server, nor name a file elsewhere than beside
the model and in ParlAI's data folder, whatever its key: the lines of a ranker's file
become its replies. All else is for the roster to say, or for a user who trusts it.
"""

import glob
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import parlai.core.opt

from parlai_ext.compat.agents import HUB_REPOSITORIES
from parlai_ext.core.errors import printable
from parlai_ext.isolation.names import (
    TASK_OPTIONS,
    Options,
    is_our_agent,
    is_our_task,
    is_server,
    nested_values,
)
from parlai_ext.systems.fetch.data_folder import data_folder
from parlai_ext.systems.safe.unpickle import Refused

ROSTER_OPTIONS = re.compile(r'hf_trust_code|remote_\w+|safety_\w+|model_name')
# repositories that ParlAI loads its own models from
PARLAI_REPOSITORIES = [
    name for by_size in HUB_REPOSITORIES.values() for name in by_size.values()
]
SCHEME_PORTS = {'http': 80, 'https': 443, 'ws': 80, 'wss': 443}
# a word without dot or slash is the name of a file in these options only
FILE_OPTIONS = re.compile(r'file|path|vec|vocab|merge|arch')
# options of a training, and those by which BART writes other weights, converted; an
# honest model has them, and they are forgotten
TRAINING_OPTIONS = re.compile(
    r'init_\w+|dict_initpath|output_conversion_path|report_filename|image_path'
    r'|\w*data(file|path)|toxic_data'
)

# what a model may cost; more is for the roster to ask
MOST = {
    **dict.fromkeys(('beam_size', 'n_docs', 'topk_candidates'), 1_000),
    **dict.fromkeys(('truncate', 'text_truncate', 'label_truncate'), 1_000_000),
    **dict.fromkeys(('beam_min_length', 'max_doc_token_length'), 1_000_000),
    'n_positions': 1_000_000,  # of which ParlAI makes a table in Python
}


def check_stored_options(path: str, opt: Options, roster_opt: Options) -> None:
    """
    Refuse a model's stored options if they would run code, ask a server or read files
    that a model must not name.

    :param path: the model file or its ``.opt``.
    :param opt: the options stored with the model.
    :param roster_opt: the roster's entry, which the user wrote: it may name them.
    :raises Refused: naming the agent or the option.
    """

    def refusal(key: str, what: str, value: str = '…') -> Refused:
        hint = f'if you mean it: `{key}: {value}` in the roster entry'
        return Refused(path, what, hint)

    for key, value in nested_values(opt):
        if key == 'model' and value and value != roster_opt.get('model'):
            if not is_our_agent(str(value)):
                hint = f'if you know it: `model: {value}` in the roster entry'
                what = f'it wants to run the agent {value} when read'
                raise Refused(path, what, hint)
        elif key in roster_opt:
            continue
        elif _is_for_the_roster(key, value):
            what = f'it wants to run with {key}, which a roster alone may set'
            raise refusal(key, what)
        elif key in MOST and _exceeds(value, MOST[key]):
            what = f'its own {key} is {value!r:.40}, more than {MOST[key]:,}'
            raise refusal(key, what)
    model = Path(path.removesuffix('.opt'))
    folders = _model_folders(path, roster_opt)
    cleaned = {*parlai.core.opt.__AUTOCLEAN_KEYS__, 'model_file', *TASK_OPTIONS}
    if Path(f'{model}.dict').is_file():
        cleaned.add('dict_file')  # see `options_for_talking`
    for key, value in nested_values({k: v for k, v in opt.items() if k not in cleaned}):
        if key not in roster_opt and _names_file_elsewhere(key, value, folders):
            value = printable(os.fsdecode(value))[:200]
            what = f'its own {key} is {value}, which is no file beside the model'
            raise refusal(key, what, value)


def check_files_beside(path: str, roster_opt: Options) -> None:
    """
    Refuse files beside a model (``model.dict``) that are links to files elsewhere, or
    pipes and devices.

    :param path: the model file or its ``.opt``.
    :raises Refused: naming the file.
    """
    model = Path(path.removesuffix('.opt'))
    folders = _model_folders(path, roster_opt)
    for file in model.parent.glob(f'{glob.escape(model.name)}.*'):
        beside = f'{os.path.realpath(model)}{file.name.removeprefix(model.name)}'
        shown = printable(str(file))
        if os.path.realpath(file) != beside and is_elsewhere(str(file), folders):
            what = f'{shown} is a link to a file that is not beside it'
            raise Refused(path, what, 'put a copy there', False)
        if file.exists() and not (file.is_file() or file.is_dir()):
            what = f'{shown} is a pipe or a device'
            raise Refused(path, what, 'put a file there', False)


def _is_for_the_roster(key: str, value: Any) -> bool:
    if ROSTER_OPTIONS.fullmatch(key):
        return bool(value) and value not in PARLAI_REPOSITORIES
    return not TRAINING_OPTIONS.fullmatch(key) and is_server(key, value)


def _exceeds(value: Any, most: int) -> bool:
    try:
        return float(value) > most
    except (TypeError, ValueError):  # no number: ParlAI says so
        return False
    except OverflowError:
        return True


def named_servers(roster_opt: Options) -> list[tuple[str, int | None]]:
    """
    Return the hosts and ports that a roster's entry names, under whatever key.
    """
    servers: list[tuple[str, int | None]] = []
    for key, value in nested_values(roster_opt):
        if is_server(key, value):
            url = urlsplit(value.strip() if '://' in value else f'//{value.strip()}')
            try:
                port = url.port or SCHEME_PORTS.get(url.scheme)
            except ValueError:  # no number: no server has that port
                continue
            if url.hostname:
                servers.append((url.hostname, port))
    return servers


def _names_file_elsewhere(key: str, value: Any, folders: list[Path]) -> bool:
    if TRAINING_OPTIONS.fullmatch(key) or not is_elsewhere(value, folders):
        return False
    text = os.fsdecode(value)
    is_path = ('/' in text or '.' in text) and not os.path.isdir(text)
    return is_path or FILE_OPTIONS.search(key) is not None


def options_for_talking(path: str, opt: Options, roster_opt: Options) -> dict[str, Any]:
    """
    Return options without those of the training.

    An honest model names the task that it was trained on, which a ranker would import;
    so tasks of other people's modules go. A dictionary elsewhere goes too: ParlAI then
    takes the model's own.
    """
    left = {k: v for k, v in opt.items() if not TRAINING_OPTIONS.fullmatch(str(k))}
    for key in TASK_OPTIONS:
        if key in left and not all(map(is_our_task, str(left[key]).split(','))):
            del left[key]
    folders = _model_folders(path, roster_opt)
    if 'dict_file' not in roster_opt and is_elsewhere(left.get('dict_file'), folders):
        del left['dict_file']
    return left


def _model_folders(path: str, roster_opt: Options) -> list[Path]:
    return [Path(path).parent, Path(data_folder(roster_opt.get('datapath')))]


def is_elsewhere(value: Any, folders: Iterable[Path]) -> bool:
    """
    True if a value names a file that exists, but in none of the folders, or a pipe or a
    device anywhere.

    Links are followed. Hidden files of a folder are elsewhere: the folder may be
    somebody's home.
    """
    if not isinstance(value, str | bytes) or not value:
        return False
    try:
        real = Path(os.path.realpath(os.fsdecode(value)))
        if not real.exists():
            real = Path(f'{real}.opt')
            if not real.exists():
                return False
        if not (real.is_file() or real.is_dir()):
            return True
    except (OSError, ValueError):  # too long, or a NUL: nothing opens that
        return False
    for folder in map(os.path.realpath, folders):
        inside = real.is_relative_to(folder) and real.relative_to(folder).parts
        if inside is not False and not any(part.startswith('.') for part in inside):
            return False
    return True
