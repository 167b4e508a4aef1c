"""
Small FiD and RAG models of the true classes, with passages, an exact index and a tiny
query encoder: everything that they need lies in one folder, nothing is downloaded.
"""

from functools import partial

import torch
from parlai.agents.rag import retrievers

from parlai_ext import compat
from parlai_ext.compat import faults
from tests.support.tiny_models import (
    POLY,
    SIZES,
    WORDS,
    draw_weights,
    make_model,
    make_ranker,
    sentences,
    stock_agent,
)

N_PASSAGES = 30
WIDTH = 16
BART = {
    **SIZES,
    'n_positions': 64,
    'truncate': 64,
    'n_encoder_layers': 2,
    'n_decoder_layers': 2,
    'variant': 'bart',
    'embeddings_scale': False,
    'fp16': False,
    'force_fp16_tokens': False,
    'label_truncate': 8,
    'beam_block_ngram': 1,
}
# so short that passages are cut in longer dialogues
RETRIEVER = {
    'generation_model': 'bart',
    'indexer_type': 'exact',
    'retriever_embedding_size': WIDTH,
    'n_docs': 3,
    'min_doc_token_length': 16,
}


# ParlAI gives every re-ranker the size of the zoo's (rag/args.py:40)
RERANKER = {
    **retrievers.TRANSFORMER_RANKER_BASE_OPT,
    **SIZES,
    'text_truncate': 64,
    'dict_tokenizer': 'space',
}
CODES = {
    'max_doc_token_length': 64,
    'rag_query_truncate': 64,
    **POLY,
}


def build(folder, name, model, seed, **more):
    """
    Make a model out of a plain BART, as FiD and RAG come about, and save it.

    :param more: options that go into its `.opt` file.
    :return: the options of a roster entry.
    """
    compat.apply()
    checkpoint = query_encoder(folder, seed)
    lines = sentences(4 * N_PASSAGES, seed)
    # longer than a passage may be in a longer dialogue
    texts = [' '.join(lines[i::N_PASSAGES]) for i in range(N_PASSAGES)]
    passages = write_passages(folder / f'{name}.tsv', texts)
    index = write_index(folder, name, seed)
    bart = make_model(folder, f'{name}_bart', seed, {**BART, 'model': 'bart'})
    where = {
        'model': model,
        'path_to_index': str(index),
        'path_to_dpr_passages': str(passages),
        'indexer_type': 'exact',
    }
    path = str(folder / name)
    agent = stock_agent(
        **{**BART, **RETRIEVER, **where, **more},
        model_file=path,
        init_model=bart,
        dict_file=f'{bart}.dict',
        dict_tokenizer='space',
        dpr_model_file=str(checkpoint),
    )
    draw_weights(agent.model, seed)
    agent.save(path)
    checkpoint.unlink()  # the query encoder is in the model file
    return {**where, 'model_file': path}


def build_poly(folder):
    """
    FiD whose passages a poly-encoder ranks again, as in `bart_fid_rag_dpr_poly`.
    """
    where = {'polyencoder_init_model': make_ranker(folder, 'ranker', 24, **RERANKER)}
    kind = {'rag_retriever_type': 'dpr_then_poly', 'dpr_num_docs': 8, **CODES}
    return {**build(folder, 'poly', 'fid', 24, **kind, **where), **where}


def write_passages(path, texts):
    """
    Write passages as ParlAI reads them, numbered from 1.
    """
    rows = [f'{i}\t{text}\t{text.split()[0]}' for i, text in enumerate(texts, start=1)]
    path.write_text('\n'.join(['id\ttext\ttitle', *rows, '']), encoding='utf-8')
    return path


def query_encoder(folder, seed):
    """
    Write a tiny BERT's vocabulary and configuration, and a checkpoint of DPR over it.
    """
    from transformers import BertConfig, BertModel

    home = folder / faults.BERT_FOLDER
    home.mkdir(exist_ok=True)
    words = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', *WORDS]
    (home / 'vocab.txt').write_text('\n'.join([*words, '']), encoding='utf-8')
    size = {'hidden_size': WIDTH, 'intermediate_size': 2 * WIDTH}
    layers = {'num_hidden_layers': 2, 'num_attention_heads': 2}
    config = BertConfig(vocab_size=len(words), **size, **layers)
    config.save_pretrained(home)
    bert = BertModel(config)
    draw_weights(bert, seed)
    states = {f'question_model.{key}': v for key, v in bert.state_dict().items()}
    path = folder / f'dpr{seed}.cp'
    torch.save({'model_dict': states}, path)
    return path


def write_index(folder, name, seed):
    """
    Index drawn vectors, which stand for the passages, with ParlAI's own script.
    """
    from parlai.agents.rag.scripts.index_dense_embeddings import Indexer

    home = folder / f'{name}_index'
    home.mkdir()
    torch.manual_seed(seed)
    torch.save(torch.randn(N_PASSAGES, WIDTH), home / 'passages_0.pt')
    torch.save([str(n + 1) for n in range(N_PASSAGES)], home / 'ids_0')
    kind = {'indexer_type': 'exact', 'retriever_embedding_size': WIDTH}
    index = home / 'passages.index'  # left out, the script would download another
    where = {'embeddings_dir': str(home), 'embeddings_name': 'passages'}
    Indexer.main(path_to_index=str(index), **where, **kind)
    return index


# fusion in decoder, as in `zoo:hallucination/bart_fid_dpr`
build_fid = partial(build, name='fid', model='fid', seed=21)
FAMILIES = {
    'fid': build_fid,
    # RAG-Token, as in `zoo:hallucination/bart_rag_token`
    'rag': partial(build, name='rag', model='rag', seed=22),
}
KINDS = {
    **FAMILIES,
    # RAG-Sequence: a row of its own for every passage
    'sequence': partial(
        build, name='sequence', model='rag', seed=23, rag_model_type='sequence'
    ),
    # RAG-Turn: passages for each of the last turns
    'turn': partial(
        build,
        name='turn',
        model='rag',
        seed=25,
        rag_model_type='turn',
        rag_turn_marginalize='doc_only',
    ),
    'poly': build_poly,
}
