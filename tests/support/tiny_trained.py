"""
Tiny models of the classes behind trained metrics, with random weights: RoBERTa with its
byte-level tokenizer, T5 with a unigram tokenizer, BERT with a token between turns, or
as an encoder or classifier of the words of the tiny chat models.
"""

import json

import torch
import transformers
from tokenizers import ByteLevelBPETokenizer

from parlai_ext.scoring.base import ScoringItem
from tests.support.family_hf import make_tokenizer
from tests.support.tiny_models import WORDS

TEXTS = (
    'i like jazz music , do you ? yes i do !',
    'question : is this a natural response in the dialogue history and fact ?',
    'do you know the story of the old piano ? i played it on a sunny day .',
    '_go _eos _nofact your persona : i have three dogs and a small boat .',
)
SIZES = {
    'hidden_size': 16,
    'num_hidden_layers': 2,
    'num_attention_heads': 2,
    'intermediate_size': 24,
}
ENCODER = {
    **SIZES,
    'num_hidden_layers': 1,
    'intermediate_size': 16,
    'max_position_embeddings': 24,
}
ROBERTA_SPECIAL = ['<s>', '<pad>', '</s>', '<unk>', '<mask>']
ITEMS = (
    ScoringItem(
        ('do you like jazz ?', 'yes , i like the old piano . do you ?'),
        'i do ! i played it on a boat .',
        facts='the piano is old and it has a story .',
    ),
    ScoringItem(
        ('i have three dogs .',),
        'do you know the dogs ?',
        persona=('i have a small boat .', 'i like music .'),
    ),
    ScoringItem(('hi there .',), 'yes'),
)


def spread(model, seed=0):
    """
    Draw weights wide enough that outputs differ, and return the model.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0, 0.4, generator=generator)
    return model.eval()


def roberta_tokenizer():
    """
    Return a byte-level tokenizer that writes texts and pairs as RoBERTa's does.
    """
    learner = ByteLevelBPETokenizer()
    learner.train_from_iterator(TEXTS, 330, 0, special_tokens=ROBERTA_SPECIAL)
    merges = json.loads(learner.to_str())['model']['merges']
    return transformers.RobertaTokenizer(
        vocab=learner.get_vocab(), merges=[*map(tuple, merges)]
    )


def make_roberta(folder, kind, seed=0, **config):
    """
    Write a RoBERTa of a class of transformers, and return its folder.
    """
    tokenizer = roberta_tokenizer()
    settings = transformers.RobertaConfig(
        **{**SIZES, 'max_position_embeddings': 202, **config},
        vocab_size=len(tokenizer),
        type_vocab_size=1,
        pad_token_id=1,
    )
    spread(kind(settings), seed).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def make_t5(folder):
    """
    Write a T5 with T5's own tokenizer class, and return its folder.
    """
    words = sorted({word for text in TEXTS for word in text.split()} | {'Yes', 'No'})
    pieces = [('<pad>', 0.0), ('</s>', 0.0), ('<unk>', 0.0), ('▁', -3.0)]
    pieces += [(f'▁{word}', -2.0) for word in words]
    pieces += [(chr(code), -6.0) for code in range(33, 127)]
    tokenizer = transformers.T5Tokenizer(vocab=pieces, extra_ids=0)
    config = transformers.T5Config(
        **{'d_model': 16, 'd_kv': 8, 'd_ff': 24, 'num_layers': 2, 'num_heads': 2},
        vocab_size=len(tokenizer),
        decoder_start_token_id=0,
    )
    spread(transformers.T5ForConditionalGeneration(config)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def bert_tokenizer():
    """
    Return a WordPiece tokenizer with a special token between turns.
    """
    special = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]']
    words = sorted({word for text in TEXTS for word in text.split()})
    vocabulary = {token: i for i, token in enumerate([*special, *words])}
    tokenizer = transformers.BertTokenizer(vocab=vocabulary)
    tokenizer.add_special_tokens({'additional_special_tokens': ['[SEPT]']})
    return tokenizer


def make_bert(folder, kind=transformers.BertModel, tokenizer=None, **config):
    """
    Write a BERT of a class of transformers, and return its folder.
    """
    tokenizer = tokenizer or bert_tokenizer()
    settings = transformers.BertConfig(
        **{**SIZES, 'max_position_embeddings': 64, **config},
        vocab_size=len(tokenizer),
    )
    spread(kind(settings)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def make_encoder(folder, n_labels=None, n_layers=1):
    """
    Write an encoder, or with labels a classifier, and return its folder.
    """
    kind, labels = transformers.BertModel, {}
    if n_labels is not None:
        kind = transformers.BertForSequenceClassification
        labels = {'num_labels': n_labels}
    sizes = {**ENCODER, 'num_hidden_layers': n_layers}
    return make_bert(folder, kind, make_tokenizer(WORDS), **sizes, **labels)
