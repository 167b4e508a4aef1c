"""
Systems that come from the Hugging Face hub instead of a model file.
"""

from __future__ import annotations

from pathlib import Path

from parlai_ext.errors import UserError
from parlai_ext.records import System

# agent -> repository by `gpt2_size`, as parlai/agents/hugging_face asks for it
REPOSITORIES = {
    'hugging_face/dialogpt': {
        'small': 'microsoft/DialoGPT-small',
        'medium': 'microsoft/DialoGPT-medium',
        'large': 'microsoft/DialoGPT-large',
    },
    'hugging_face/gpt2': {
        'small': 'gpt2',
        'medium': 'gpt2-medium',
        'large': 'gpt2-large',
        'xl': 'gpt2-xl',
    },
}
DEFAULT_SIZE = {'hugging_face/dialogpt': 'medium', 'hugging_face/gpt2': 'small'}
WEIGHTS = ('model.safetensors', 'pytorch_model.bin')


def repository(system: System) -> str | None:
    """
    Return the hub repository of a system's weights; `None` if it has none.

    :raises UserError: for a size that there is not.
    """
    agent = str(system.opt.get('model'))
    if agent not in REPOSITORIES or system.opt.get('model_file'):
        return None
    if system.opt.get('model_name'):
        return str(system.opt['model_name'])
    size = str(system.opt.get('gpt2_size') or DEFAULT_SIZE[agent])
    sizes = REPOSITORIES[agent]
    if size not in sizes:
        raise UserError(f'gpt2_size {size!r} is none of {", ".join(sizes)}')
    return sizes[size]


def cached_weights(repo: str) -> Path | None:
    """
    Return the weights of a repository, when they are in the hub's cache (or the
    repository is a folder).
    """
    from huggingface_hub import try_to_load_from_cache

    for name in WEIGHTS:
        if (Path(repo) / name).is_file():
            return Path(repo) / name
        found = try_to_load_from_cache(repo, name)
        if isinstance(found, str):
            return Path(found)
    return None


def fetched_weights(repo: str) -> Path:
    """
    Return the weights of a repository, from the cache or the network.

    :raises UserError: when they cannot be had.
    """
    found = cached_weights(repo)
    if found is not None:
        return found
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    reason = 'it has no weights that torch reads'
    for name in WEIGHTS:
        try:
            return Path(hf_hub_download(repo, name))
        except LocalEntryNotFoundError:
            reason = 'the network cannot be reached'
            break
        except EntryNotFoundError:
            continue
        except (OSError, ValueError) as e:
            reason = str(e).strip().split('\n')[0]
            break
    raise UserError(f'https://huggingface.co/{repo} cannot be downloaded: {reason}')
