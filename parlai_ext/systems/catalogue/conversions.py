"""
Conversion of models of the catalogue into folders: a network of Keras, word vectors,
and GGUF files.

The network of Keras is a text classifier that reads words with an LSTM in both
directions; its folder has `model.safetensors`, `words.txt` and `config.json`. Its
weights are HDF5, read by `h5py`. The tokenizer is a pickle, which is read as data; only
its words and settings are taken.
"""

import contextlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import torch as torch_file
from safetensors.numpy import save_file

from parlai_ext import zoo_configs
from parlai_ext.core import JsonObject, UserError, first_line
from parlai_ext.files import read_file
from parlai_ext.systems.safe.read import disk_errors, read_in_child, read_pickle

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
    h5py = _imported('h5py', 'weights', 'moderation')
    with _errors_of(weights), h5py.File(weights, 'r') as file:
        arrays = {
            name: np.ascontiguousarray(file[place], np.float32)
            for place, name in ARRAYS.items()
        }
        settings = read_in_child(read_pickle, tokenizer)
        words = words_by_id(settings, len(arrays['embedding']))
        outputs = arrays['output.bias'].shape
        if outputs != (len(labels),):
            raise ValueError(f'{outputs} outputs, {labels}')
    config = {
        'model_type': MODEL_TYPE,
        'labels': list(labels),
        'length': LENGTH,
        'filters': settings['filters'],
        'lower': settings['lower'],
    }
    _write_arrays(folder, arrays, '\n'.join(words))
    (folder / CONFIG).write_text(f'{json.dumps(config, indent=1)}\n', 'utf-8')


@contextmanager
def _errors_of(file: Path) -> Iterator[None]:
    """
    Turn what is raised over a damaged file into one line: h5py, pyarrow, gguf and
    pickle raise all kinds.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f'{file.name} cannot be converted: {first_line(error)}'
        ) from None


def words_by_id(settings: Any, n_rows: int) -> list[str]:
    """
    Return the words of a tokenizer of Keras that have a row of the embedding, from id 1
    on.

    :raises ValueError: for a tokenizer of another kind.
    """
    is_usual = settings['split'] == ' ' and not settings['oov_token']
    if not is_usual or not settings['num_words']:
        raise ValueError('another kind of tokenizer')
    most = min(n_rows, settings['num_words'])
    by_id = {i: word for word, i in settings['word_index'].items() if i < most}
    words = [by_id[i] for i in range(1, most)]
    if any('\n' in word for word in words):
        raise ValueError('a word with a line break')
    return words


def _imported(package: str, content: str, extra: str) -> Any:
    try:
        return import_module(package)
    except ImportError:
        raise UserError(
            f'the package {package}, which reads the {content}, is not installed; '
            f"pip install 'parlai_ext[{extra}]'"
        ) from None


def _write_arrays(folder: Path, arrays: dict[str, np.ndarray], lines: str) -> None:
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
    with _errors_of(vectors):
        array = np.load(vectors, allow_pickle=False)
        [column] = parquet.read_table(words).columns
        texts = column.to_pylist()
        if array.ndim != 2 or array.dtype != np.float32 or len(array) != len(texts):
            raise ValueError(f'{array.shape} {array.dtype}, {len(texts)} words')
        lines = '\n'.join(texts)
    _write_arrays(folder, {VECTORS: np.ascontiguousarray(array)}, lines)


# --- a GGUF file: safetensors in float32, config and tokenizer ------------------------

# what stands in the files beside the weights
CONTENTS = zoo_configs.HOME / 'conversions' / 'smollm_gguf.yaml'
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
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    with _errors_of(file):
        reader = GGUFReader(file)
        facts = {name: field.contents() for name, field in reader.fields.items()}
        kind = tuple(facts.get(key) for key in KIND)
        if kind != ('llama', 'gpt2', 'smollm'):
            raise UserError(
                f'{file.name}: architecture and tokenizer {kind} are not read'
            )
        facts['tied'] = not any(tensor.name == LM_HEAD for tensor in reader.tensors)
        known = facts | _tokenizer_facts(facts)
        for name, content in _filled(read_file(CONTENTS).data['files'], known).items():
            text = json.dumps(content, ensure_ascii=False, indent=1)
            (folder / name).write_text(f'{text}\n', 'utf-8')
        with torch.device('meta'):
            config = AutoConfig.from_pretrained(folder)
            network = AutoModelForCausalLM.from_config(config)
        # without a bar of transformers' own, for some seconds
        with contextlib.redirect_stderr(io.StringIO()):
            weights = load_gguf_checkpoint(file, True, network)['tensors']
        with disk_errors(folder):
            torch_file.save_file(weights, folder / WEIGHTS, {'format': 'pt'})


def _tokenizer_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return what the files of the tokenizer say in another form than a GGUF file.
    """
    tokens, types = facts['tokenizer.ggml.tokens'], facts['tokenizer.ggml.token_type']
    flags = dict.fromkeys(('single_word', 'lstrip', 'rstrip', 'normalized'), False)
    return {
        'control': [
            {'id': i, 'content': tokens[i], **flags, 'special': True}
            for i, kind in enumerate(types)
            if kind == CONTROL
        ],
        'vocab': {token: i for i, token in enumerate(tokens)},
        'merges': [merge.split(' ') for merge in facts['tokenizer.ggml.merges']],
        **{
            f'{name}_token': tokens[facts[f'tokenizer.ggml.{name}_token_id']]
            for name in ('bos', 'eos', 'unknown', 'padding')
        },
    }


def _filled(value: Any, known: JsonObject) -> Any:
    """
    Return content of `CONTENTS` with what is known in place of each ``=NAME``.
    """
    if isinstance(value, dict):
        return {key: _filled(one, known) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, known) for one in value]
    is_name = isinstance(value, str) and value.startswith('=')
    return known[value[1:]] if is_name else value
