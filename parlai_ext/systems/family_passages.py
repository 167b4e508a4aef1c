"""
FiD and RAG, which find passages for the dialogue in an index: the files that they read
beside their model are part of what such a system is, and a missing one is named before
the system is built.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from parlai_ext.compat.rag import BERT_FILES, bert_home, index_files
from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import System
from parlai_ext.files.option_files import sha256
from parlai_ext.systems import zoo
from parlai_ext.systems.family import Family, OptionError, Options
from parlai_ext.systems.fetch.data_folder import data_folder, local_path

# kinds of retriever that read an index (rag/args.py:80)
WITH_INDEX = ('dpr', 'dpr_then_poly', 'poly_faiss', 'search_term_faiss')
ZOO_RERANKERS = ('wikito', 'reddit')
HINTS = {
    'path_to_index': '; parlai.agents.rag.scripts.index_dense_embeddings writes it',
    'path_to_dpr_passages': '; it is tab-separated: id, text, title',
}


class Passages(Family):
    """
    Systems that read an index of passages.
    """

    agents = ('fid', 'rag')
    built_with = {'fixed_candidate_vecs': 'replace'}  # of a poly-encoder inside it

    def covers(self, opt: Options) -> bool:
        return 'rag_retriever_type' in opt or super().covers(opt)

    def check(self, opt: Options, error: OptionError, datapath: str | None) -> None:
        paths = retrieval_paths(opt)
        if not paths:
            return
        turns = opt.get('model') == 'rag' and opt.get('rag_model_type') == 'turn'
        if turns and opt.get('rag_turn_marginalize') != 'doc_only':
            # model_types.py:1029: a decoder row for each passage, none for each turn
            raise error(
                'rag_turn_marginalize', 'ParlAI can generate with doc_only alone'
            )
        if find_spec('faiss') is None:
            raise error('path_to_index', "needs faiss: pip install 'parlai_ext[rag]'")
        key = ''
        try:
            for key, path in paths.items():
                if path.endswith('.gz'):
                    unpack = 'unpack it, for ParlAI reads plain text only'
                    raise UserError(f'{path} is packed; {unpack}')
                for file in _files(key, path, opt, datapath):
                    if not file.is_file():
                        hint = HINTS.get(key, '')
                        raise UserError(f'there is no file {file}{hint}')
            key = 'query_model'
            _bert_files(opt, datapath)
        except UserError as problem:
            raise error(key, str(problem)) from problem

    def contents(
        self, system: System, opt: Options, datapath: str | None
    ) -> dict[str, str]:
        named: dict[str, Path] = {}
        for key, path in retrieval_paths(opt).items():
            files = _files(key, path, opt, datapath)
            named |= {f'{key}.{i}' if i else key: file for i, file in enumerate(files)}
        if named:
            named |= _bert_files(opt, datapath)
        for key, file in named.items():
            if not file.is_file():
                raise UserError(f'{key}: there is no file {file}')
        return {f'retrieval/{key}': sha256(file) for key, file in named.items()}


def retrieval_paths(opt: Options) -> dict[str, str]:
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


def _files(key: str, path: str, opt: Options, datapath: str | None) -> list[Path]:
    """
    Return the files that the value of an option stands for; those of the zoo are
    downloaded when they are not here.
    """
    datapath = opt.get('datapath') or datapath
    file = zoo.fetch_path(path, datapath)
    if key == 'polyencoder_init_model':
        return [file, Path(f'{file}.dict')]
    if key != 'path_to_index':
        return [file]
    vectors = opt.get('path_to_dense_embeddings')
    return index_files(file, local_path(str(vectors), datapath) if vectors else None)


def _bert_files(opt: Options, datapath: str | None) -> dict[str, Path]:
    """
    Return the files of the query encoder, where that is a BERT, by a name for each.

    :raises UserError: when they cannot be had.
    """
    if not str(opt.get('query_model', 'bert')).startswith('bert'):
        return {}
    model_file = str(opt.get('model_file') or '')
    places = {
        'model_file': str(local_path(model_file, datapath)) if model_file else None,
        'datapath': data_folder(opt.get('datapath') or datapath),
    }
    home = bert_home({**opt, **places})
    return {f'query_model/{name}': home / name for name in BERT_FILES}
