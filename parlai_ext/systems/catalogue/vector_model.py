"""
Conversion of word vectors into a folder with `model.safetensors` and `words.txt`.

The vectors are an array of float32 (.npy, read without pickle); the words are the only
column of a table (.parquet), in the order of the rows.
"""

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from parlai_ext.core.errors import UserError
from parlai_ext.systems.safe.safetensors_file import disk_errors

VECTORS, WEIGHTS, WORDS = 'vectors', 'model.safetensors', 'words.txt'


def convert_vectors(vectors: Path, words: Path, folder: Path) -> None:
    """
    Write word vectors to a folder: the array, and one word a line.

    :raises UserError: for files of another shape, and without `pyarrow`.
    """
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise UserError(
            'the package pyarrow, which reads the words, is not installed; '
            "pip install 'parlai_ext[metrics]'"
        ) from None
    try:
        array = np.load(vectors, allow_pickle=False)
        [column] = parquet.read_table(words).columns
        texts = column.to_pylist()
        if array.ndim != 2 or array.dtype != np.float32 or len(array) != len(texts):
            raise ValueError(f'{array.shape} {array.dtype}, {len(texts)} words')
        lines = '\n'.join(texts)
    except (ValueError, TypeError, OSError, ArrowException) as error:
        raise UserError(f'{vectors.name} cannot be converted: {error}') from None
    folder.mkdir(parents=True, exist_ok=True)
    with disk_errors(folder / WEIGHTS):
        save_file({VECTORS: np.ascontiguousarray(array)}, folder / WEIGHTS)
    (folder / WORDS).write_text(f'{lines}\n', 'utf-8', newline='\n')
