"""
Tiny Hugging Face encoders and chat models with random weights.
"""

import torch
import transformers

from tests.support.family_hf import make_tokenizer
from tests.support.tiny_models import WORDS

SIZES = {
    'hidden_size': 16,
    'num_hidden_layers': 1,
    'num_attention_heads': 2,
    'intermediate_size': 16,
    'max_position_embeddings': 24,
}


def make_encoder(folder, n_labels=None, n_layers=1):
    """
    Write an encoder, or with labels a classifier, and return its folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer(WORDS)
    tokenizer.save_pretrained(folder)
    labels = {} if n_labels is None else {'num_labels': n_labels}
    sizes = {**SIZES, 'num_hidden_layers': n_layers}
    config = transformers.BertConfig(vocab_size=len(tokenizer), **sizes, **labels)
    torch.manual_seed(0)
    kind = transformers.BertModel
    if n_labels is not None:
        kind = transformers.BertForSequenceClassification
    kind(config).save_pretrained(folder)
    return str(folder)
