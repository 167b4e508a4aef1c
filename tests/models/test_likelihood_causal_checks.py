"""
Which causal models are asked, and what is said of those that are not.
"""

from types import SimpleNamespace

import pytest
import torch
from transformers import Phi3Config

from parlai_ext.core.nouns import Question
from parlai_ext.models.likelihood.causal import (
    Causal,
    check_causal,
    max_positions,
    plain_logprobs,
    tree_difference,
)
from parlai_ext.models.likelihood.prefix_tree import TreeSize
from tests.support.causal_models import (
    GPT2,
    KINDS,
    REFUSED,
    SINGLE,
    SIZES,
    make,
    one_by_one,
)
from tests.support.user_error import user_error


@pytest.mark.parametrize('kind', [*KINDS, *SINGLE])
def test_a_model_that_reads_trees_passes_the_trial_and_reads_them_in_passes(kind):
    judge = Causal(make(kind, {**KINDS, **SINGLE}[kind]), None, '')
    assert check_causal(judge) is judge
    assert judge.takes_cache or kind in SINGLE


@pytest.mark.parametrize('kind', REFUSED)
def test_a_model_that_does_not_is_refused_in_one_line(kind):
    model = make(kind, REFUSED[kind])
    with user_error('cannot read a tree|another way') as e:
        check_causal(Causal(model, None, ''))
    assert type(model).__name__ in str(e.value)


@pytest.mark.parametrize('ignored', ['attention_mask', 'position_ids'])
def test_a_model_that_ignores_what_makes_a_tree_is_found_out(ignored):
    model = make('Llama', SIZES)
    forward = model.forward
    model.forward = lambda **given: forward(**{**given, ignored: None})
    with user_error('in another way than plain text'):
        check_causal(Causal(model, None, ''))


@pytest.mark.parametrize('broken', ['ignored', 'refused'])
def test_a_model_without_a_cache_reads_every_tree_in_one_pass(broken):
    model = make('Llama', SIZES)
    forward = model.forward

    def without_cache(past_key_values=None, use_cache=False, **given):
        if past_key_values is not None and broken == 'refused':
            raise TypeError('past_key_values')
        return forward(**given, use_cache=False)

    model.forward = without_cache
    judge = check_causal(Causal(model, None, ''))
    assert not judge.takes_cache
    # 400 tokens: with a cache they would be several passes
    asked = Question(
        tuple(range(3, 53)) * 4, tuple((i, *range(3, 9)) for i in range(9, 42))
    )
    assert Causal(model, None, '').costs(10**4).num_passes(TreeSize(400, 0)) > 1
    expected = one_by_one(model, asked.context, asked.continuations[0])
    [answer] = judge.answer([asked])
    assert answer.continuations[0] == pytest.approx(expected, rel=0, abs=1e-9)


def test_a_model_that_changes_its_logits_unseen_is_found_out():
    model = make('Llama', SIZES)
    judge = Causal(model, None, '')
    assert judge.head.plain
    forward = model.forward

    def capped(**given):
        found = forward(**given)
        found.logits = torch.tanh(found.logits)
        return found

    model.forward = capped
    with user_error('in another way than plain text'):
        check_causal(judge)


def test_a_model_that_changes_its_logits_in_the_open_is_followed():
    model = make('Granite', KINDS['Granite'])
    judge = Causal(model, None, '')
    assert (judge.head.plain, tree_difference(judge) < 1e-9) == (False, True)


def test_flash_attention_takes_no_mask_of_ours():
    model = make('Llama', SIZES)
    model.config._attn_implementation = 'flash_attention_2'
    with user_error('flash_attention_2.* sdpa or eager would do'):
        Causal(model, None, '')


def test_the_trial_compares_with_plain_passes():
    model = make('Qwen2', KINDS['Qwen2'])
    found = plain_logprobs(Causal(model, None, ''), (3, 4, 5), (6, 7, 8))
    assert found == pytest.approx(one_by_one(model, (3, 4, 5), (6, 7, 8)), abs=1e-12)


def test_memory_that_runs_out_in_the_trial_is_not_the_models_fault(monkeypatch):
    judge = Causal(make('GPT2', GPT2), None, '')

    def full(**_):
        raise torch.OutOfMemoryError('CUDA out of memory')

    monkeypatch.setattr(judge.model, 'forward', full)
    with pytest.raises(torch.OutOfMemoryError):
        check_causal(judge)


@pytest.mark.parametrize(
    ('named', 'expected'),
    [
        ({'max_position_embeddings': 512}, 512),
        ({'n_positions': 96, 'n_ctx': 80}, 80),
        ({'max_position_embeddings': -1}, None),
        ({}, None),
    ],
)
def test_positions_are_what_the_config_says(named, expected):
    text = SimpleNamespace(**named)
    config = SimpleNamespace(get_text_config=lambda: text)
    assert max_positions(config) == expected


def test_positions_end_where_long_texts_get_other_numbers():
    factors = [1.0] * 4
    rope = {'rope_type': 'longrope', 'rope_theta': 1e4}
    config = Phi3Config(
        **{**SIZES, 'max_position_embeddings': 4096},
        original_max_position_embeddings=128,
        rope_parameters={**rope, 'long_factor': factors, 'short_factor': factors}
        | {'original_max_position_embeddings': 128},
    )
    assert max_positions(config) == 128
