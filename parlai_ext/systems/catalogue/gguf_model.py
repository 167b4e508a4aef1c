"""
Conversion of a GGUF file into a folder that transformers reads: safetensors in float32,
config and tokenizer.

The weights are dequantised by the package `gguf` of llama.cpp's authors. The rest is
written here, from what the file says: the same file gives the same bytes on every
machine, whatever the version of transformers. (Its own converter leaves out that this
tokenizer reads numbers digit by digit, and needs accelerate.)
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from parlai_ext.core.errors import UserError
from parlai_ext.core.progress import bar_of
from parlai_ext.systems.safe.safetensors_file import disk_errors

# the ends of tensor names in GGUF, and in transformers
PARTS = {
    'attn_norm': 'input_layernorm',
    'attn_q': 'self_attn.q_proj',
    'attn_k': 'self_attn.k_proj',
    'attn_v': 'self_attn.v_proj',
    'attn_output': 'self_attn.o_proj',
    'ffn_norm': 'post_attention_layernorm',
    'ffn_gate': 'mlp.gate_proj',
    'ffn_up': 'mlp.up_proj',
    'ffn_down': 'mlp.down_proj',
}
WHOLE = {
    'token_embd.weight': 'model.embed_tokens.weight',
    'output_norm.weight': 'model.norm.weight',
    'output.weight': 'lm_head.weight',  # where it is not the embedding
}
# architecture, tokenizer, and how the tokenizer parts a text
KIND = ('general.architecture', 'tokenizer.ggml.model', 'tokenizer.ggml.pre')
LM_HEAD = 'output.weight'
TOKEN_IDS = ('bos_token_id', 'eos_token_id', 'pad_token_id')
CONTROL = 3  # the type of a token that no text has


def convert_gguf(file: Path, folder: Path, *, shown: bool) -> None:
    """
    Write the model in a GGUF file to a folder: a Llama with the tokenizer of SmolLM.

    :raises UserError: for other models, for a damaged file, and without `gguf`.
    """
    try:
        from gguf import GGUFReader
    except ImportError:
        raise UserError(
            'the package gguf, which converts the weights, is not installed; '
            'pip install gguf'
        ) from None
    try:
        reader = GGUFReader(file)
        facts = {name: field.contents() for name, field in reader.fields.items()}
        kind = tuple(facts.get(key) for key in KIND)
        if kind != ('llama', 'gpt2', 'smollm'):
            raise UserError(
                f'{file.name}: architecture and tokenizer {kind} are not read'
            )
        folder.mkdir(parents=True, exist_ok=True)
        config = _config(facts, tied=not any(t.name == LM_HEAD for t in reader.tensors))
        for name, content in (
            ('config.json', config),
            ('generation_config.json', {key: config[key] for key in TOKEN_IDS}),
            ('tokenizer.json', _tokenizer(facts)),
            ('tokenizer_config.json', _tokenizer_config(facts)),
        ):
            text = json.dumps(content, ensure_ascii=False, indent=1)
            (folder / name).write_text(f'{text}\n', 'utf-8')
        tensors = _tensors(reader, config, shown)
        with disk_errors(folder):
            save_file(tensors, folder / 'model.safetensors', {'format': 'pt'})
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise UserError(f'{file.name} cannot be converted: {error}') from None


def _config(facts: Mapping[str, Any], tied: bool) -> dict[str, Any]:
    """
    Return the config of `LlamaForCausalLM`.

    :param tied: the output layer is the embedding.
    """
    llama = {key.removeprefix('llama.'): value for key, value in facts.items()}
    ids = {
        f'{n}_token_id': facts[f'tokenizer.ggml.{n}_token_id'] for n in ('bos', 'eos')
    }
    ids['pad_token_id'] = facts['tokenizer.ggml.padding_token_id']
    theta = llama['rope.freq_base']
    return {
        'architectures': ['LlamaForCausalLM'],
        'model_type': 'llama',
        'dtype': 'float32',
        'hidden_act': 'silu',
        'attention_bias': False,
        'mlp_bias': False,
        'hidden_size': llama['embedding_length'],
        'intermediate_size': llama['feed_forward_length'],
        'max_position_embeddings': llama['context_length'],
        'num_attention_heads': llama['attention.head_count'],
        'num_key_value_heads': llama['attention.head_count_kv'],
        'num_hidden_layers': llama['block_count'],
        'head_dim': llama['rope.dimension_count'],
        'rms_norm_eps': llama['attention.layer_norm_rms_epsilon'],
        'rope_parameters': {'rope_theta': theta, 'rope_type': 'default'},
        'rope_theta': theta,  # its place before transformers 5
        'tie_word_embeddings': tied,
        'vocab_size': llama['vocab_size'],
        **ids,
    }


def _tokenizer(facts: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the file of the library `tokenizers`: byte-level BPE over single digits.
    """
    tokens, types = facts['tokenizer.ggml.tokens'], facts['tokenizer.ggml.token_type']
    plain = {'single_word': False, 'lstrip': False, 'rstrip': False}
    control = [
        {'id': i, 'content': tokens[i], **plain, 'normalized': False, 'special': True}
        for i, kind in enumerate(types)
        if kind == CONTROL
    ]
    byte_level = {'type': 'ByteLevel', 'add_prefix_space': False, 'trim_offsets': True}
    byte_level['use_regex'] = True
    digits = {'type': 'Digits', 'individual_digits': True}
    return {
        'version': '1.0',
        'truncation': None,
        'padding': None,
        'added_tokens': control,
        'normalizer': None,
        'pre_tokenizer': {'type': 'Sequence', 'pretokenizers': [digits, byte_level]},
        'post_processor': None,
        'decoder': byte_level,
        'model': {
            'type': 'BPE',
            'dropout': None,
            'unk_token': None,
            'continuing_subword_prefix': None,
            'end_of_word_suffix': None,
            'fuse_unk': False,
            'byte_fallback': False,
            'ignore_merges': False,
            'vocab': {token: i for i, token in enumerate(tokens)},
            'merges': [m.split(' ') for m in facts['tokenizer.ggml.merges']],
        },
    }


def _tokenizer_config(facts: Mapping[str, Any]) -> dict[str, Any]:
    tokens = facts['tokenizer.ggml.tokens']
    names = {'bos': 'bos', 'eos': 'eos', 'unk': 'unknown', 'pad': 'padding'}
    return {
        'tokenizer_class': 'PreTrainedTokenizerFast',
        'model_max_length': facts['llama.context_length'],
        'clean_up_tokenization_spaces': False,
        **{
            f'{name}_token': tokens[facts[f'tokenizer.ggml.{named}_token_id']]
            for name, named in names.items()
        },
        'chat_template': facts['tokenizer.chat_template'],
    }


def _tensors(
    reader: Any, config: Mapping[str, Any], shown: bool
) -> dict[str, np.ndarray]:
    """
    Return the weights by their names in transformers.
    """
    from gguf import dequantize

    heads = {
        'attn_q': config['num_attention_heads'],
        'attn_k': config['num_key_value_heads'],
    }
    tensors = {}
    with bar_of('converting', len(reader.tensors), shown, unit='tensor') as bar:
        for tensor in reader.tensors:
            name, part = WHOLE.get(tensor.name), ''
            if name is None:
                _, layer, part, end = tensor.name.split('.')
                name = f'model.layers.{layer}.{PARTS[part]}.{end}'
            weights = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
            if part in heads:
                # llama.cpp turns pairs of neighbours, transformers one half of a head
                # against the other (`LlamaModel.permute` of convert_hf_to_gguf.py, the
                # other way round)
                pairs = weights.reshape(heads[part], -1, 2, weights.shape[1])
                weights = pairs.swapaxes(1, 2).reshape(weights.shape)
            tensors[name] = np.ascontiguousarray(weights)
            bar.update()
    return tensors
