"""
Keep a trained agent as the small files that ParlAI loads anywhere.

Weights become float16, the optimizer's state goes, and the options lose everything that
belongs to the machine they were made on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from parlai.core.opt import Opt

# what the place or the run decides, not the model
_LOCAL = {
    'allow_missing_init_opts',
    'bpe_merge',
    'bpe_vocab',
    'datapath',
    'datatype',
    'dict_file',
    'dict_loaded',
    'download_path',
    'fixed_candidates_path',
    'init_model',
    'init_opt',
    'is_debug',
    'loglevel',
    'model_file',
    'override',
    'parlai_home',
    'starttime',
    'task',
}
# what agents look up even when no parser filled it in, as a user would have it
_NEUTRAL = {'no_cuda': False, 'gpu': -1, 'verbose': False, 'skip_generation': False}


def portable(opt: Opt) -> Opt:
    """
    Return the options that belong to the model.

    :raises ValueError: when an absolute path is left.
    """
    kept = {key: opt[key] for key in sorted(opt) if key not in _LOCAL} | _NEUTRAL
    for key, value in kept.items():
        if isinstance(value, str) and value.startswith('/'):
            raise ValueError(f'option {key} holds an absolute path: {value}')
    return Opt(kept)


def halved(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """
    Return the weights as float16; what shared memory before shares it after.
    """
    made: dict[int, torch.Tensor] = {}
    for value in weights.values():
        if value.data_ptr() not in made:
            floating = value.is_floating_point()
            made[value.data_ptr()] = value.half() if floating else value.clone()
    return {name: made[value.data_ptr()] for name, value in weights.items()}


def ship(agent: Any, folder: Path, candidates: Sequence[str] = ()) -> None:
    """
    Write ``model``, ``model.opt`` and the dictionary of ``agent`` into ``folder``.

    :param candidates: the replies of a retriever, written as ``model.candidates``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    torch.save({'model': halved(agent.model.state_dict())}, folder / 'model')
    portable(agent.opt).save(str(folder / 'model.opt'))
    agent.dict.save(str(folder / 'model.dict'), sort=False)
    (folder / 'model.dict.opt').unlink()
    if candidates:
        text = ''.join(f'{line}\n' for line in candidates)
        (folder / 'model.candidates').write_text(text, encoding='utf-8', newline='\n')
