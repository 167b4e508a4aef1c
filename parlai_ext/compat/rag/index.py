"""
The index and its passages.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from parlai_ext.compat.rag.files import index_files
from parlai_ext.core.errors import UserError


def index_is_only_read(module: Any) -> None:
    """
    rag/indexers.py:170 writes beside the index that it reads, so that what a system is
    would change with its first use.
    """

    def deserialize_from(self: Any, file: str, emb_path: str | None = None) -> None:
        index, *numbers = index_files(file, emb_path)
        # an index can name another file of this machine for its lists, to be written
        # to; what is beside it is taken instead, and only read
        flags = self.faiss.IO_FLAG_ONDISK_SAME_DIR | self.faiss.IO_FLAG_READ_ONLY
        self.index = self.faiss.read_index(str(index), flags)
        numbered = [module.torch.load(path) for path in numbers]
        self.index_id_to_db_id = [i for part in numbered for i in part]
        if len(self.index_id_to_db_id) != self.index.ntotal:
            raise UserError(
                f'path_to_index: {index} has {self.index.ntotal} passages, but '
                f'{len(self.index_id_to_db_id)} are numbered in {numbers[0]}'
            )

    module.BaseIndexer.deserialize_from = deserialize_from


def index_fits_its_passages(module: Any) -> None:
    """
    rag/retrievers.py:698 and indexers.py:108: a passage that is not there is a KeyError
    in mid-dialogue, and one too many asked for is silently the last of the index.
    """
    retriever = module.DPRRetriever
    original = retriever.load_index

    @wraps(original)
    def load_index(self: Any, opt: Any, shared: Any) -> None:
        original(self, opt, shared)
        ids, wanted = self.indexer.index_id_to_db_id, opt['n_docs']
        poly = opt['rag_retriever_type'] == 'dpr_then_poly'
        key = 'dpr_num_docs' if poly else 'n_docs'
        if wanted > len(ids):
            raise UserError(
                f'{key}: {wanted} passages are wanted, but the index has {len(ids)}'
            )
        lost = next((i for i in ids if str(int(i)) not in self.passages), None)
        if lost is not None:
            raise UserError(
                f'path_to_dpr_passages: passage {lost} of the index is not in '
                f'{opt["path_to_dpr_passages"]}; both must be of the same passages'
            )

    retriever.load_index = load_index
