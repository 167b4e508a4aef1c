"""
Vectors of words, such as GloVe's: one for each word, whatever stands around it.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from parlai_ext.core import System, UserError, signature_line
from parlai_ext.engines import Machine
from parlai_ext.systems import hub
from parlai_ext.systems.catalogue.conversions import VECTORS, WEIGHTS, WORDS


class WordVectorTable:
    """
    Words, and a row of an array for each. Of a word that comes twice, the first counts.

    :param vectors: float32, one row a word.
    :ivar num_parameters: how many numbers the vectors have.
    """

    def __init__(self, words: Sequence[str], vectors: np.ndarray):
        self.vectors = vectors
        self.num_parameters = int(vectors.size)
        self.rows: dict[str, int] = {}
        for row, word in enumerate(words):
            self.rows.setdefault(word, row)
        digest = hashlib.sha256('\n'.join(words).encode())
        digest.update(np.ascontiguousarray(vectors, '<f4').tobytes())
        self.signature = signature_line(
            {'words': len(words), 'content': digest.hexdigest()[:16]}
        )

    def known_vectors(self, words: Sequence[str]) -> np.ndarray:
        """
        Return one float32 row for each word that is known, in order.
        """
        return self.vectors[[self.rows[word] for word in words if word in self.rows]]


def load_vectors(
    kind: str, name: str, system: System, machine: Machine
) -> WordVectorTable:
    """
    Return the word vectors of the catalogue, or in a text file.
    """
    if 'model_file' in system.opt:
        return read_text_vectors(Path(str(system.opt['model_file'])))
    folder = hub.fetch_weights(str(system.opt['hf_model'])).parent
    words = (folder / WORDS).read_text('utf-8').removesuffix('\n').split('\n')
    return WordVectorTable(words, load_file(folder / WEIGHTS)[VECTORS])


def read_text_vectors(path: Path) -> WordVectorTable:
    """
    Return the word vectors in a text file, as GloVe's and word2vec's authors write it:
    a word and its numbers a line, parted by blanks. A first line of two whole numbers
    (how many words, how many numbers) is left out.

    :raises UserError: names the line that is wrong.
    """
    words: list[str] = []
    rows: list[np.ndarray] = []
    with open(path, 'rb') as file:
        for number, line in enumerate(file, 1):
            try:
                word, *numbers = line.decode('utf-8').rstrip().split(' ')
                if number == 1 and len(numbers) == 1:
                    continue
                row = np.array(numbers, np.float32)
                if not len(row) or (rows and len(row) != len(rows[0])):
                    raise ValueError
            except ValueError:
                width = f'{len(rows[0])} ' if rows else ''
                raise UserError(
                    f'word_vectors {path}:{number}: a word and {width}numbers are '
                    'expected'
                ) from None
            words.append(word)
            rows.append(row)
    if not rows:
        raise UserError(f'word_vectors {path}: there are no words in it')
    return WordVectorTable(words, np.stack(rows))
