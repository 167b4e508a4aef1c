"""
Saves a trained agent as small files that ParlAI loads on any machine.

Weights become float16, the optimizer's state is left out, and so are options that
belong to the machine or to the training run.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from parlai.core.opt import Opt

# options of the machine or the training run, not of the model
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
# options that agents read even if no parser has filled them in
_NEUTRAL = {'no_cuda': False, 'gpu': -1, 'verbose': False, 'skip_generation': False}


def portable_options(opt: Opt) -> Opt:
    """
    Return the options that belong to the model.

    :raises ValueError: if an absolute path is left.
    """
    options = {key: opt[key] for key in sorted(opt) if key not in _LOCAL} | _NEUTRAL
    for key, value in options.items():
        if isinstance(value, str) and value.startswith('/'):
            raise ValueError(f'option {key} holds an absolute path: {value}')
    return Opt(options)


def as_float16(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """
    Return the weights as float16; weights that share memory still do.
    """
    copies = {
        value.data_ptr(): value.half() if value.is_floating_point() else value.clone()
        for value in weights.values()
    }
    return {name: copies[value.data_ptr()] for name, value in weights.items()}


def save_agent(agent: Any, folder: Path, candidates: Sequence[str]) -> None:
    """
    Write ``model``, ``model.opt`` and the dictionary of ``agent`` into ``folder``.

    :param candidates: the replies of a retriever, written as ``model.candidates``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    torch.save({'model': as_float16(agent.model.state_dict())}, folder / 'model')
    portable_options(agent.opt).save(str(folder / 'model.opt'))
    agent.dict.save(str(folder / 'model.dict'), sort=False)
    (folder / 'model.dict.opt').unlink()
    if candidates:
        text = ''.join(f'{line}\n' for line in candidates)
        (folder / 'model.candidates').write_text(text, encoding='utf-8', newline='\n')
