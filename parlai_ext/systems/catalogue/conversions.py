"""
Conversion of models of the catalogue into folders: a network of Keras, word vectors,
and GGUF files.

The network of Keras is a text classifier that reads words with an LSTM in both
directions; its folder has `model.safetensors`, `words.txt` and `config.json`. Its
weights are HDF5, read by `h5py`. The tokenizer is a pickle, which is read as data; only
its words and settings are taken.
"""

import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from parlai_ext import zoo_configs
from parlai_ext.core import JsonObject, UserError, first_line
from parlai_ext.files import read_file
from parlai_ext.systems.safe.read import disk_errors
from parlai_ext.view.progress import bar_of

MODEL_TYPE = 'word_bilstm'
CONFIG, WEIGHTS, WORDS = 'config.json', 'model.safetensors', 'words.txt'
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


def convert_keras(
    weights: Path, tokenizer: Path, labels: Sequence[str], folder: Path
) -> None:
    """
    Write the network to a folder: weights, its words in the order of their ids, config.

    :raises UserError: for another network, a damaged file, and without `h5py`.
    """
    from parlai_ext.systems.safe.read import read_in_child, read_pickle

    h5py = _imported('h5py', 'weights', 'moderation')
    try:
        with h5py.File(weights, 'r') as file:
            arrays = {
                name: np.ascontiguousarray(file[place], np.float32)
                for place, name in ARRAYS.items()
            }
        settings = read_in_child(read_pickle, tokenizer)
        is_usual = settings['split'] == ' ' and not settings['oov_token']
        if not is_usual or not settings['num_words']:
            raise ValueError('another kind of tokenizer')
        # those that have a row of the embedding, from id 1 on
        most = min(len(arrays['embedding']), settings['num_words'])
        by_id = {i: word for word, i in settings['word_index'].items() if i < most}
        words = [by_id[i] for i in range(1, most)]
        if any('\n' in word for word in words):
            raise ValueError('a word with a line break')
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
    _write_arrays(folder, arrays, '\n'.join(words))
    (folder / CONFIG).write_text(f'{json.dumps(config, indent=1)}\n', 'utf-8')


def _imported(package: str, content: str, extra: str) -> Any:
    try:
        return import_module(package)
    except ImportError:
        raise UserError(
            f'the package {package}, which reads the {content}, is not installed; '
            f"pip install 'parlai_ext[{extra}]'"
        ) from None


def _write_arrays(folder: Path, arrays: dict[str, np.ndarray], lines: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with disk_errors(folder / WEIGHTS):
        save_file(arrays, folder / WEIGHTS)
    (folder / WORDS).write_text(f'{lines}\n', 'utf-8', newline='\n')


# --- word vectors: the array, and one word a line -------------------------------------

VECTORS = 'vectors'


def convert_vectors(vectors: Path, words: Path, folder: Path) -> None:
    """
    Write word vectors to a folder: the array, and one word a line.

    :raises UserError: for files of another shape, and without `pyarrow`.
    """
    parquet = _imported('pyarrow.parquet', 'words', 'metrics')
    try:
        array = np.load(vectors, allow_pickle=False)
        [column] = parquet.read_table(words).columns
        texts = column.to_pylist()
        if array.ndim != 2 or array.dtype != np.float32 or len(array) != len(texts):
            raise ValueError(f'{array.shape} {array.dtype}, {len(texts)} words')
        lines = '\n'.join(texts)
    except Exception as error:  # pyarrow raises all kinds
        raise UserError(f'{vectors.name} cannot be converted: {error}') from None
    _write_arrays(folder, {VECTORS: np.ascontiguousarray(array)}, lines)


# --- a GGUF file: safetensors in float32, config and tokenizer ------------------------

# what transformers calls the parts of a file
NAMES = zoo_configs.HOME / 'conversions' / 'smollm_gguf.yaml'
# architecture, tokenizer, and how the tokenizer parts a text
KIND = ('general.architecture', 'tokenizer.ggml.model', 'tokenizer.ggml.pre')
LM_HEAD = 'output.weight'
CONTROL = 3  # the type of a token that no text has


def convert_gguf(file: Path, folder: Path) -> None:
    """
    Write the model in a GGUF file to a folder: a Llama with the tokenizer of SmolLM.

    :raises UserError: for other models, and for a damaged file.
    """
    from gguf import GGUFReader

    try:
        reader = GGUFReader(file)
        facts = {name: field.contents() for name, field in reader.fields.items()}
        kind = tuple(facts.get(key) for key in KIND)
        if kind != ('llama', 'gpt2', 'smollm'):
            raise UserError(
                f'{file.name}: architecture and tokenizer {kind} are not read'
            )
        folder.mkdir(parents=True, exist_ok=True)
        names = read_file(NAMES).data
        # what the files of the tokenizer say in another form than a GGUF file
        tokens = facts['tokenizer.ggml.tokens']
        types = facts['tokenizer.ggml.token_type']
        flags = dict.fromkeys(('single_word', 'lstrip', 'rstrip', 'normalized'), False)
        known = {
            **facts,
            'control': [
                {'id': i, 'content': tokens[i], **flags, 'special': True}
                for i, kind in enumerate(types)
                if kind == CONTROL
            ],
            'vocab': {token: i for i, token in enumerate(tokens)},
            'merges': [m.split(' ') for m in facts['tokenizer.ggml.merges']],
            'tied': not any(t.name == LM_HEAD for t in reader.tensors),
        }
        for name in ('bos', 'eos', 'unknown', 'padding'):
            known[f'{name}_token'] = tokens[facts[f'tokenizer.ggml.{name}_token_id']]
        for name, content in _filled(names['files'], known).items():
            text = json.dumps(content, ensure_ascii=False, indent=1)
            (folder / name).write_text(f'{text}\n', 'utf-8')
        tensors = _tensors(reader, facts, names)
        with disk_errors(folder):
            save_file(tensors, folder / 'model.safetensors', {'format': 'pt'})
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise UserError(f'{file.name} cannot be converted: {error}') from None


def _filled(value: Any, known: JsonObject) -> Any:
    """
    Return content of `NAMES` with what is known in place of each ``=NAME``.
    """
    if isinstance(value, dict):
        return {key: _filled(one, known) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, known) for one in value]
    is_name = isinstance(value, str) and value.startswith('=')
    return known[value[1:]] if is_name else value


def _tensors(
    reader: Any, facts: Mapping[str, Any], names: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """
    Return the weights by their names in transformers.
    """
    from gguf import dequantize

    heads = {
        'attn_q': facts['llama.attention.head_count'],
        'attn_k': facts['llama.attention.head_count_kv'],
    }
    tensors = {}
    with bar_of('converting', len(reader.tensors), unit='tensor') as bar:
        for tensor in reader.tensors:
            name, part = names['tensors'].get(tensor.name), ''
            if name is None:
                _, layer, part, end = tensor.name.split('.')
                name = f'model.layers.{layer}.{names["layers"][part]}.{end}'
            weights = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
            if part in heads:
                # llama.cpp turns pairs of neighbours, transformers one half of a head
                # against the other (`LlamaModel.permute` of convert_hf_to_gguf.py, the
                # other way round)
                pairs = weights.reshape(heads[part], -1, 2, weights.shape[1])
                weights = pairs.swapaxes(1, 2).reshape(weights.shape)
            tensors[name] = np.ascontiguousarray(weights)
            bar.update()
    return tensors
