"""
FiD and RAG, which find passages for the dialogue in an index: the files that they read
beside their model are part of what such a system is, and a missing one is named before
the system is built.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from parlai_ext.compat.rag import BERT_FILES, bert_home, index_files
from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import System
from parlai_ext.files.option_files import sha256
from parlai_ext.systems import zoo
from parlai_ext.systems.family import Family, OptionError
from parlai_ext.systems.fetch.data_folder import data_folder, local_path

# kinds of retriever that read an index (rag/args.py:80)
WITH_INDEX = ('dpr', 'dpr_then_poly', 'poly_faiss', 'search_term_faiss')
ZOO_RERANKERS = ('wikito', 'reddit')


class Passages(Family):
    """
    Systems that read an index of passages.
    """

    agents = ('fid', 'rag')
    built_with = {'fixed_candidate_vecs': 'replace'}  # of a poly-encoder inside it

    def covers(self, opt: Mapping[str, Any]) -> bool:
        return 'rag_retriever_type' in opt or super().covers(opt)

    def check(
        self, opt: Mapping[str, Any], error: OptionError, datapath: str | None
    ) -> None:
        check_retrieval(opt, error, datapath)

    def contents(
        self, system: System, opt: Mapping[str, Any], datapath: str | None
    ) -> dict[str, str]:
        files = retrieval_files(opt, datapath)
        for key, file in files.items():
            if not file.is_file():
                raise UserError(f'{key}: there is no file {file}')
        return {f'retrieval/{key}': sha256(file) for key, file in files.items()}


def retrieval_paths(opt: Mapping[str, Any]) -> dict[str, str]:
    """
    Return the paths of index, passages and re-ranker by option, as they are given.

    Empty for a system that reads no index. Some may be of the zoo.
    """
    kind = opt.get('rag_retriever_type')
    kind = kind or ('dpr' if opt.get('model') in ('fid', 'rag') else None)
    if kind not in WITH_INDEX:
        return {}
    keys = ('path_to_index', 'path_to_dpr_passages')
    paths = {key: str(opt[key]) for key in keys if opt.get(key)}
    reranker = str(opt.get('polyencoder_init_model', 'wikito'))
    if kind == 'dpr_then_poly':
        if reranker in ZOO_RERANKERS:
            home = f'zoo:pretrained_transformers/poly_model_huge_{reranker}'
            reranker = f'{home}/model'
        paths['polyencoder_init_model'] = reranker
    return paths


def check_retrieval(
    opt: Mapping[str, Any], error_about: OptionError, datapath: str | None
) -> None:
    """
    Refuse a system that lacks something for finding passages; download what the zoo
    has of it.
    """
    paths = retrieval_paths(opt)
    if not paths:
        return
    datapath = opt.get('datapath') or datapath
    turns = opt.get('model') == 'rag' and opt.get('rag_model_type') == 'turn'
    if turns and opt.get('rag_turn_marginalize') != 'doc_only':
        # model_types.py:1029: a decoder row for each passage, but none for each turn
        raise error_about(
            'rag_turn_marginalize', 'ParlAI can generate with doc_only alone'
        )
    if find_spec('faiss') is None:
        raise error_about('path_to_index', "needs faiss: pip install 'parlai_ext[rag]'")
    for key, path in paths.items():
        try:
            missing = _missing(key, path, opt, datapath)
        except UserError as error:
            raise error_about(key, str(error)) from error
        if missing:
            raise error_about(key, missing)
    if _encodes_with_bert(opt):
        try:
            bert_home(_with_local_places(opt, datapath))
        except UserError as error:
            raise error_about('query_model', str(error)) from error


def _missing(
    key: str, path: str, opt: Mapping[str, Any], datapath: str | None
) -> str | None:
    """
    Return what is wrong with the file that an option names; `None` if it is there.
    """
    if path.endswith('.gz'):
        return f'{path} is packed; unpack it, for ParlAI reads plain text only'
    hints = {
        'path_to_index': '; parlai.agents.rag.scripts.index_dense_embeddings writes it',
        'path_to_dpr_passages': '; it is tab-separated: id, text, title',
    }
    files = _files(key, zoo.fetch_path(path, datapath), opt, datapath)
    missing = next((file for file in files if not file.is_file()), None)
    return f'there is no file {missing}{hints.get(key, "")}' if missing else None


def _files(
    key: str, path: Path, opt: Mapping[str, Any], datapath: str | None
) -> list[Path]:
    """
    Return the files that the value of an option stands for.
    """
    if key == 'polyencoder_init_model':
        return [path, Path(f'{path}.dict')]
    if key != 'path_to_index':
        return [path]
    vectors = opt.get('path_to_dense_embeddings')
    return index_files(path, local_path(str(vectors), datapath) if vectors else None)


def retrieval_files(opt: Mapping[str, Any], datapath: str | None) -> dict[str, Path]:
    """
    Return the files that the retriever reads, by a name for each file's hash.

    Files of the zoo are downloaded when they are not here.

    :param opt: the model's own options with those of the roster over them.
    :raises UserError: when something cannot be had.
    """
    named: dict[str, Path] = {}
    datapath = opt.get('datapath') or datapath
    for key, path in retrieval_paths(opt).items():
        files = _files(key, zoo.fetch_path(path, datapath), opt, datapath)
        named |= {f'{key}.{i}' if i else key: file for i, file in enumerate(files)}
    if named and _encodes_with_bert(opt):
        home = bert_home(_with_local_places(opt, datapath))
        named |= {f'query_model/{name}': home / name for name in BERT_FILES}
    return named


def _encodes_with_bert(opt: Mapping[str, Any]) -> bool:
    return str(opt.get('query_model', 'bert')).startswith('bert')


def _with_local_places(opt: Mapping[str, Any], datapath: str | None) -> dict[str, Any]:
    """
    Return the options with the model file and the data folder of this machine.
    """
    model_file = str(opt.get('model_file') or '')
    path = str(local_path(model_file, datapath)) if model_file else None
    return {**opt, 'model_file': path, 'datapath': data_folder(datapath)}
