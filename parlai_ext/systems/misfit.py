"""
Why a model file does not fit the agent that is to read it, in one line.

Torch's own error names every weight, in kilobytes that do not say what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from parlai.core.opt import Opt

from parlai_ext.core.errors import UserError
from parlai_ext.systems.torch_memory import is_out_of_memory

MISSING = re.compile(r'Missing key\(s\) in state_dict: (.*?)\. ')
UNKNOWN = re.compile(r'Unexpected key\(s\) in state_dict: (.*?)\. ')
SHAPES = re.compile(
    r'size mismatch for (\S+): copying a param with shape torch\.Size\(\[(.*?)\]\) '
    r'from checkpoint, the shape in current model is torch\.Size\(\[(.*?)\]\)'
)
LOADING = ('load', 'load_state_dict')


def why_unfit(error: BaseException, opt: Mapping[str, Any]) -> str | None:
    """
    Return which option does not fit the model file and how; `None` if the error has
    another cause.

    :param error: what building the agent raised.
    :param opt: what it was built with.
    """
    if isinstance(error, UserError) or is_out_of_memory(error):
        return None
    if not opt.get('model_file') or not _while_loading(error.__traceback__):
        return None
    words = ' '.join(str(error).split()) + ' '
    wrong = SHAPES.findall(words)
    if wrong and not MISSING.search(words) and not UNKNOWN.search(words):
        dictionary = _dictionary(wrong, opt)
        if dictionary:
            return dictionary
    misfits = '; '.join(_misfits(words, wrong)) or type(error).__name__
    own_agent = _own_model(opt)
    agent = opt.get('model') or own_agent
    other = own_agent not in (None, agent)
    kind = agent if other else f'{agent} with these options'
    hint = f'; its own options say {own_agent!r}' if other else ''
    start = f'model_file: {opt["model_file"]} is no {kind}'
    return f'{start}: its weights do not fit ({misfits}){hint}'


def _while_loading(trace: TracebackType | None) -> bool:
    """
    True if weights were being read when the exception was raised.
    """
    while trace is not None:
        if trace.tb_frame.f_code.co_name in LOADING:
            return True
        trace = trace.tb_next
    return False


def _misfits(words: str, wrong: Sequence[tuple[str, str, str]]) -> list[str]:
    """
    Return how a model's weights and its options differ, one phrase for each kind of
    difference.

    :param wrong: name, size in the file and size by the options, of each tensor.
    """
    misfits = []
    for pattern, kind in ((MISSING, 'missing'), (UNKNOWN, 'too many')):
        match = pattern.search(words)
        if match:
            names = match[1].split(', ')
            misfits.append(f'{len(names)} {kind}, the first {_bare(names[0])}')
    if wrong:
        name, there, here = wrong[0]
        sizes = f'{name} is {_times(there)}, the options make it {_times(here)}'
        misfits.append(f'{len(wrong)} of another size: {sizes}')
    return misfits


def _dictionary(wrong: Sequence[tuple[str, str, str]], opt: Mapping[str, Any]) -> str:
    """
    Return what is wrong with the dictionary, if only the number of words differs.
    """
    rows = {(there.split(', ')[0], here.split(', ')[0]) for _, there, here in wrong}
    same_width = {
        there.split(', ')[1:] == here.split(', ')[1:] for _, there, here in wrong
    }
    if len(rows) != 1 or same_width != {True}:
        return ''
    [(there, here)] = rows
    file = f'{opt["model_file"]}.dict'  # where there is one, ParlAI reads no other
    if not Path(file).is_file():
        file = opt.get('dict_file') or file
    if not Path(file).is_file():
        return f'dict_file: there is no file {file}; the model knows {there} words'
    return (
        f'dict_file: {file} makes {here} words with these options, '
        f'the weights in {opt["model_file"]} are for {there}'
    )


def _own_model(opt: Mapping[str, Any]) -> str | None:
    path = Path(f'{opt["model_file"]}.opt')
    return Opt.load(str(path)).get('model') if path.is_file() else None


def _bare(name: str) -> str:
    return name.strip('"')


def _times(shape: str) -> str:
    return shape.replace(', ', 'x')
