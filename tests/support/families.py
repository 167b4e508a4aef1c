"""
One small model of every class that the papers' systems have.

Each is built as a zoo model comes about (created, its weights set, saved by its agent)
and is read from its file by whoever gets the options returned here, which are those of
a roster entry. Their weights are random.
"""

from functools import partial

from tests.support.fed_samples import learn_bytes, make_gpt2
from tests.support.tiny_models import (
    POLYENCODER,
    SIZES,
    make_model,
    make_ranker,
    sentences,
)

SPEECH = {'label_truncate': 8, 'beam_block_ngram': 1}
UNLIKELIHOOD = 'projects.dialogue_unlikelihood.agents'
# those that write with an encoder and a decoder, which are judges, too
JUDGES = (
    'generator',
    'style_gen',
    'long_context',
    'image_seq2seq',
    'bart',
    'r2c2',
    'unlikelihood_vocab',
    'unlikelihood_repetition',
)


def unlikelihood_vocab(folder):
    """
    The `vocab_alpha…` models, whose training left word counts beside the model.
    """
    (folder / 'counts.txt').touch()
    model = f'{UNLIKELIHOOD}:TransformerSequenceVocabUnlikelihoodAgent'
    return _transformer(folder, model)


def polyencoder(folder):
    """
    The poly-encoders of blended skill talk, with fixed candidates.
    """
    path = make_ranker(folder, 'polyencoder', 7, sentences(40, 3))
    fixed = {'fixed_candidates_path': f'{path}.candidates.txt'}
    return {'model': POLYENCODER, 'model_file': path, **fixed}


def dialogpt(folder):
    """
    DialoGPT, which has no model file but a folder as Hugging Face writes it.
    """
    home = folder / 'DialoGPT-tiny'
    home.mkdir()
    make_gpt2(home, positions=128)
    return {
        'model': 'hugging_face/dialogpt',
        'model_name': str(home),
        'add_special_tokens': False,
        'text_truncate': 96,
        **SPEECH,
    }


def seq2seq_lstm(folder):
    """
    The recurrent baseline, with attention over its context.
    """
    size = {'hiddensize': 16, 'embeddingsize': 16, 'numlayers': 2}
    kind = {'rnn_class': 'lstm', 'attention': 'general', 'bidirectional': True}
    opt = {'model': 'seq2seq', 'truncate': 128, **size, **kind, **SPEECH}
    path = make_model(folder, 'seq2seq_lstm', 5, opt)
    return {'model': 'seq2seq', 'model_file': path}


def _transformer(folder, model, **opt):
    path = make_model(
        folder, 'generator', 1, {**SIZES, **SPEECH, 'model': model, **opt}
    )
    return {'model': model, 'model_file': path}


def _bart(folder, **opt):
    home = folder / 'data' / 'gpt2'
    home.mkdir(parents=True)
    learn_bytes(home, 364)  # with ParlAI's four a multiple of 8, to which it would pad
    (home / 'vocab.json').rename(home / 'encoder.json')
    (home / 'merges.txt').rename(home / 'vocab.bpe')
    where = {'datapath': str(folder / 'data')}
    size = {'n_encoder_layers': 2, 'n_decoder_layers': 2}
    common = {**SIZES, **SPEECH, **size, **where, 'model': 'bart'}
    path = make_model(folder, 'bart', 2, {**common, **opt}, words=False)
    return {'model': 'bart', 'model_file': path, **where}


FAMILIES = {
    # Blender, LIGHT, SaFeR, style-gen as the papers ran it
    'generator': partial(_transformer, model='transformer/generator'),
    # style-gen with its own class
    'style_gen': partial(
        _transformer, model='projects.style_gen.style_gen:StyleGenAgent'
    ),
    # MSC, with so few pre-trained positions that a short dialogue goes beyond them
    'long_context': partial(
        _transformer,
        model='ext:long_context',
        n_positions=1024,
        truncate=1024,
        n_positions_init=16,
    ),
    # the dodecaDialogue models, without an image
    'image_seq2seq': partial(_transformer, model='image_seq2seq', image_features_dim=8),
    # BART, with a byte-level BPE where ParlAI looks for GPT-2's
    'bart': partial(_bart, variant='bart', embeddings_scale=False),
    # R2C2 Blender
    'r2c2': partial(_bart, variant='prelayernorm', embeddings_scale=True),
    'polyencoder': polyencoder,
    'dialogpt': dialogpt,
    'unlikelihood_vocab': unlikelihood_vocab,
    # the `rep_…` models
    'unlikelihood_repetition': partial(
        _transformer,
        model=f'{UNLIKELIHOOD}:RepetitionUnlikelihoodAgent',
        image_features_dim=8,
    ),
    'seq2seq_lstm': seq2seq_lstm,
}
