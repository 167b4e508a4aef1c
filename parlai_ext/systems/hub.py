"""
Systems that come from the Hugging Face hub, or a folder in its format, instead of a
model file: where their files are, and what identifies them.
"""

from __future__ import annotations

import hashlib
import json
from difflib import get_close_matches
from fnmatch import fnmatch
from pathlib import Path

from parlai_ext.compat.agents import HUB_REPOSITORIES
from parlai_ext.core.errors import UserError, first_line
from parlai_ext.core.nouns import System
from parlai_ext.files.option_files import sha256

AGENT = 'ext:hf'
DEFAULT_SIZE = {'hugging_face/dialogpt': 'medium', 'hugging_face/gpt2': 'small'}
# the first that is there holds the weights; an index names the files that do
WEIGHTS = (
    'model.safetensors',
    'model.safetensors.index.json',
    'pytorch_model.bin',
    'pytorch_model.bin.index.json',
)
# what else changes a reply
COMPANIONS = (
    *('config.json', 'generation_config.json', 'adapter_*', 'chat_template*'),
    *('tokenizer*', 'special_tokens_map.json', 'added_tokens.json', 'vocab*'),
    *('merges.txt', '*.model', '*.spm', '*.tiktoken', 'additional_chat_templates/*'),
)
# options that say where a model is, not what it is: `contents` stands for them
PLACES = ('hf_model', 'hf_revision', 'hf_device', 'hf_device_map')
BITS = {'4bit': 4, '8bit': 8, 'float16': 16, 'bfloat16': 16, 'float32': 32}
BITS |= {'float64': 64}
PATIENCE = 10  # seconds until the hub counts as out of reach


def repository(system: System) -> str | None:
    """
    Return the hub repository, or the folder, of a system's weights; `None` if it has
    none.

    :raises UserError: for a size that there is not, or an ``ext:hf`` without a model.
    """
    agent = str(system.opt.get('model'))
    if agent == AGENT:
        if 'hf_model' not in system.opt:
            for near in get_close_matches('hf_model', system.opt, 1, cutoff=0.85):
                raise UserError(f"{near}: unknown; did you mean 'hf_model'?")
        return checked_repository(system.opt.get('hf_model'))
    if agent not in HUB_REPOSITORIES or system.opt.get('model_file'):
        return None
    if system.opt.get('model_name'):
        return str(system.opt['model_name'])
    size = str(system.opt.get('gpt2_size') or DEFAULT_SIZE[agent])
    sizes = HUB_REPOSITORIES[agent]
    if size not in sizes:
        raise UserError(f'gpt2_size {size!r} is none of {", ".join(sizes)}')
    return sizes[size]


def checked_repository(value: object) -> str:
    """
    Return the name of a folder or of a repository as it is.

    :raises UserError: when it can be neither.
    """
    name = str(value or '').strip()
    if not name:
        raise UserError('hf_model: not given; a folder or a hub repository is expected')
    path = Path(name)
    if path.is_file():
        raise UserError(f'hf_model: {name} is a file; its folder is expected')
    if not path.is_dir() and (name[0] in './~\\' or name.count('/') > 1):
        raise UserError(f'hf_model: there is no folder {name}')
    return name


def revision(system: System) -> str | None:
    """
    Return the branch, tag or commit that a system asks for.
    """
    if system.opt.get('model') != AGENT:
        return None
    return system.opt.get('hf_revision') or None


def commit(system: System) -> str | None:
    """
    Return the commit of a system's files in the hub's cache; `None` for a folder and
    for what is not there.
    """
    repo = repository(system)
    weights = cached_weights(repo, revision(system)) if repo else None
    if weights is None or weights.parents[1].name != 'snapshots':
        return None
    return weights.parent.name


def contents(system: System) -> dict[str, str]:
    """
    Return what identifies a system's hub repository or folder, by file.

    The files count, not their place: a folder that moves, or a snapshot in the cache
    with the same files, is the same model. What is not here is downloaded.

    :raises UserError: when it cannot be had.
    """
    repo = repository(system)
    if repo is None:
        return {}
    found = fetched_weights(repo, revision(system))
    if system.opt.get('model') != AGENT:
        return {'hub': _digest(weight_files(found))}
    folder = found.parent
    code = ('*.py',) if truthy(system.opt.get('hf_trust_code')) else ()
    files = [*weight_files(found), *companions(folder, code)]
    return {f'hub/{p.relative_to(folder).as_posix()}': sha256(p) for p in files}


def weight_bytes(system: System) -> int:
    """
    Return about how much memory a system's weights take; 0 when they are not here.
    """
    repo = repository(system)
    weights = cached_weights(repo, revision(system)) if repo else None
    if weights is None:
        return 0
    stored = sum(path.stat().st_size for path in weight_files(weights))
    asked = system.opt.get('hf_quantisation'), system.opt.get('hf_dtype')
    bits = next((BITS[str(one)] for one in asked if str(one) in BITS), None)
    if bits is None or system.opt.get('model') != AGENT:
        return stored
    try:
        config = json.loads((weights.parent / 'config.json').read_text('utf-8'))
        own = str(config.get('dtype') or config.get('torch_dtype'))
    except (OSError, ValueError, AttributeError):
        own = 'float32'
    return stored * bits // BITS.get(own, 32)


def companions(folder: Path, more: tuple[str, ...] = ()) -> list[Path]:
    """
    Return the files beside the weights that change a reply, in order.
    """
    found = {path for name in (*COMPANIONS, *more) for path in folder.glob(name)}
    return sorted(path for path in found if path.is_file())


def cached_weights(repo: str, revision: str | None = None) -> Path | None:
    """
    Return the weights of a repository, when they are in the hub's cache (or the
    repository is a folder); of weights in several files, their index.
    """
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    for name in WEIGHTS:
        path = Path(repo) / name
        if not path.is_file():
            if Path(repo).is_dir():
                continue
            try:
                found = try_to_load_from_cache(repo, name, revision=revision)
            except HFValidationError:
                raise UserError(
                    f'{repo!r} is neither a folder nor a hub repository'
                ) from None
            if not isinstance(found, str):
                continue
            path = Path(found)
        if all(one.is_file() for one in weight_files(path)):
            return path
    return None


def weight_files(weights: Path) -> list[Path]:
    """
    Return the files that hold the weights: those that an index names, and the index.

    :raises UserError: for an index that cannot be read.
    """
    if weights.suffix != '.json':
        return [weights]
    try:
        named = json.loads(weights.read_text(encoding='utf-8'))['weight_map'].values()
        return [weights, *(weights.parent / name for name in sorted(set(named)))]
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise UserError(f'hf_model: {weights} is no index of weights: {e}') from None


def fetched_weights(repo: str, revision: str | None = None) -> Path:
    """
    Return the weights of a repository, from the cache or the network.

    :raises UserError: when they cannot be had.
    """
    found = cached_weights(repo, revision)
    if found is None:
        if Path(repo).is_dir():
            raise UserError(f'{repo} has no weights: none of {", ".join(WEIGHTS)}')
        _download(repo, revision)
        found = cached_weights(repo, revision)
    if found is None:
        raise _refused(repo, 'it has no weights that torch reads')
    return found


def _download(repo: str, revision: str | None) -> None:
    """
    Bring what a system needs of a repository into the hub's cache.
    """
    import requests
    from huggingface_hub import HfApi, constants, snapshot_download

    if constants.HF_HUB_OFFLINE:
        raise _refused(repo, 'HF_HUB_OFFLINE forbids the network')
    try:
        # the hub's own client goes on trying for half a minute
        requests.head(constants.ENDPOINT, timeout=PATIENCE)
    except requests.RequestException:
        raise _refused(repo, 'the network cannot be reached') from None
    try:
        listed = HfApi().list_repo_files(repo, revision=revision)
        wanted = needed_files(listed)
        snapshot_download(repo, revision=revision, allow_patterns=wanted)
    except Exception as e:  # its own errors, and those of the HTTP library of the day
        raise _refused(repo, first_line(e)) from e


def needed_files(listed: list[str]) -> list[str]:
    """
    Return, of a repository's files, one format of the weights and their companions.
    """
    kinds = ('model*.safetensors', 'pytorch_model*.bin')
    weights = next((w for kind in kinds if (w := _matching(listed, kind))), [])
    indices = [f'{kind}.index.json' for kind in ('model.safetensors', kinds[1])]
    more = [
        name for kind in (*COMPANIONS, *indices) for name in _matching(listed, kind)
    ]
    return sorted({*weights, *more, *_matching(listed, '*.py')})


def _matching(listed: list[str], pattern: str) -> list[str]:
    deep = pattern.count('/')
    return [n for n in listed if n.count('/') == deep and fnmatch(n, pattern)]


def _refused(repo: str, reason: str) -> UserError:
    where = f'https://huggingface.co/{repo}'
    # what has no owner is more likely the name of a folder
    folder = '' if '/' in repo else f'; there is no folder {repo} either'
    return UserError(f'{where} cannot be downloaded: {reason}{folder}')


def truthy(value: object) -> bool:
    """
    Tell whether an option that no parser has read yet says yes.
    """
    return str(value).lower() in ('true', '1', 'yes', 'y', 't')


def _digest(files: list[Path]) -> str:
    """
    Return one hash of several files; of a single file, its own.
    """
    hashes = [sha256(path) for path in files]
    if len(hashes) == 1:
        return hashes[0]
    return hashlib.sha256(' '.join(hashes).encode()).hexdigest()
