"""
A tiny GPT-2 with a byte-level tokenizer, and FED worked out the long way.
"""

from types import SimpleNamespace

import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    GPT2TokenizerFast,
)

from parlai_ext.models.likelihood import Causal
from tests.support.tiny_models import draw_weights, sentences

END = '<|endoftext|>'


def learn_bytes(folder, size, special=()):
    """
    Write the files of a byte-level tokenizer that learned a few words, and return it.
    """
    learner = ByteLevelBPETokenizer()
    texts = [*sentences(40), "That's what I don't understand at all!"]
    learner.train_from_iterator(texts, size, 0, False, [*special])
    learner.save_model(str(folder))
    return learner


def make_gpt2(folder, positions=512):
    """
    Write a tiny GPT-2 with such a tokenizer.
    """
    learner = learn_bytes(folder, 400, [END])
    learner.save(str(folder / 'tokenizer.json'))
    tokenizer = GPT2TokenizerFast(tokenizer_file=str(folder / 'tokenizer.json'))
    tokenizer.save_pretrained(folder)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=positions,
        n_embd=32,
        n_layer=2,
        n_head=4,
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    model = GPT2LMHeadModel(config)
    draw_weights(model, 3)
    model.save_pretrained(folder)
    return folder


def gpt2(folder):
    """
    Return the model of a folder in float64, and its tokenizer.
    """
    model = GPT2LMHeadModel.from_pretrained(folder).double().eval()
    return model, GPT2TokenizerFast.from_pretrained(folder)


def judge(folder):
    """
    Return the model as a judge of token ids.
    """
    model, tokenizer = gpt2(folder)
    vectorizer = SimpleNamespace(tokenizer=tokenizer)
    return Causal(model, vectorizer, 'tiny gpt2')


def string_loss(model, ids, after=0):
    """
    Return a string's mean loss from one pass; its first ``after`` tokens are only read.

    Hugging Face's own ``loss`` is that, rounded to float32.
    """
    first = max(1, after)
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, first - 1 : -1]
    return float(torch.nn.functional.cross_entropy(logits, torch.tensor(ids[first:])))


def string_logprob(folder, text):
    """
    Return log P of all tokens of a text but the first, and their number.
    """
    model, tokenizer = gpt2(folder)
    ids = tokenizer.encode(text)
    return -string_loss(model, ids) * (len(ids) - 1), len(ids) - 1


def by_hand(folder, utterances, followups, scope):
    """
    Return the 2020 program's scores: mean loss of complaints less that of praise.
    """
    model, tokenizer = gpt2(folder)
    said = ' '.join(f'{END} {text}' for text in utterances) + f' {END}'
    read = len(tokenizer.encode(said)) if scope == 'followup' else 0

    def mean_loss(texts):
        ids = [tokenizer.encode(f'{said} {text}') for text in texts]
        losses = [string_loss(model, one, read) for one in ids]
        return sum(losses) / max(1, len(losses))

    return {
        name: mean_loss(sides.negative) - mean_loss(sides.positive)
        for name, sides in followups.dimensions.items()
    }


def chat_loss(folder, *texts):
    """
    Return transformers' loss of the last message of a conversation, its end included.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    roles = ('user', 'assistant')
    parts = [{'role': roles[i % 2], 'content': t} for i, t in enumerate(texts)]
    ids = tokenizer.encode(
        tokenizer.apply_chat_template(parts, tokenize=False), add_special_tokens=False
    )
    last = len(tokenizer.encode(texts[-1], add_special_tokens=False)) + 1
    return string_loss(model, ids, len(ids) - last)


def huggingface_loss(folder, context, response):
    """
    Return transformers' own loss of the response's tokens, its end token included.
    """
    model, tokenizer = gpt2(folder)
    before = tokenizer.encode(''.join(text + END for text in context) or END)
    ids = before + tokenizer.encode(response + END)
    labels = torch.tensor([[-100] * len(before) + ids[len(before) :]])
    with torch.no_grad():
        return float(model(torch.tensor([ids]), labels=labels).loss)
