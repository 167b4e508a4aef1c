"""
The network of toxic-comments: converted from Keras' files, and what it gives.
"""

import collections
import pickle

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from parlai_ext.systems.catalogue.conversions import (
    ARRAYS,
    CONFIG,
    WEIGHTS,
    convert_keras,
)
from parlai_ext.systems.catalogue.fetch_model import is_fetched
from parlai_ext.systems.safe import load
from tests.support.malicious_pickles import Call, named
from tests.support.on_cpu import load_here, models_on_cpu
from tests.support.user_error import user_error
from tests.support.written import changed_json

h5py = pytest.importorskip('h5py')
LABELS = ('toxic', 'insult')
# six scores that the page of the package shows for its own network
# (pypi.org/project/toxic-comment-classifier/0.3.0: mean over labels)
PUBLISHED = {
    'I hate you so much!': 0.1395,
    'This is wonderful news.': 0.0013,
    "You're disgusting!": 0.3110,
    'Absolutely love your energy!': 0.0088,
    "You're the worst person ever!": 0.0937,
    'Have a nice day :)': 0.0115,
}


def arrays():
    """
    Return random weights in Keras' shapes, by their names here: 5 words of 4 numbers
    and 3 units in either direction, each with 4 gates.
    """
    rng = np.random.default_rng(0)
    shapes = {'embedding': (5, 4), 'hidden.kernel': (6, 3), 'hidden.bias': (3,)}
    shapes |= {'output.kernel': (3, 2), 'output.bias': (2,)}
    for way in ('forward', 'backward'):
        shapes[f'{way}.kernel'] = (4, 12)
        shapes[f'{way}.recurrent'] = (3, 12)
        shapes[f'{way}.bias'] = (12,)
    return {n: rng.normal(size=s).astype(np.float32) for n, s in shapes.items()}


def pickled_tokenizer(**changes):
    """
    Return the bytes of a tokenizer, pickled under the name that Keras has for it.
    """
    words = ['you', 'like', 'tea', 'well', 'rare']
    state = {
        'word_index': {word: i for i, word in enumerate(words, 1)},
        'word_docs': collections.defaultdict(int, you=2),
        'word_counts': collections.OrderedDict(you=2),
        'filters': '!,.',
        'split': ' ',
        'lower': True,
        'num_words': 5,
        'oov_token': None,
        **changes,
    }
    # an object of a class that is not here: its name, no arguments, its state
    made = named('keras.src.legacy.preprocessing.text', 'Tokenizer') + b')\x81'
    return b'\x80\x03' + made + pickle.dumps(state, 3)[2:-1] + b'b.'


@pytest.fixture
def files(tmp_path):
    with h5py.File(tmp_path / 'w.h5', 'w') as file:
        for place, name in ARRAYS.items():
            file[place] = arrays()[name]
    (tmp_path / 't.pickle').write_bytes(pickled_tokenizer())
    return tmp_path / 'w.h5', tmp_path / 't.pickle'


@pytest.fixture
def converted(files, tmp_path):
    convert_keras(*files, LABELS, tmp_path)
    return tmp_path


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def keras_lstm(w, way, inputs):
    """
    Return the states of Keras' LSTM cell, as its documentation defines it.
    """
    h = c = np.zeros(w[f'{way}.recurrent'].shape[0])
    states = []
    for x in inputs:
        z = x @ w[f'{way}.kernel'] + h @ w[f'{way}.recurrent'] + w[f'{way}.bias']
        i, f, g, o = np.split(z, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    return np.array(states)


def keras_network(ids):
    """
    Return what Keras' layers give for the ids of a text, which are padded in front.
    """
    w = arrays()
    x = w['embedding'][[0] * (100 - len(ids)) + ids]
    back = keras_lstm(w, 'backward', x[::-1])[::-1]
    top = np.concatenate([keras_lstm(w, 'forward', x), back], axis=1).max(axis=0)
    hidden = np.maximum(top @ w['hidden.kernel'] + w['hidden.bias'], 0)
    return sigmoid(hidden @ w['output.kernel'] + w['output.bias'])


def test_the_converted_network_gives_what_keras_layers_give(converted):
    model = load_here('classifier', str(converted))
    # "rare" has id 5, beyond num_words; "new" is no word of it
    rows = model.probabilities(['You, like tea!', 'well new rare', ''])
    expected = [keras_network(ids) for ids in ([1, 2, 3], [4], [])]
    np.testing.assert_allclose(rows, expected, atol=1e-5)
    assert model.labels == LABELS


@pytest.mark.parametrize('key, value', [('labels', 7), ('length', '9')])
def test_settings_of_another_kind_are_named(converted, key, value):
    changed_json(converted / CONFIG, **{key: value})
    with user_error(f'holds no network of words: {key}: '):
        load_here('classifier', str(converted))


def test_a_network_is_no_larger_than_its_weights(converted, monkeypatch):
    monkeypatch.setattr(load, 'MORE_WEIGHTS', 0)
    file = converted / WEIGHTS
    weights = load_file(file) | {'forward.kernel': torch.zeros(1, 40_000)}
    save_file(weights, file)
    with user_error('ask for more than .* weights'):
        load_here('classifier', str(converted))


@pytest.mark.parametrize(
    'data, line',
    [
        (pickle.dumps(Call(print, 'ran')), 'print'),
        (pickled_tokenizer(oov_token='x'), 'another kind of tokenizer'),
    ],
)
def test_a_tokenizer_that_would_run_code_or_is_of_another_kind_is_refused(
    files, tmp_path, data, line
):
    files[1].write_bytes(data)
    with user_error(line):
        convert_keras(*files, LABELS, tmp_path)
    assert not (tmp_path / WEIGHTS).exists()


@pytest.mark.skipif(
    not is_fetched('toxic-comments'), reason='toxic-comments is not fetched here'
)
def test_the_fetched_network_gives_the_scores_that_its_page_shows():
    model = models_on_cpu().classifier('toxic-comments')
    means = model.probabilities(list(PUBLISHED)).mean(axis=1)
    assert means == pytest.approx(list(PUBLISHED.values()), abs=5e-5)
