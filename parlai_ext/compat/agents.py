"""
Agents of ParlAI 1.7.2 that fail, or cannot be built, where they need not.
"""

from __future__ import annotations

import os
import warnings
from functools import wraps
from typing import Any

# repositories by agent and `gpt2_size`, as parlai/agents/hugging_face loads them
HUB_REPOSITORIES = {
    'hugging_face/dialogpt': {
        'small': 'microsoft/DialoGPT-small',
        'medium': 'microsoft/DialoGPT-medium',
        'large': 'microsoft/DialoGPT-large',
    },
    'hugging_face/gpt2': {
        'small': 'gpt2',
        'medium': 'gpt2-medium',
        'large': 'gpt2-large',
        'xl': 'gpt2-xl',
    },
}


def gpt2_encoder_reordering(module: Any) -> None:
    """
    agents/hugging_face/gpt2.py:178 is given a list of rows by ``--rank-candidates``
    (core/torch_generator_agent.py:892) and `torch.index_select` wants a tensor.
    """
    model = module.HFGPT2Model
    for_tensors = model.reorder_encoder_states

    @wraps(for_tensors)
    def reorder(self: Any, encoder_states: Any, indices: Any) -> Any:
        rows = module.torch.as_tensor(indices, device=encoder_states.device)
        return for_tensors(self, encoder_states, rows)

    model.reorder_encoder_states = reorder


def dialogpt_from_a_folder(module: Any) -> None:
    """
    agents/hugging_face/dialogpt.py:51 takes ``--model-name`` and reads the weights of
    ``--gpt2-size`` from the hub all the same.
    """
    decoder = module.DialoGPTDecoder
    by_size = decoder._init_from_pretrained

    @wraps(by_size)
    def _init_from_pretrained(self: Any, opt: Any) -> Any:
        if not opt.get('model_name'):
            return by_size(self, opt)
        return module.GPT2Model.from_pretrained(opt['model_name'])

    decoder._init_from_pretrained = _init_from_pretrained


def dialogpt_tokens_from_a_folder(module: Any) -> None:
    """
    agents/hugging_face/dict.py:246, likewise for its tokens.
    """
    dictionary = module.DialoGPTDictionaryAgent
    by_size = dictionary.get_tokenizer

    @wraps(by_size)
    def get_tokenizer(self: Any, opt: Any) -> Any:
        if not opt.get('model_name'):
            return by_size(self, opt)
        return module.GPT2Tokenizer.from_pretrained(opt['model_name'])

    dictionary.get_tokenizer = get_tokenizer


def delayed_nucleus_beam(module: Any) -> None:
    """
    core/torch_generator_agent.py:1966 borrows the step of nucleus sampling without the
    two functions that it calls: ``--inference delayednucleusbeam`` always crashed.
    """
    search = module.DelayedNucleusBeamSearch
    search.get_mask = module.NucleusSampling.get_mask
    search.update_p = module.NucleusSampling.update_p


def word_counts_only_to_train(module: Any) -> None:
    """
    projects/dialogue_unlikelihood/agents.py:353 cannot be built without the word counts
    of its training, whose path is its author's; talking needs none.
    """
    trait = module.SequenceVocabUnlikelihoodAgentTrait
    original = trait.__init__

    @wraps(original)
    def __init__(self: Any, opt: Any, shared: Any = None) -> None:
        beside = os.path.join(
            os.path.dirname(opt.get('model_file') or ''), 'counts.txt'
        )
        training = 'train' in opt['datatype'] and 'evalmode' not in opt['datatype']
        if not training and not os.path.isfile(opt.get('counts_file') or beside):
            opt['counts_file'] = os.devnull
        original(self, opt, shared)

    trait.__init__ = __init__


def replies_without_a_leading_space(module: Any) -> None:
    """
    utils/bpe.py:236 asserts that a byte-level BPE reply begins with a space, which an
    undertrained model's may not.
    """
    helper = module.BPEHelper
    original = helper.decode

    @wraps(original)
    def decode(self: Any, tokens: Any, token_ids: Any, delimiter: str) -> Any:
        try:
            return original(self, tokens, token_ids, delimiter)
        except AssertionError:
            return self.helper_decode(tokens, token_ids, delimiter)

    helper.decode = decode


def loss_without_a_warning(module: Any) -> None:
    """
    agents/transformer/polyencoder.py:122 builds its loss with ``reduce``, which torch
    calls deprecated at every start; only ParlAI could do otherwise.
    """
    warnings.filterwarnings('ignore', 'size_average and reduce args', UserWarning)
