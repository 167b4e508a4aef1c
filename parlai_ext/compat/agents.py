"""
Fixes of agents of ParlAI 1.7.2 that crash or cannot be built.
"""

import os
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

from parlai_ext.compat.after_import import fixes, replaces
from parlai_ext.core import UserError

LONGEST_REASON = 200  # characters of a library's own words
PATIENCE = 10  # seconds until the hub counts as out of reach
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


@replaces('parlai.agents.hugging_face.gpt2', 'HFGPT2Model.reorder_encoder_states')
def reorder_gpt2_encoder_by_list(
    original: Any, self: Any, encoder_states: Any, indices: Any
) -> Any:
    """
    ParlAI passes a list of rows (core/torch_generator_agent.py:892) to
    `torch.index_select` (agents/hugging_face/gpt2.py:178), which takes a tensor only:
    ``--rank-candidates`` crashes. The fix makes it a tensor.
    """
    import torch

    rows = torch.as_tensor(indices, device=encoder_states.device)
    return original(self, encoder_states, rows)


def load_dialogpt_by_name(
    kind: str, original: Any, self: Any, opt: Mapping[str, Any]
) -> Any:
    """
    ParlAI ignores ``--model-name`` and loads weights and tokenizer of ``--gpt2-size``
    from the hub (agents/hugging_face/dialogpt.py:51, dict.py:246). The fix loads those
    of ``--model-name``.
    """
    import transformers

    name = opt.get('model_name')
    kind_of = getattr(transformers, kind)
    return kind_of.from_pretrained(name) if name else original(self, opt)


for _module, _method, _kind in (
    ('dialogpt', 'DialoGPTDecoder._init_from_pretrained', 'GPT2Model'),
    ('dict', 'DialoGPTDictionaryAgent.get_tokenizer', 'GPT2Tokenizer'),
):
    replaces(f'parlai.agents.hugging_face.{_module}', _method)(
        partial(load_dialogpt_by_name, _kind)
    )


def refuse_missing_gpt2_in_one_line(
    agent: str, original: Any, self: Any, opt: Any
) -> Any:
    """
    Without the network ParlAI waits for minutes and ends in a traceback, or gets a
    tokenizer without words (agents/hugging_face/dict.py:172, 246). The fix says in one
    line what is missing.
    """
    option = 'model_name' if opt.get('model_name') else 'gpt2_size'
    repo = HUB_REPOSITORIES[agent].get(opt[option], opt[option])
    hint = 'model_name: FOLDER would be read from this machine'
    try:
        refuse_unreachable(repo)
        tokenizer = original(self, opt)
    except (OSError, ValueError) as error:
        why = ' '.join(str(error).split())[:LONGEST_REASON]
        raise UserError(f'{option}: {repo} cannot be had: {why}; {hint}') from None
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise UserError(f'{option}: no tokenizer of {repo} can be read; {hint}')
    return tokenizer


for _kind, _agent in (('Gpt2', 'gpt2'), ('DialoGPT', 'dialogpt')):
    replaces(
        'parlai.agents.hugging_face.dict', f'{_kind}DictionaryAgent.get_tokenizer'
    )(partial(refuse_missing_gpt2_in_one_line, f'hugging_face/{_agent}'))


def refuse_unreachable(repo: str) -> None:
    """
    Refuse a repository that is neither on this machine nor within reach.

    :raises OSError: when the hub does not answer.
    """
    from huggingface_hub import constants, try_to_load_from_cache

    if os.path.isdir(repo) or constants.HF_HUB_OFFLINE:
        return
    if repo.count('/') < 2 and try_to_load_from_cache(repo, 'config.json'):
        return
    if not is_reachable():
        raise OSError(f'{constants.ENDPOINT} does not answer')


def is_reachable() -> bool:
    """
    True if the hub's server answers at all, within `PATIENCE`.
    """
    from huggingface_hub import constants, get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=PATIENCE)
    except Exception:  # of whatever HTTP library the hub's client has
        return False
    return True


@fixes('parlai.core.torch_generator_agent')
def complete_delayed_nucleus_beam(module: Any) -> None:
    """
    ParlAI calls two methods that its class lacks (core/torch_generator_agent.py:1966):
    ``--inference delayednucleusbeam`` crashes. The fix adds nucleus sampling's.
    """
    search = module.DelayedNucleusBeamSearch
    search.get_mask = module.NucleusSampling.get_mask
    search.update_p = module.NucleusSampling.update_p


@replaces(
    'projects.dialogue_unlikelihood.agents',
    'SequenceVocabUnlikelihoodAgentTrait.__init__',
)
def need_no_word_counts_to_chat(
    original: Any, self: Any, opt: Any, shared: Any = None
) -> None:
    """
    ParlAI reads the word counts of a model's training even when the model only chats
    (projects/dialogue_unlikelihood/agents.py:353), from a path of its author's. The
    fix reads none where they are missing and the model is not trained.
    """
    folder = os.path.dirname(opt.get('model_file') or '')
    counts_file = opt.get('counts_file') or os.path.join(folder, 'counts.txt')
    training = 'train' in opt['datatype'] and 'evalmode' not in opt['datatype']
    if not training and not os.path.isfile(counts_file):
        opt['counts_file'] = os.devnull
    original(self, opt, shared)


@replaces('parlai.utils.bpe', 'BPEHelper.decode')
def decode_without_leading_space(
    original: Any, self: Any, tokens: Any, token_ids: Any, delimiter: str
) -> Any:
    """
    ParlAI asserts that a byte-level BPE reply begins with a space (utils/bpe.py:236),
    so that a model whose reply does not crashes. The fix decodes such a reply too.
    """
    try:
        return original(self, tokens, token_ids, delimiter)
    except AssertionError:
        return self.helper_decode(tokens, token_ids, delimiter)


@fixes('parlai.agents.transformer.polyencoder')
def silence_loss_warning(module: Any) -> None:
    """
    ParlAI builds its loss with an argument that torch warns of at every start
    (agents/transformer/polyencoder.py:122). The fix hides the warning.
    """
    warnings.filterwarnings('ignore', 'size_average and reduce args', UserWarning)


# --- a row is padded to the length of the longest one; its reply must not depend on it


@replaces('parlai.core.torch_generator_agent', 'TreeSearch.set_batch_context')
def block_context_without_padding(
    original: Any, self: Any, contexts: Any, row: int, gpu_beam_blocking: bool
) -> Any:
    """
    ParlAI gives a row's context with its padding to ``--beam-context-block-ngram``
    (core/torch_generator_agent.py:1513): the padding token, and n-grams that end in it,
    are forbidden in the shorter rows of a batch only. The fix removes the padding.
    """
    original(self, contexts, row, gpu_beam_blocking)
    if not gpu_beam_blocking:
        inside = [i for i, token in enumerate(self.context) if token != self.pad]
        self.context = self.context[inside[0] : inside[-1] + 1] if inside else []
    return self


@replaces('parlai.agents.seq2seq.modules', 'AttentionLayer.forward')
def attend_to_each_rows_own_end(
    original: Any, self: Any, xes: Any, hidden: Any, attn_params: Any
) -> Any:
    """
    ParlAI attends to the last ``--attention-length`` positions of the batch
    (agents/seq2seq/modules.py:683), where a shorter row has padding. The fix attends to
    the last ones of each row.
    """
    import torch

    states, mask = attn_params
    if self.attention == 'local' and states.size(1) > self.max_length:
        starts = (mask.sum(dim=1) - self.max_length).clamp(min=0)
        window = torch.arange(self.max_length, device=states.device)
        rows = torch.arange(len(states), device=states.device)
        positions = rows[:, None], starts[:, None] + window
        attn_params = states[positions], mask[positions]
    return original(self, xes, hidden, attn_params)
