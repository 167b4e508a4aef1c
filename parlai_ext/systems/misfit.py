"""
Why a model file does not fit the agent that is to read it, in one line.

Torch's own error names every weight, in kilobytes that do not say what is wrong.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from pathlib import Path

from parlai.core.opt import Opt

from parlai_ext.core.errors import UserError
from parlai_ext.isolation.names import Options
from parlai_ext.systems.torch_memory import is_out_of_memory

MISSING = re.compile(r'Missing key\(s\) in state_dict: (.*?)\. ')
UNKNOWN = re.compile(r'Unexpected key\(s\) in state_dict: (.*?)\. ')
SHAPES = re.compile(
    r'size mismatch for (\S+): copying a param with shape torch\.Size\(\[(.*?)\]\) '
    r'from checkpoint, the shape in current model is torch\.Size\(\[(.*?)\]\)'
)
LOADING = ('load', 'load_state_dict')


def why_unfit(error: BaseException, opt: Options) -> str | None:
    """
    Return which option does not fit the model file and how; `None` if the error has
    another cause.

    :param error: what building the agent raised.
    :param opt: what it was built with.
    """
    file, frames = opt.get('model_file'), traceback.extract_tb(error.__traceback__)
    is_loading = any(frame.name in LOADING for frame in frames)
    if isinstance(error, UserError) or is_out_of_memory(error) or not file:
        return None
    if not is_loading:
        return None
    words = ' '.join(str(error).split()) + ' '
    misfits = []
    for pattern, kind in ((MISSING, 'missing'), (UNKNOWN, 'too many')):
        if match := pattern.search(words):
            names = match[1].split(', ')
            first = names[0].strip('"')
            misfits.append(f'{len(names)} {kind}, the first {first}')
    # name, size in the file and size by the options, of each tensor
    wrong = SHAPES.findall(words)
    if wrong:
        dictionary = _dictionary(wrong, opt)
        if dictionary and not misfits:
            return dictionary
        name, there, here = (part.replace(', ', 'x') for part in wrong[0])
        sizes = f'{name} is {there}, the options make it {here}'
        misfits.append(f'{len(wrong)} of another size: {sizes}')
    own_options = Path(f'{file}.opt')
    own = Opt.load(str(own_options)).get('model') if own_options.is_file() else None
    agent = opt.get('model') or own
    kind, hint = f'{agent} with these options', ''
    if own not in (None, agent):
        kind, hint = str(agent), f'; its own options say {own!r}'
    reasons = '; '.join(misfits) or type(error).__name__
    return f'model_file: {file} is no {kind}: its weights do not fit ({reasons}){hint}'


def _dictionary(wrong: Sequence[tuple[str, str, str]], opt: Options) -> str:
    """
    Return what is wrong with the dictionary, if only the number of words differs.
    """
    shapes = [(there.split(', '), here.split(', ')) for _, there, here in wrong]
    if any(there[1:] != here[1:] for there, here in shapes):
        return ''
    rows = {(there[0], here[0]) for there, here in shapes}
    if len(rows) != 1:
        return ''
    [(known, made)] = rows
    file = f'{opt["model_file"]}.dict'  # where there is one, ParlAI reads no other
    if not Path(file).is_file():
        file = opt.get('dict_file') or file
    if not Path(file).is_file():
        return f'dict_file: there is no file {file}; the model knows {known} words'
    return (
        f'dict_file: {file} makes {made} words with these options, '
        f'the weights in {opt["model_file"]} are for {known}'
    )
