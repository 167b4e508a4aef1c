"""
Systems that look passages up: the files that they read beside their model.

FiD and RAG find passages for the dialogue in an index, so the index and the passages
are part of what such a system is, and their absence is told before it is built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from parlai_ext.compat.rag import BERT_FILES, bert_home, index_files
from parlai_ext.core.errors import UserError
from parlai_ext.systems import zoo
from parlai_ext.systems.fetch.data_folder import data_folder, local_path

# kinds of retriever that read an index (rag/args.py:80)
WITH_INDEX = ('dpr', 'dpr_then_poly', 'poly_faiss', 'search_term_faiss')
ZOO_RERANKERS = ('wikito', 'reddit')

Where = Callable[[str, str], UserError]


def retrieval_paths(opt: Mapping[str, Any]) -> dict[str, str]:
    """
    Return the paths of index, passages and re-ranker by option, as they are given.

    Empty for a system that looks nothing up. Some may be of the zoo.
    """
    kind = opt.get('rag_retriever_type')
    kind = kind or ('dpr' if opt.get('model') in ('fid', 'rag') else None)
    if kind not in WITH_INDEX:
        return {}
    keys = ('path_to_index', 'path_to_dpr_passages')
    found = {key: str(opt[key]) for key in keys if opt.get(key)}
    reranker = str(opt.get('polyencoder_init_model', 'wikito'))
    if kind == 'dpr_then_poly':
        if reranker in ZOO_RERANKERS:
            home = f'zoo:pretrained_transformers/poly_model_huge_{reranker}'
            reranker = f'{home}/model'
        found['polyencoder_init_model'] = reranker
    return found


def check_retrieval(opt: Mapping[str, Any], where: Where, datapath: str | None) -> None:
    """
    Refuse a system that looks passages up where something for that is not there.

    What is of the zoo is downloaded.

    :param opt: what the agent will be built with.
    :param where: makes the error about an option of this system.
    """
    paths = retrieval_paths(opt)
    if not paths:
        return
    datapath = opt.get('datapath') or datapath
    turns = opt.get('model') == 'rag' and opt.get('rag_model_type') == 'turn'
    if turns and opt.get('rag_turn_marginalize') != 'doc_only':
        # model_types.py:1029: a decoder row for each passage, but none for each turn
        raise where('rag_turn_marginalize', 'ParlAI can generate with doc_only alone')
    if find_spec('faiss') is None:
        raise where('path_to_index', "needs faiss: pip install 'parlai_ext[rag]'")
    for key, path in paths.items():
        try:
            missing = _missing(key, path, opt, datapath)
        except UserError as error:
            raise where(key, str(error)) from error
        if missing:
            raise where(key, missing)
    if _bert(opt):
        try:
            bert_home(_placed(opt, datapath))
        except UserError as error:
            raise where('query_model', str(error)) from error


def _missing(
    key: str, path: str, opt: Mapping[str, Any], datapath: str | None
) -> str | None:
    if path.endswith('.gz'):
        return f'{path} is packed; unpack it, for ParlAI reads plain text only'
    hints = {
        'path_to_index': '; parlai.agents.rag.scripts.index_dense_embeddings writes it',
        'path_to_dpr_passages': '; it is tab-separated: id, text, title',
    }
    files = _files(key, zoo.fetch_path(path, datapath), opt, datapath)
    lost = next((file for file in files if not file.is_file()), None)
    return f'there is no file {lost}{hints.get(key, "")}' if lost else None


def _files(
    key: str, place: Path, opt: Mapping[str, Any], datapath: str | None
) -> list[Path]:
    """
    Return the files that an option stands for.
    """
    if key == 'polyencoder_init_model':
        return [place, Path(f'{place}.dict')]
    if key != 'path_to_index':
        return [place]
    vectors = opt.get('path_to_dense_embeddings')
    return index_files(place, local_path(str(vectors), datapath) if vectors else None)


def retrieval_files(opt: Mapping[str, Any], datapath: str | None) -> dict[str, Path]:
    """
    Return the files that make the retriever what it is, each under a name for a hash.

    What is not here is downloaded.

    :param opt: the model's own options with those of the roster over them.
    :raises UserError: when something cannot be had.
    """
    found: dict[str, Path] = {}
    datapath = opt.get('datapath') or datapath
    for key, path in retrieval_paths(opt).items():
        files = _files(key, zoo.fetch_path(path, datapath), opt, datapath)
        found |= {f'{key}.{i}' if i else key: file for i, file in enumerate(files)}
    if found and _bert(opt):
        home = bert_home(_placed(opt, datapath))
        found |= {f'query_model/{name}': home / name for name in BERT_FILES}
    return found


def _bert(opt: Mapping[str, Any]) -> bool:
    return str(opt.get('query_model', 'bert')).startswith('bert')


def _placed(opt: Mapping[str, Any], datapath: str | None) -> dict[str, Any]:
    """
    Return the options with the model file and the data folder of this machine.
    """
    model_file = str(opt.get('model_file') or '')
    place = str(local_path(model_file, datapath)) if model_file else None
    return {**opt, 'model_file': place, 'datapath': data_folder(datapath)}
