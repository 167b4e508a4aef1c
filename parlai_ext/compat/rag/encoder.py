"""
The encoder of queries: where its words and its weights come from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any

from parlai_ext.compat.rag.files import BERT, bert_home

_bert_home: ContextVar[Path | None] = ContextVar('bert_home', default=None)


@contextmanager
def _bert_of(opt: Mapping[str, Any]) -> Iterator[None]:
    token = _bert_home.set(bert_home(opt))
    try:
        yield
    finally:
        _bert_home.reset(token)


class FromFolder:
    """
    Stands for a class of transformers where ParlAI asks it for ``bert-base-uncased``.

    Offline, transformers 5 gives a tokenizer without words instead of an error: every
    query would be unknown words, and ParlAI would never look into its data folder.
    """

    def __init__(self, kind: Any, bare: bool = False):
        self.kind = kind
        self.bare = bare  # a model whose weights are about to be replaced anyway

    def from_pretrained(self, name: str, *args: Any, **kwargs: Any) -> Any:
        home = _bert_home.get()
        if name != BERT or home is None:
            return self.kind.from_pretrained(name, *args, **kwargs)
        if self.bare:
            config = self.kind.config_class.from_pretrained(str(home))
            return self.kind(config)
        return self.kind.from_pretrained(str(home), *args, **kwargs)


def bert_tokenizer_from_folder(module: Any) -> None:
    """
    rag/retrievers.py:271 asks the hub first, and takes what is not there for a find.
    """
    module.BertTokenizer = FromFolder(module.BertTokenizer)
    retriever = module.RagRetriever
    original = retriever.__init__

    @wraps(original)
    def __init__(self: Any, opt: Any, *args: Any, **kwargs: Any) -> None:
        if not str(opt['query_model']).startswith('bert'):
            return original(self, opt, *args, **kwargs)
        with _bert_of(opt):
            original(self, opt, *args, **kwargs)

    retriever.__init__ = __init__


def bert_weights_replaced_by_dpr(module: Any) -> None:
    """
    rag/conversion_utils.py:60 downloads BERT only to load DPR's weights over it.
    """
    module.BertModel = FromFolder(module.BertModel, bare=True)


def query_encoder_of_the_model_file(module: Any) -> None:
    """
    rag/dpr.py:106 downloads a DPR checkpoint (or a whole other RAG model) even when the
    model file holds the trained query encoder, which replaces it.
    """
    module.BertConfig = FromFolder(module.BertConfig)
    encoder = module.DprEncoder
    original = encoder.__init__

    @wraps(original)
    def __init__(
        self: Any,
        opt: Any,
        dpr_model: str = 'bert',
        pretrained_path: str = module.DPR_ZOO_MODEL,
        encoder_type: str = 'query',
    ) -> None:
        if encoder_type == 'query' and comes_with_the_model(opt):
            # for a name that it does not know, `_load_state` loads nothing
            dpr_model, pretrained_path = 'model_file', opt['model_file']
        with _bert_of(opt):
            original(self, opt, dpr_model, pretrained_path, encoder_type)

    encoder.__init__ = __init__


def comes_with_the_model(opt: Mapping[str, Any]) -> bool:
    """
    Tell whether a query encoder will be loaded from the model file.

    As in rag/rag.py:453, a DPR checkpoint that is named and there wins over it.
    """
    named = opt.get('override', {}).get('dpr_model_file')
    model_file = opt.get('model_file')
    return bool(
        'rag_retriever_type' in opt
        and model_file
        and Path(model_file).is_file()
        and not (named and Path(named).is_file())
    )


def query_encoder_of_a_plain_model(module: Any) -> None:
    """
    A plain BART can be loaded as FiD or RAG: then the encoder is DPR's after all.
    """
    agent = module.RagAgent
    original = agent.load_state_dict

    @wraps(original)
    def load_state_dict(self: Any, state_dict: dict[str, Any]) -> None:
        encoder = getattr(self.model.retriever, 'query_encoder', None)
        inside = any(k.startswith('retriever.query_encoder.') for k in state_dict)
        if encoder is not None and not inside and comes_with_the_model(self.opt):
            dpr = (self.opt['query_model'], self.opt['dpr_model_file'])
            with _bert_of(self.opt):
                fresh = type(encoder)({**self.opt, 'model_file': None}, *dpr)
            encoder.load_state_dict(fresh.state_dict())
        original(self, state_dict)

    agent.load_state_dict = load_state_dict
