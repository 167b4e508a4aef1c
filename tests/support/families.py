"""
One small model of every class that the papers' systems have.

Each is built as a zoo model comes about (created, its weights set, saved by its agent)
and is read from its file by whoever gets the options returned here, which are those of
a roster entry. Their weights are random.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from string import ascii_letters, digits, punctuation
from typing import Any

import torch
from transformers import GPT2Config, GPT2Model

from tests.support.tiny_models import SIZES, WORDS, draw_weights, make_model, sentences

Builder = Callable[[Path], dict[str, Any]]

END = '<|endoftext|>'
SPEECH = {'label_truncate': 8, 'beam_block_ngram': 1}
UNLIKELIHOOD = 'projects.dialogue_unlikelihood.agents'
STYLE_GEN = 'projects.style_gen.style_gen:StyleGenAgent'


def generator(folder: Path) -> dict[str, Any]:
    """
    Blender, LIGHT, SaFeR, style-gen as the papers ran it.
    """
    return _transformer(folder, 'generator', 'transformer/generator')


def style_gen(folder: Path) -> dict[str, Any]:
    """
    Style-gen with its own class.
    """
    return _transformer(folder, 'style_gen', STYLE_GEN)


def long_context(folder: Path) -> dict[str, Any]:
    """
    MSC, with so few pre-trained positions that a short dialogue goes beyond them.
    """
    size = {'n_positions': 1024, 'truncate': 1024, 'n_positions_init': 16}
    return _transformer(folder, 'long_context', 'ext:long_context', **size)


def image_seq2seq(folder: Path) -> dict[str, Any]:
    """
    The dodecaDialogue models, without an image.
    """
    return _transformer(folder, 'image_seq2seq', 'image_seq2seq', image_features_dim=8)


def unlikelihood_vocab(folder: Path) -> dict[str, Any]:
    """
    The `vocab_alpha…` models, whose training left word counts beside the model.
    """
    model = f'{UNLIKELIHOOD}:TransformerSequenceVocabUnlikelihoodAgent'
    counts = folder / 'counts.txt'
    bins = ('frequent', 'medium', 'rare', 'veryrare')
    lines = [
        json.dumps({'word_id': i + 4, 'word': word, 'bin': bins[i % 4]}) + '\n'
        for i, word in enumerate(WORDS)
    ]
    counts.write_text(''.join(lines), encoding='utf-8')
    return _transformer(folder, 'unlikelihood_vocab', model)


def unlikelihood_repetition(folder: Path) -> dict[str, Any]:
    """
    The `rep_…` models.
    """
    model = f'{UNLIKELIHOOD}:RepetitionUnlikelihoodAgent'
    return _transformer(folder, 'unlikelihood_rep', model, image_features_dim=8)


def bart(folder: Path) -> dict[str, Any]:
    """
    BART, with a byte-level BPE where ParlAI looks for GPT-2's.
    """
    return _bart(folder, 'bart', variant='bart', embeddings_scale=False)


def r2c2(folder: Path) -> dict[str, Any]:
    """
    R2C2 Blender.
    """
    return _bart(folder, 'r2c2', variant='prelayernorm', embeddings_scale=True)


def polyencoder(folder: Path) -> dict[str, Any]:
    """
    The poly-encoders of blended skill talk, with fixed candidates.
    """
    candidates = folder / 'candidates.txt'
    lines = ''.join(f'{line}\n' for line in sentences(40, seed=3))
    candidates.write_text(lines, encoding='utf-8')
    fixed = {'eval_candidates': 'fixed', 'fixed_candidates_path': str(candidates)}
    size = {
        'poly_n_codes': 4,
        'poly_attention_num_heads': 2,
        'codes_attention_num_heads': 2,
        'reduction_type': 'mean',
    }
    model = 'transformer/polyencoder'
    opt = {**SIZES, **fixed, **size, 'model': model}
    path = make_model(folder, 'polyencoder', 7, opt)
    where = {'fixed_candidates_path': str(candidates)}
    return {'model': model, 'model_file': path, **where}


def dialogpt(folder: Path) -> dict[str, Any]:
    """
    DialoGPT, which has no model file but a folder as Hugging Face writes it.
    """
    home = folder / 'DialoGPT-tiny'
    home.mkdir()
    tokens = {**byte_pairs(home / 'merges.txt'), END: 0}
    tokens = {token: i for i, token in enumerate(tokens)}
    (home / 'vocab.json').write_text(json.dumps(tokens), encoding='utf-8')
    ends = {'bos_token_id': tokens[END], 'eos_token_id': tokens[END]}
    size = {'n_embd': 16, 'n_layer': 2, 'n_head': 2, 'n_positions': 128}
    model = GPT2Model(GPT2Config(vocab_size=len(tokens), **size, **ends))
    draw_weights(model, 4)
    with torch.no_grad():
        model.wte.weight[tokens[END]] = 0.0
    model.save_pretrained(home)
    return {
        'model': 'hugging_face/dialogpt',
        'model_name': str(home),
        'add_special_tokens': False,
        'text_truncate': 96,
        **SPEECH,
    }


def seq2seq_lstm(folder: Path) -> dict[str, Any]:
    """
    The recurrent baseline, with attention over its context.
    """
    size = {'hiddensize': 16, 'embeddingsize': 16, 'numlayers': 2}
    kind = {'rnn_class': 'lstm', 'attention': 'general', 'bidirectional': True}
    opt = {'model': 'seq2seq', 'truncate': 128, **size, **kind, **SPEECH}
    path = make_model(folder, 'seq2seq_lstm', 5, opt)
    return {'model': 'seq2seq', 'model_file': path}


FAMILIES: dict[str, Builder] = {
    'generator': generator,
    'style_gen': style_gen,
    'long_context': long_context,
    'image_seq2seq': image_seq2seq,
    'bart': bart,
    'r2c2': r2c2,
    'polyencoder': polyencoder,
    'dialogpt': dialogpt,
    'unlikelihood_vocab': unlikelihood_vocab,
    'unlikelihood_repetition': unlikelihood_repetition,
    'seq2seq_lstm': seq2seq_lstm,
}


def byte_pairs(merges: Path) -> dict[str, int]:
    """
    Write the merges of a byte-level BPE over `WORDS`; return its tokens.
    """
    pairs: dict[tuple[str, str], None] = {}
    # Ċ is a line's end; whatever is typed in English has its token
    tokens = [*'ĊĠ', *punctuation, *digits, *ascii_letters]
    for word in WORDS:
        left = 'Ġ'
        for letter in word:
            pairs[left, letter] = None
            left += letter
    lines = ''.join(f'{left} {right}\n' for left, right in pairs)
    merges.write_text('#version: 0.2\n' + lines, encoding='utf-8')
    tokens += [left + right for left, right in pairs]
    # with ParlAI's four a multiple of 8, to which it would pad
    tokens += ['..', '!!', '??', '--', '::', ';;', ',,'][: (-len(tokens) - 4) % 8]
    return {token: i for i, token in enumerate(tokens)}


def _transformer(folder: Path, name: str, model: str, **opt: Any) -> dict[str, Any]:
    path = make_model(folder, name, 1, {**SIZES, **SPEECH, 'model': model, **opt})
    return {'model': model, 'model_file': path}


def _bart(folder: Path, name: str, **opt: Any) -> dict[str, Any]:
    home = folder / 'data' / 'gpt2'
    home.mkdir(parents=True)
    tokens = byte_pairs(home / 'vocab.bpe')
    (home / 'encoder.json').write_text(json.dumps(tokens), encoding='utf-8')
    where = {'datapath': str(folder / 'data')}
    size = {'n_encoder_layers': 2, 'n_decoder_layers': 2}
    common: Mapping[str, Any] = {**SIZES, **SPEECH, **size, **where, 'model': 'bart'}
    path = make_model(folder, name, 2, {**common, **opt}, words=False)
    return {'model': 'bart', 'model_file': path, **where}
