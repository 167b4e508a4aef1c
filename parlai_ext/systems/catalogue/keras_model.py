"""
Conversion of one network of Keras into a folder with `model.safetensors`, `words.txt`
and `config.json`: a text classifier that reads words with an LSTM in both directions.

The weights are HDF5, read by `h5py`. The tokenizer is a pickle; of what a pickle can
do, only dictionaries, numbers and the tokenizer itself are allowed here, and of the
tokenizer only its words and settings are taken.
"""

import json
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from parlai_ext.core.errors import UserError, first_line
from parlai_ext.systems.safe.safetensors_file import disk_errors
from parlai_ext.systems.safe.unpickle import AllowedCall, SafeUnpickler

MODEL_TYPE = 'word_bilstm'
CONFIG, WEIGHTS, WORDS = 'config.json', 'model.safetensors', 'words.txt'
TOKENIZER = ('keras.src.legacy.preprocessing.text', 'Tokenizer')
LENGTH = 100  # words that the network reads; no file says it, its authors' code does
# the array of each layer in the file -> its name here
ARRAYS = {
    'layers/embedding/vars/0': 'embedding',
    'layers/dense/vars/0': 'hidden.kernel',
    'layers/dense/vars/1': 'hidden.bias',
    'layers/dense_1/vars/0': 'output.kernel',
    'layers/dense_1/vars/1': 'output.bias',
    **{
        f'layers/bidirectional/{way}_layer/cell/vars/{i}': f'{way}.{part}'
        for way in ('forward', 'backward')
        for i, part in enumerate(('kernel', 'recurrent', 'bias'))
    },
}
SETTINGS = ('filters', 'split', 'lower', 'num_words', 'word_index', 'oov_token')


class KerasTokenizer:
    """
    What the pickle says of its tokenizer.
    """

    settings: Mapping[str, Any] = {}


class TokenizerUnpickler(SafeUnpickler):
    """
    A safe unpickler that also knows Keras' tokenizer, as data.
    """

    dispatch = dict(SafeUnpickler.dispatch)

    def find_class(self, module: str, name: str) -> Any:
        """
        Return what stands for a name in the pickle.
        """
        if (module, name) == TOKENIZER:
            return AllowedCall(name, KerasTokenizer)
        return super().find_class(module, name)

    def load_build(self) -> None:
        """
        Take the settings of the tokenizer as they are; no method of it is called.
        """
        if type(self.stack[-2]) is not KerasTokenizer:
            super().load_build()
        elif isinstance(state := self.stack.pop(), dict):
            self.stack[-1].settings = state

    dispatch |= {pickle.BUILD[0]: load_build}


def convert_keras(
    weights: Path, tokenizer: Path, labels: Sequence[str], folder: Path
) -> None:
    """
    Write the network to a folder: weights, its words in the order of their ids, config.

    :raises UserError: for another network, a damaged file, and without `h5py`.
    """
    try:
        import h5py
    except ImportError:
        raise UserError(
            'the package h5py, which reads the weights, is not installed; '
            "pip install 'parlai_ext[moderation]'"
        ) from None
    try:
        with h5py.File(weights, 'r') as file:
            arrays = {
                name: np.ascontiguousarray(file[place], np.float32)
                for place, name in ARRAYS.items()
            }
        with open(tokenizer, 'rb') as pickled:
            settings = TokenizerUnpickler(pickled).load().settings
        words = _words(settings, len(arrays['embedding']))
        if arrays['output.bias'].shape != (len(labels),):
            raise ValueError(f'{arrays["output.bias"].shape} outputs, {labels}')
    except UserError:
        raise
    except Exception as error:  # h5py and pickle raise all kinds over a damaged file
        raise UserError(
            f'{weights.name} cannot be converted: {first_line(error)}'
        ) from None
    config = {
        'model_type': MODEL_TYPE,
        'labels': list(labels),
        'length': LENGTH,
        'filters': settings['filters'],
        'lower': settings['lower'],
    }
    folder.mkdir(parents=True, exist_ok=True)
    with disk_errors(folder / WEIGHTS):
        save_file(arrays, folder / WEIGHTS)
    (folder / WORDS).write_text('\n'.join(words) + '\n', 'utf-8', newline='\n')
    (folder / CONFIG).write_text(f'{json.dumps(config, indent=1)}\n', 'utf-8')


def _words(settings: Mapping[str, Any], n_rows: int) -> list[str]:
    """
    Return the words that have a row of the embedding, from id 1 on.
    """
    if settings['split'] != ' ' or settings['oov_token'] or not settings['num_words']:
        raise ValueError('another kind of tokenizer')
    most = min(n_rows, settings['num_words'])
    by_id = {i: word for word, i in settings['word_index'].items() if i < most}
    words = [by_id[i] for i in range(1, most)]
    if any('\n' in word for word in words):
        raise ValueError('a word with a line break')
    return words
