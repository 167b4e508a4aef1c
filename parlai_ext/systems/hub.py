"""
Repositories of the Hugging Face hub, models of the catalogue, and folders in the hub's
format: where their files are, and that these are plain files that lie in it. (The text
of a file that a folder leads to would become words of the model's tokenizer, and so
replies.)
"""

import json
import os
from fnmatch import fnmatch
from pathlib import Path

from parlai_ext.compat.faults import is_reachable
from parlai_ext.core import (
    DATA_ERRORS,
    YES,
    JsonObject,
    UserError,
    content_id,
    first_line,
    frozen,
    nearest,
    option,
    optional,
    parse_json,
    read_truth,
)
from parlai_ext.files import is_model_name, is_special, model_names, no_path, sha256
from parlai_ext.isolation.policy import nested_values

AGENT = 'ext:hf'
# the first that is there holds the weights; an index names the files that do
WEIGHTS = (
    'model.safetensors',
    'model.safetensors.index.json',
    'pytorch_model.bin',
    'pytorch_model.bin.index.json',
)
# other files that change a reply
COMPANIONS = (
    'config.json',
    'generation_config.json',
    'adapter_*',
    'chat_template*',
    'tokenizer*',
    'special_tokens_map.json',
    'added_tokens.json',
    'vocab*',
    'merges.txt',
    '*.model',
    '*.spm',
    '*.tiktoken',
    'additional_chat_templates/*',
)


@frozen
class ModelOptions:
    """
    The options that say which model of Hugging Face's it is, and where it computes.
    """

    title = 'Hugging Face'
    prefix = 'hf'
    model: str | None = optional(help='a folder, or a hub repository')
    revision: str | None = optional(help='branch, tag or commit')
    dtype: str = option(
        'auto',
        choices=('auto', 'float32', 'bfloat16', 'float16', 'float64'),
        help="auto = the model's own",
    )
    device: str | None = optional(help='cpu, cuda, cuda:1, …')
    no_cuda: bool = option(
        False, read=read_truth, flag='--no-cuda', help='compute on the CPU'
    )
    device_map: str | None = optional(
        help='auto = over all GPUs, for a model larger than one (needs accelerate)'
    )
    quantisation: str = option(
        'none',
        choices=('none', '8bit', '4bit'),
        help='weights in 8 or 4 bits (needs a GPU, bitsandbytes and accelerate)',
    )
    trust_code: bool = option(
        False, read=read_truth, help='run the code that comes with the model'
    )


def checked_repository(value: object) -> str:
    """
    Return the name of a folder, a repository or a model of the catalogue as it is.

    :raises UserError: when it can be none of them.
    """
    name = str(value or '').strip()
    if not name:
        raise UserError('hf_model: not given; a folder or a hub repository is expected')
    if is_model_name(name):
        return name
    if problem := no_path(name):
        raise UserError(f'hf_model: {problem}')
    if os.path.isfile(name):
        raise UserError(f'hf_model: {name} is a file; its folder is expected')
    if not os.path.isdir(name) and (name[0] in './~\\' or name.count('/') > 1):
        raise UserError(f'hf_model: there is no folder {name}')
    return name


def model_files(weights: Path, more: tuple[str, ...] = ()) -> list[Path]:
    """
    Return the files of the weights, and those beside them that change a reply.

    :param more: patterns of the names of further ones.
    """
    names = (*COMPANIONS, *more)
    beside = {path for name in names for path in weights.parent.glob(name)}
    return [*weight_files(weights), *sorted(p for p in beside if p.is_file())]


def files_hash(folder: Path) -> str:
    """
    Return a hash of the files of a model that change its numbers; where they lie is no
    part of it.
    """
    weights = cached_weights(str(folder))
    files = model_files(weights) if weights else []
    return content_id([(path.name, sha256(path)) for path in files])


def cached_weights(repo: str, revision: str | None = None) -> Path | None:
    """
    Return the weights of a repository, when they are in the hub's cache (or the
    repository is a folder, or a model of the catalogue that is in ``datapath``); of
    weights in several files, their index.
    """
    folder: Path | None = Path(repo)
    if is_model_name(repo):
        from parlai_ext.systems.catalogue.fetch_model import is_fetched, model_folder

        if revision:
            raise UserError(f'hf_revision: the catalogue fixes the revision of {repo}')
        folder = model_folder(repo).absolute() if is_fetched(repo) else None
    elif not Path(repo).is_dir():
        folder = cached_snapshot(repo, revision)
    if folder is None:
        return None
    check_model_folder(folder)
    for path in (folder / name for name in WEIGHTS):
        if path.is_file() and all(file.is_file() for file in weight_files(path)):
            return path
    return None


def cached_snapshot(repo: str, revision: str | None) -> Path | None:
    """
    Return the folder of a repository's weights in the hub's cache, if they are there.
    """
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        places = [try_to_load_from_cache(repo, n, revision=revision) for n in WEIGHTS]
    except HFValidationError:
        raise UserError(f'{repo!r} is neither a folder nor a hub repository') from None
    return next((Path(one).parent for one in places if isinstance(one, str)), None)


def weight_files(weights: Path) -> list[Path]:
    """
    Return the files that hold the weights: those that an index names, and the index.

    :raises UserError: for an index that cannot be read, or names a file elsewhere.
    """
    if weights.suffix != '.json':
        return [weights]
    try:
        named = parse_json(weights.read_bytes())['weight_map'].values()
        files = [weights.parent / name for name in sorted(set(named))]
    except DATA_ERRORS as e:
        raise UserError(f'hf_model: {weights} is no index of weights: {e}') from None
    for file in files:
        check_file_of_folder(file, weights.parent)
    return [weights, *files]


def fetch_weights(repo: str, revision: str | None = None) -> Path:
    """
    Return the weights of a repository or of a model of the catalogue, from this
    machine or the network.

    :raises UserError: when they cannot be had.
    """
    weights = cached_weights(repo, revision)
    if weights is not None:
        return weights
    if is_model_name(repo):
        from parlai_ext.systems.catalogue.fetch_model import fetch_model

        fetch_model(repo)
    elif Path(repo).is_dir():
        raise UserError(f'{repo} has no weights: none of {", ".join(WEIGHTS)}')
    else:
        download_snapshot(repo, revision)
    weights = cached_weights(repo, revision)
    if weights is None:
        raise unusable_repository(repo, 'it has no weights that torch reads')
    return weights


def download_snapshot(repo: str, revision: str | None) -> None:
    """
    Download a repository's weights to the hub's cache.

    :raises UserError: when they cannot be had.
    """
    from huggingface_hub import HfApi, constants, snapshot_download

    if constants.HF_HUB_OFFLINE:
        raise unusable_repository(repo, 'HF_HUB_OFFLINE forbids the network')
    # the hub's own client goes on trying for half a minute
    if not is_reachable():
        raise unusable_repository(repo, 'the network cannot be reached')
    try:
        wanted = needed_files(HfApi().list_repo_files(repo, revision=revision))
        snapshot_download(repo, revision=revision, allow_patterns=wanted)
    except Exception as error:  # its own, and those of the HTTP library of the day
        raise unusable_repository(repo, first_line(error)) from None


def unusable_repository(repo: str, problem: str) -> UserError:
    """
    Return the error about a repository without weights that we can load. A name without
    owner is more likely that of a folder, which the caller has not found.
    """
    if '/' not in repo:
        near = nearest(repo, model_names())
        hint = f'; {near}' if near.startswith('did') else ''
        problem += f'; there is no folder {repo} either{hint}'
    return UserError(f'https://huggingface.co/{repo} cannot be downloaded: {problem}')


def needed_files(listed: list[str]) -> list[str]:
    """
    Return, of a repository's files, one format of the weights and their companions.
    """

    def matching(*patterns: str) -> list[str]:
        return [
            name
            for pattern in patterns
            for name in listed
            if name.count('/') == pattern.count('/') and fnmatch(name, pattern)
        ]

    weights = matching('model*.safetensors') or matching('pytorch_model*.bin')
    indices = WEIGHTS[1], 'pytorch_model*.bin.index.json'
    return sorted({*weights, *matching(*COMPANIONS, *indices, '*.py')})


def read_config(folder: Path) -> JsonObject:
    """
    Return a model's `config.json`; empty where it cannot be read.
    """
    try:
        config = parse_json((folder / 'config.json').read_bytes(), any_number=True)
    except (OSError, ValueError):
        return {}
    return config if isinstance(config, dict) else {}


def trusts_code(opt: JsonObject) -> bool:
    """
    True if options, which no parser has read yet, let the code of a model run.
    """
    return str(opt.get('hf_trust_code')).lower() in YES


ADAPTER = 'adapter_config.json'
COPY = 'put a copy there'


def check_model_folder(folder: Path) -> None:
    """
    Refuse a folder with links to files elsewhere, with pipes or devices, with settings
    that name a file elsewhere, and one of an adapter.

    :raises UserError: ``hf_model: …``, naming the file.
    """
    if (folder / ADAPTER).is_file():
        raise UserError(
            f'hf_model: {folder} is an adapter; its base model, merged with it, would '
            'do'
        )
    for file in (*folder.iterdir(), *folder.glob('additional_chat_templates/*')):
        check_file_of_folder(file, folder)
    for file in sorted(folder.glob('*config.json')):
        check_settings(file)


def check_settings(file: Path) -> None:
    """
    Refuse settings that name a file elsewhere, under whatever key: a tokenizer would
    read its words from there.
    """
    try:
        settings = parse_json(file.read_bytes(), any_number=True)
    except (OSError, json.JSONDecodeError, UnicodeDecodeError):
        return  # transformers says what is wrong
    except ValueError as error:  # what transformers might read all the same
        raise UserError(f'hf_model: {file}: {error}') from None
    for key, value in nested_values(settings):
        if not isinstance(value, str) or '/' not in value or '\0' in value:
            continue
        is_file = os.path.exists(value) and not os.path.isdir(value)
        if is_file and not lies_in(value, file.parent):
            raise UserError(
                f'hf_model: {key} in {file} is {value}, a file elsewhere; {COPY}'
            )


def check_file_of_folder(file: Path, folder: Path) -> None:
    """
    Refuse a file that lies elsewhere, and what is neither a file nor a folder.

    The hub's cache has its files in a folder beside its snapshots, with links to them.
    """
    home = folder.absolute()
    root = home.parents[1] if home.parent.name == 'snapshots' else home
    if not lies_in(file, root):
        raise UserError(f'hf_model: {file} leads out of the folder; {COPY}')
    if is_special(file):
        raise UserError(f'hf_model: {file} is a pipe or a device; no file of a model')


def lies_in(path: str | Path, folder: Path) -> bool:
    """
    True if a path leads into a folder, links followed.
    """
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
