"""
Tiny causal models with random weights in float64, one of each kind that can be asked,
and a loop over them that knows nothing of trees.
"""

import json

import pytest
import torch
import transformers
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from parlai_ext.core import Question
from tests.support.tiny_trained import spread

VOCABULARY = 60
SIZES = {
    'vocab_size': VOCABULARY,
    'hidden_size': 32,
    'intermediate_size': 48,
    'num_hidden_layers': 2,
    'num_attention_heads': 4,
    'num_key_value_heads': 2,
    'max_position_embeddings': 256,
    **{f'{name}_token_id': i for i, name in enumerate(('pad', 'bos', 'eos'))},
}
# one that shares no keys and values between heads, as GPT-2 does not
GPT2 = {**SIZES, 'num_key_value_heads': 4}
WINDOW = {'sliding_window': 5}
# what Hugging Face calls them, and what makes them small
KINDS = {
    'GPT2': GPT2,
    'Llama': SIZES,
    'Mistral': {**SIZES, **WINDOW},
    'Qwen2': {**SIZES, **WINDOW, 'use_sliding_window': True, 'max_window_layers': 1},
    'Qwen3': {**SIZES, 'head_dim': 8},
    'GPTNeoX': SIZES,
    'Phi': SIZES,
    'Phi3': SIZES,
    'Gemma': {**SIZES, 'head_dim': 8},
    'Gemma3Text': {**SIZES, **WINDOW, 'head_dim': 8},
    'Falcon': {**SIZES, 'alibi': False},
    'OPT': {**SIZES, 'ffn_dim': 48, 'word_embed_proj_dim': 32},
    'Starcoder2': {**SIZES, **WINDOW},
    'StableLm': SIZES,
    'Olmo2': SIZES,
    'GPTBigCode': {**SIZES, 'num_key_value_heads': 1},
    'BioGpt': SIZES,
    'Granite': {**SIZES, 'logits_scaling': 3.0},
}
# what computes some steps in float32 whatever its weights are
SINGLE = {
    'GPTJ': {**GPT2, 'rotary_dim': 4},
    'Gemma2': {**SIZES, **WINDOW, 'head_dim': 8, 'final_logit_softcapping': 1.5},
    'Cohere': {**SIZES, 'logit_scale': 0.3},
}

# what a tree cannot be shown to
REFUSED = {
    'Falcon': {**SIZES, 'alibi': True},
    'Bloom': SIZES,
    'GPTNeo': {
        **SIZES,
        'attention_types': [[['global', 'local'], 1]],
        'window_size': 256,
    },
    'Mamba': {'vocab_size': VOCABULARY, 'hidden_size': 32, 'num_hidden_layers': 2},
    'Llama4Text': {**SIZES, 'head_dim': 8},
    'RecurrentGemma': {**SIZES, 'lru_width': 32, 'head_dim': 8},
}


ids = st.integers(4, 30)
contexts = st.lists(ids, min_size=1, max_size=12).map(tuple)
# few different tokens, so that continuations begin alike
replies = st.lists(st.lists(st.integers(4, 7), max_size=5).map(tuple), max_size=6)
questions = st.builds(Question, contexts, replies.map(tuple))
some_questions = st.lists(questions, min_size=1, max_size=4)


def make(kind, sizes, **more):
    """
    Return a model with weights wide enough that all of a text counts.
    """
    config = getattr(transformers, f'{kind}Config')(**sizes)
    model = AutoModelForCausalLM.from_config(config, **more)
    return spread(model).double().requires_grad_(False)


def one_by_one(model, context, continuation):
    """
    Return the log-probability of each token, from one plain pass for each of them.
    """
    found = []
    for t, token in enumerate(continuation):
        ids = torch.tensor([context + continuation[:t]])
        with torch.no_grad():
            logits = model(input_ids=ids, use_cache=False).logits[0, -1].double()
        found.append(torch.log_softmax(logits, 0)[token].item())
    return found


def assert_one_by_one(asked, answers, expected, tolerance=1e-9):
    """
    Assert that the continuations have the numbers of ``expected(context, tokens)``.
    """
    for question, answer in zip(asked, answers, strict=True):
        for row, found in zip(
            question.continuations, answer.continuations, strict=True
        ):
            alone = expected(question.context, row)
            assert found == pytest.approx(alone, rel=0, abs=tolerance)


def record_shapes(model):
    """
    Return a list that will hold the shape of each pass through a model.
    """
    shapes = []
    model.register_forward_pre_hook(
        lambda _, __, given: shapes.append(tuple(given['input_ids'].shape)),
        with_kwargs=True,
    )
    return shapes


class Kept(dict):
    """
    Results as a file keeps them.
    """

    def put(self, key, results):
        self[key] = json.loads(json.dumps(results))


def flat(answers):
    """
    Return all numbers of some answers in a row.
    """
    rows = [row for a in answers for row in (a.context or (), *a.continuations)]
    return [number for row in rows for number in row]
