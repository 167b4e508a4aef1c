"""
Tiny Hugging Face models with random weights, written to a folder as `save_pretrained`
writes them: one for each kind of seat that `ext:hf` offers.
"""

import shutil
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    BartConfig,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    T5Config,
)

from tests.support.tiny_models import WORDS

PAD, BEGIN, END, UNKNOWN = '<pad>', '<s>', '</s>', '<unk>'
ROLES = ('<|system|>', '<|user|>', '<|assistant|>')
SPECIAL = (PAD, BEGIN, END, UNKNOWN, *ROLES)
# as strict as Llama 2's: the user begins, and roles take turns
TEMPLATE = (
    '{{ bos_token }}'
    "{% if messages[0]['role'] == 'system' %}"
    "{{ '<|system|> ' + messages[0]['content'] + ' </s> ' }}"
    '{% set messages = messages[1:] %}{% endif %}'
    '{% for message in messages %}'
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate user/assistant/user/assistant') }}"
    '{% endif %}'
    "{{ '<|' + message['role'] + '|> ' + message['content'] + ' </s> ' }}"
    '{% endfor %}'
    "{% if add_generation_prompt %}{{ '<|assistant|> ' }}{% endif %}"
)
TINY = {
    'hidden_size': 32,
    'intermediate_size': 32,
    'num_hidden_layers': 2,
    'num_attention_heads': 2,
    'num_key_value_heads': 2,
    'max_position_embeddings': 256,
    'tie_word_embeddings': False,
}
WINDOW = {'sliding_window': 12}
# what `TINY` does not say of a model with an encoder and a decoder
BART = {
    **TINY,
    'encoder_ffn_dim': 32,
    'decoder_ffn_dim': 32,
    'decoder_layers': 2,
    'decoder_attention_heads': 2,
    'decoder_start_token_id': 1,
    'forced_eos_token_id': None,
}
T5 = {
    **TINY,
    'd_kv': 16,
    'd_ff': 32,
    'num_decoder_layers': 2,
    'decoder_start_token_id': 0,
}
CONFIGS = {
    'llama': (LlamaConfig, TINY),
    'mistral': (MistralConfig, {**TINY, **WINDOW}),
    'qwen2': (
        Qwen2Config,
        {**TINY, **WINDOW, 'use_sliding_window': True, 'max_window_layers': 1},
    ),
    'gpt2': (GPT2Config, TINY),
    'bart': (BartConfig, BART),
    't5': (T5Config, T5),
}


def make_tokenizer(words, ending=False):
    """
    Return a tokenizer of whole words, trained on them.

    :param ending: end every text with the end token, as BART's and T5's do.
    """
    inner = Tokenizer(models.WordLevel(unk_token=UNKNOWN))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordLevelTrainer(special_tokens=list(SPECIAL))
    inner.train_from_iterator(sorted(words), trainer)
    if ending:
        inner.post_processor = processors.TemplateProcessing(
            single=f'$A {END}', special_tokens=[(END, inner.token_to_id(END))]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token=PAD,
        bos_token=BEGIN,
        eos_token=END,
        unk_token=UNKNOWN,
        extra_special_tokens=list(ROLES),
    )


def make_model(
    folder, kind, *, words=WORDS, template=None, seed=0, generation=None, **config
):
    """
    Write a model of one of `CONFIGS` and its tokenizer, and return the folder.
    """
    made, sizes = CONFIGS[kind]
    tokenizer = make_tokenizer(words, ending=kind in ('bart', 't5'))
    tokenizer.chat_template = template
    ids = {'pad_token_id': 0, 'bos_token_id': 1, 'eos_token_id': 2}
    settings = made(**{**sizes, **ids, 'vocab_size': len(tokenizer), **config})
    auto = AutoModelForSeq2SeqLM if kind in ('bart', 't5') else AutoModelForCausalLM
    model = auto.from_config(settings)
    draw(model, seed)
    for key, value in (generation or {}).items():
        setattr(model.generation_config, key, value)
    path = folder / kind
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return str(path)


def draw(model, seed):
    """
    Draw weights wide enough that a reply depends on all of the conversation.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                wide = 1.0 if 'embed' in name or 'wpe' in name else 3.0
                weight.normal_(0, wide * weight.shape[-1] ** -0.5, generator=generator)
            if name.startswith('lm_head'):
                weight[[0, 1, 3, 4, 5, 6]] = 0.0  # said by nobody, but for the end


OPT = {
    'model': 'ext:hf',
    'no_cuda': True,
    'reply_max_tokens': 8,
    'beam_min_length': 2,
    'beam_block_ngram': 1,
}


def chat(folder):
    """
    A Llama whose template refuses a conversation that the user does not begin.
    """
    path = make_model(folder, 'llama', template=TEMPLATE)
    prompt = {'system_prompt': 'you like old song', 'first_turn_ask': 'today'}
    return {**OPT, 'hf_model': path, **prompt}


def plain(folder):
    """
    A GPT-2 that reads turns with the end token between, as DialoGPT does.
    """
    return {**OPT, 'hf_model': make_model(folder, 'gpt2')}


def seq2seq(folder):
    """
    A BART that encodes the turns, one a line.
    """
    return {**OPT, 'hf_model': make_model(folder, 'bart')}


def causal_lm(folder):
    """
    The Llama as ParlAI's generator.
    """
    prompt = {'first_turn_ask': 'today', 'text_truncate': 96, 'label_truncate': 8}
    path = make_model(folder, 'llama', template=TEMPLATE)
    return {'model': 'ext:causal_lm', 'no_cuda': True, 'hf_model': path, **prompt}


FAMILIES = {'hf_causal_chat': chat, 'hf_causal_plain': plain, 'hf_seq2seq': seq2seq}


REPO = 'someone/tiny'
COMMIT = '0123456789abcdef0123456789abcdef01234567'


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """
    A hub cache and no network.
    """
    from huggingface_hub import constants

    monkeypatch.setattr(constants, 'HF_HUB_CACHE', str(tmp_path / 'cache'))
    monkeypatch.setattr(constants, 'HF_HUB_OFFLINE', True)
    return tmp_path / 'cache'


def cached(cache, model, commit=COMMIT):
    """
    Put a folder's files into the cache as the `main` of `REPO`; return their place.
    """
    home = cache / 'models--someone--tiny'
    (home / 'refs').mkdir(parents=True, exist_ok=True)
    (home / 'refs' / 'main').write_text(commit)
    return shutil.copytree(model, home / 'snapshots' / commit)


@pytest.fixture
def model(chat_folder, tmp_path):
    """
    A copy of a small chat model, in which files may be changed.
    """
    return Path(shutil.copytree(chat_folder, tmp_path / 'model'))
