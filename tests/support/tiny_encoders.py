"""
Tiny Hugging Face encoders and chat models with random weights.
"""

from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

from tests.support.tiny_models import sentences

SPECIAL = ('[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]')
SIZES = {
    'hidden_size': 16,
    'num_hidden_layers': 1,
    'num_attention_heads': 2,
    'intermediate_size': 16,
    'max_position_embeddings': 24,
}


def make_tokenizer(folder: Path) -> int:
    """
    Write a tokenizer of whole words and return the size of its vocabulary.
    """
    words = sorted({word for text in sentences(60) for word in text.split()})
    vocabulary = {word: i for i, word in enumerate((*SPECIAL, *words))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token='[UNK]'))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    names = ('pad_token', 'unk_token', 'cls_token', 'sep_token', 'mask_token')
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **dict(zip(names, SPECIAL, strict=True))
    ).save_pretrained(folder)
    return len(vocabulary)


def make_encoder(folder: Path, n_labels: int | None = None) -> str:
    """
    Write an encoder, or with labels a classifier, and return its folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    size = make_tokenizer(folder)
    labels = {} if n_labels is None else {'num_labels': n_labels}
    config = transformers.BertConfig(vocab_size=size, **SIZES, **labels)
    torch.manual_seed(0)
    kind = transformers.BertModel
    if n_labels is not None:
        kind = transformers.BertForSequenceClassification
    kind(config).save_pretrained(folder)
    return str(folder)
