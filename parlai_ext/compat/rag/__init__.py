"""
What the FiD and RAG agents of ParlAI 1.7.2 break on, and the mend for each.

They read passages that a dense index finds for the dialogue. The fixes are in the
manner of the other fixes, and `compat` puts them in place.
"""

from parlai_ext.compat.libraries import progress_of_what_takes_time
from parlai_ext.compat.rag.encoder import (
    bert_tokenizer_from_folder,
    bert_weights_replaced_by_dpr,
    query_encoder_of_a_plain_model,
    query_encoder_of_the_model_file,
)
from parlai_ext.compat.rag.index import index_fits_its_passages, index_is_only_read
from parlai_ext.compat.rag.rows import (
    context_of_their_own_row,
    documents_beside_their_own_row,
)

FIXES = {
    'parlai.agents.rag.conversion_utils': (bert_weights_replaced_by_dpr,),
    'parlai.agents.rag.dpr': (query_encoder_of_the_model_file,),
    'parlai.agents.rag.indexers': (index_is_only_read,),
    'parlai.agents.rag.retrievers': (
        bert_tokenizer_from_folder,
        index_fits_its_passages,
        progress_of_what_takes_time,
    ),
    'parlai.agents.rag.modules': (documents_beside_their_own_row,),
    'parlai.agents.rag.rag': (
        query_encoder_of_a_plain_model,
        context_of_their_own_row,
    ),
}
