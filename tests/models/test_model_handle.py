"""
The models that scorers ask for, on tiny ones: numbers, batches, names, identities.
"""

from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from parlai_ext.engines import Machine
from parlai_ext.models import handle
from parlai_ext.models.handle import check_model
from tests.support.causal_models import record_shapes
from tests.support.family_hf import make_model
from tests.support.on_cpu import load_here, models_on_cpu
from tests.support.tiny_models import sentences
from tests.support.tiny_trained import make_encoder
from tests.support.user_error import user_error

TEXTS = sentences(12)


@pytest.fixture(scope='module')
def embedder(encoder_folder):
    return load_here('embedder', encoder_folder)


def test_an_embedding_is_the_mean_of_the_last_states(encoder_folder, embedder):
    tokenizer = AutoTokenizer.from_pretrained(encoder_folder)
    model = AutoModel.from_pretrained(encoder_folder).eval()
    rows = embedder.encode(['', *TEXTS])  # an empty text has a row, too
    assert rows.dtype == np.float32
    for text, row in zip(TEXTS, rows[1:], strict=True):  # whatever stands beside it
        ids = tokenizer(text, return_tensors='pt')
        with torch.no_grad():
            expected = model(**ids).last_hidden_state.mean(1)[0].numpy()
        assert row == pytest.approx(expected, abs=1e-5)
    assert embedder.encode([]).shape == (0, 16)


def test_a_long_text_does_not_pad_many_short_ones(embedder):
    shapes = record_shapes(embedder.model)
    # each word is a token: 100 texts of 4, and one of 20
    words = [f'{a} {b} {c} d' for a in 'abcde' for b in 'abcd' for c in 'abcde']
    embedder.encode([*words, 'a ' * 20])
    assert shapes == [(100, 4), (1, 20)]


def test_tokens_beyond_the_positions_are_counted(embedder):
    # each word is a token, and the model has 24 positions
    assert embedder.cut_tokens(['a ' * 24, 'a ' * 30]) == [0, 6]
    assert np.isfinite(embedder.encode(['a ' * 30])).all()


def test_equal_names_are_one_model_and_equal_files_one_identity(
    tmp_path, encoder_folder
):
    name = 'zoo:mini/judge/model'
    assert models_on_cpu().likelihood(name) is models_on_cpu().likelihood(name)
    others = make_encoder(tmp_path / 'copy'), make_encoder(tmp_path / 'three', 3)
    same, other = (load_here('embedder', one).signature for one in others)
    assert same == load_here('embedder', encoder_folder).signature != other


@pytest.mark.parametrize('kind', ['embedder', 'classifier', 'chat'])
def test_a_name_that_means_nothing_is_one_line(kind):
    for ask in (getattr(models_on_cpu(), kind), lambda n: check_model(kind, n)):
        with user_error(f"no {kind} 'minilmm'"):
            ask('minilmm')


def test_an_option_that_an_encoder_lacks_is_refused(encoder_folder):
    with user_error('hf_dtype'):
        models_on_cpu().embedder(f'hf:{encoder_folder},hf_dtype=float16')


def test_a_folder_is_available_as_long_as_its_weights_are_there(tmp_path):
    folder = make_encoder(tmp_path / 'encoder')
    check_model('embedder', folder)
    for weights in Path(folder).glob('*.safetensors'):
        weights.unlink()
    with user_error(str(folder)):
        check_model('embedder', folder)


def test_a_chat_model_replies_to_prompts_and_to_conversations(tmp_path):
    folder = make_model(tmp_path, 'gpt2')
    chat = load_here('chat', f'hf:{folder},reply_max_tokens=4')
    first, second, again = chat.replies(['one', ('one', 'two', 'one'), 'one'])
    assert first == again and first.reason is None and isinstance(second.text, str)
    assert chat.signature.startswith('system=')


def kinds_here(_):
    return [kind for kind, _, _ in handle._LOADED]


def test_a_fork_does_not_talk_over_the_connections_of_its_parent(monkeypatch):
    loaded = {(kind, 'a', Machine()): kind for kind in ('chat', 'embedder')}
    monkeypatch.setattr(handle, '_LOADED', loaded)
    with get_context('fork').Pool(1) as pool:
        assert pool.map(kinds_here, [0]) == [['embedder']]
    assert len(loaded) == 2
