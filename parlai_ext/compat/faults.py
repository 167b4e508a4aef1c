"""
Faults of ParlAI 1.7.2, where it fails with current libraries or gives wrong results.

Each has a fix: a function whose docstring says where ParlAI goes wrong and what the fix
does. FiD and RAG answer with the help of passages that a dense index finds for the
dialogue; where the files are that they read is told here, too.
"""

import importlib.util
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parlai_ext import zoo_configs
from parlai_ext.compat.after_import import fixes, replaces
from parlai_ext.core import UserError, frozen, shortened
from parlai_ext.view.progress import bar_settings

if TYPE_CHECKING:
    from parlai.core.opt import Opt

# --- libraries that have changed since, and progress bars -----------------------------


@contextmanager
def without_bars() -> Iterator[None]:
    """
    Keep transformers from showing progress bars, which would tear up ours.
    """
    from transformers.utils import logging

    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()


@replaces('parlai.agents.hugging_face.gpt2', 'GPT2Decoder.__init__')
def load_gpt2_without_bars(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
    """
    ParlAI lets transformers show a progress bar while GPT-2 and DialoGPT are loaded
    (agents/hugging_face/gpt2.py:79, dialogpt.py:54). The fix hides it.
    """
    with without_bars():
        original(self, *args, **kwargs)


@fixes('parlai.core.torch_ranker_agent', 'parlai.agents.rag.retrievers')
def show_bars_after_two_seconds(module: Any) -> None:
    """
    ParlAI shows a progress bar for every file, however small
    (core/torch_ranker_agent.py:992, agents/rag/retrievers.py:82). The fix shows it only
    after two seconds, and in a log file as lines.
    """
    original = module.tqdm

    def late_bar(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **{'delay': 2, **bar_settings(), **kwargs})

    module.tqdm = late_bar


@replaces('parlai.nn.lr_scheduler', 'ReduceOnPlateauLRScheduler.__init__')
def build_plateau_scheduler_without_verbose(
    original: Any,
    self: Any,
    optimizer: Any,
    patience: int,
    decay: float,
    *warmup: float,
) -> None:
    """
    ParlAI passes ``verbose`` to a scheduler that lost this argument with torch 2.7
    (nn/lr_scheduler.py:338): nothing can be trained with the default
    ``--lr-scheduler``. The fix does not pass it.
    """
    from parlai.nn.lr_scheduler import ParlAILRScheduler
    from torch.optim.lr_scheduler import ReduceLROnPlateau

    ParlAILRScheduler.__init__(self, *warmup)
    self.scheduler = ReduceLROnPlateau(
        optimizer, 'min', factor=decay, patience=patience
    )


@replaces(
    'parlai.agents.hugging_face.gpt2', 'HFGPT2Model.reorder_decoder_incremental_state'
)
def reorder_gpt2_cache_object(
    original: Any, self: Any, incremental_state: Any, inds: Any
) -> Any:
    """
    ParlAI reorders a cache of tuples (agents/hugging_face/gpt2.py:188), but in
    transformers 5 it is a `Cache` object: GPT-2 and DialoGPT cannot generate. The fix
    lets the object reorder itself.
    """
    incremental_state.reorder_cache(inds)
    return incremental_state


@replaces('parlai.core.dict', 'DictionaryAgent.txt2vec')
def make_token_id_arrays_of_int(
    original: Any, self: Any, text: str, vec_type: Any = list
) -> Any:
    """
    ParlAI uses ``np.int`` (core/dict.py:754), which numpy 1.24 removed. The fix uses
    ``int``.
    """
    import numpy as np

    if vec_type is not np.ndarray:
        return original(self, text, vec_type)
    return np.array(original(self, text, list), dtype=int)


# --- agents that crash or cannot be built ---------------------------------------------

PATIENCE = 10  # seconds until the hub counts as out of reach
# repositories by agent and `gpt2_size`, as parlai/agents/hugging_face loads them
HUB_REPOSITORIES = {
    'hugging_face/dialogpt': {
        'small': 'microsoft/DialoGPT-small',
        'medium': 'microsoft/DialoGPT-medium',
        'large': 'microsoft/DialoGPT-large',
    },
    'hugging_face/gpt2': {
        'small': 'gpt2',
        'medium': 'gpt2-medium',
        'large': 'gpt2-large',
        'xl': 'gpt2-xl',
    },
}


@replaces('parlai.agents.hugging_face.gpt2', 'HFGPT2Model.reorder_encoder_states')
def reorder_gpt2_encoder_by_list(
    original: Any, self: Any, encoder_states: Any, indices: Any
) -> Any:
    """
    ParlAI passes a list of rows (core/torch_generator_agent.py:892) to
    `torch.index_select` (agents/hugging_face/gpt2.py:178), which takes a tensor only:
    ``--rank-candidates`` crashes. The fix makes it a tensor.
    """
    import torch

    rows = torch.as_tensor(indices, device=encoder_states.device)
    return original(self, encoder_states, rows)


def load_dialogpt_by_name(kind: str, original: Any, self: Any, opt: 'Opt') -> Any:
    """
    ParlAI ignores ``--model-name`` and loads weights and tokenizer of ``--gpt2-size``
    from the hub (agents/hugging_face/dialogpt.py:51, dict.py:246). The fix loads those
    of ``--model-name``.
    """
    import transformers

    name = opt.get('model_name')
    kind_of = getattr(transformers, kind)
    return kind_of.from_pretrained(name) if name else original(self, opt)


for _module, _method, _kind in (
    ('dialogpt', 'DialoGPTDecoder._init_from_pretrained', 'GPT2Model'),
    ('dict', 'DialoGPTDictionaryAgent.get_tokenizer', 'GPT2Tokenizer'),
):
    replaces(f'parlai.agents.hugging_face.{_module}', _method)(
        partial(load_dialogpt_by_name, _kind)
    )


def refuse_missing_gpt2_in_one_line(
    agent: str, original: Any, self: Any, opt: Any
) -> Any:
    """
    Without the network ParlAI waits for minutes and ends in a traceback, or gets a
    tokenizer without words (agents/hugging_face/dict.py:172, 246). The fix says in one
    line what is missing.
    """
    from huggingface_hub import constants, try_to_load_from_cache

    option = 'model_name' if opt.get('model_name') else 'gpt2_size'
    repo = HUB_REPOSITORIES[agent].get(opt[option], opt[option])
    hint = 'model_name: FOLDER would be read from this machine'
    try:
        is_here = os.path.isdir(repo) or (
            repo.count('/') < 2 and try_to_load_from_cache(repo, 'config.json')
        )
        if not is_here and not constants.HF_HUB_OFFLINE and not is_reachable():
            raise OSError(f'{constants.ENDPOINT} does not answer')
        tokenizer = original(self, opt)
    except (OSError, ValueError) as error:
        why = shortened(str(error))
        raise UserError(f'{option}: {repo} cannot be had: {why}; {hint}') from None
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise UserError(f'{option}: no tokenizer of {repo} can be read; {hint}')
    return tokenizer


for _kind, _agent in (('Gpt2', 'gpt2'), ('DialoGPT', 'dialogpt')):
    replaces(
        'parlai.agents.hugging_face.dict', f'{_kind}DictionaryAgent.get_tokenizer'
    )(partial(refuse_missing_gpt2_in_one_line, f'hugging_face/{_agent}'))


def is_reachable() -> bool:
    """
    True if the hub's server answers at all, within `PATIENCE`.
    """
    from huggingface_hub import constants, get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=PATIENCE)
    except Exception:  # of whatever HTTP library the hub's client has
        return False
    return True


@fixes('parlai.core.torch_generator_agent')
def complete_delayed_nucleus_beam(module: Any) -> None:
    """
    ParlAI calls two methods that its class lacks (core/torch_generator_agent.py:1966):
    ``--inference delayednucleusbeam`` crashes. The fix adds nucleus sampling's.
    """
    search = module.DelayedNucleusBeamSearch
    search.get_mask = module.NucleusSampling.get_mask
    search.update_p = module.NucleusSampling.update_p


@replaces(
    'projects.dialogue_unlikelihood.agents',
    'SequenceVocabUnlikelihoodAgentTrait.__init__',
)
def need_no_word_counts_to_chat(
    original: Any, self: Any, opt: Any, shared: Any = None
) -> None:
    """
    ParlAI reads the word counts of a model's training even when the model only chats
    (projects/dialogue_unlikelihood/agents.py:353), from a path of its author's. The
    fix reads none where they are missing and the model is not trained.
    """
    folder = os.path.dirname(opt.get('model_file') or '')
    counts_file = opt.get('counts_file') or os.path.join(folder, 'counts.txt')
    training = 'train' in opt['datatype'] and 'evalmode' not in opt['datatype']
    if not training and not os.path.isfile(counts_file):
        opt['counts_file'] = os.devnull
    original(self, opt, shared)


@replaces('parlai.utils.bpe', 'BPEHelper.decode')
def decode_without_leading_space(
    original: Any, self: Any, tokens: Any, token_ids: Any, delimiter: str
) -> Any:
    """
    ParlAI asserts that a byte-level BPE reply begins with a space (utils/bpe.py:236),
    so that a model whose reply does not crashes. The fix decodes such a reply too.
    """
    try:
        return original(self, tokens, token_ids, delimiter)
    except AssertionError:
        return self.helper_decode(tokens, token_ids, delimiter)


@fixes('parlai.agents.transformer.polyencoder')
def silence_loss_warning(module: Any) -> None:
    """
    ParlAI builds its loss with an argument that torch warns of at every start
    (agents/transformer/polyencoder.py:122). The fix hides the warning.
    """
    warnings.filterwarnings('ignore', 'size_average and reduce args', UserWarning)


# --- a row is padded to the length of the longest one; its reply must not depend on it


@replaces('parlai.core.torch_generator_agent', 'TreeSearch.set_batch_context')
def block_context_without_padding(
    original: Any, self: Any, contexts: Any, row: int, gpu_beam_blocking: bool
) -> Any:
    """
    ParlAI gives a row's context with its padding to ``--beam-context-block-ngram``
    (core/torch_generator_agent.py:1513): the padding token, and n-grams that end in it,
    are forbidden in the shorter rows of a batch only. The fix removes the padding.
    """
    original(self, contexts, row, gpu_beam_blocking)
    if not gpu_beam_blocking:
        inside = [i for i, token in enumerate(self.context) if token != self.pad]
        self.context = self.context[inside[0] : inside[-1] + 1] if inside else []
    return self


@replaces('parlai.agents.seq2seq.modules', 'AttentionLayer.forward')
def attend_to_each_rows_own_end(
    original: Any, self: Any, xes: Any, hidden: Any, attn_params: Any
) -> Any:
    """
    ParlAI attends to the last ``--attention-length`` positions of the batch
    (agents/seq2seq/modules.py:683), where a shorter row has padding. The fix attends to
    the last ones of each row.
    """
    import torch

    states, mask = attn_params
    if self.attention == 'local' and states.size(1) > self.max_length:
        starts = (mask.sum(dim=1) - self.max_length).clamp(min=0)
        window = torch.arange(self.max_length, device=states.device)
        rows = torch.arange(len(states), device=states.device)
        positions = rows[:, None], starts[:, None] + window
        attn_params = states[positions], mask[positions]
    return original(self, xes, hidden, attn_params)


BERT = 'bert-base-uncased'
BERT_FOLDER = 'bert_base_uncased'  # ParlAI's name of the folder (rag/dpr.py:102)
BERT_FILES = ('config.json', 'vocab.txt')

# --- the files that a retriever reads beside its model -------------------------------


def bert_home(model_file: str | Path | None, datapath: str | None) -> Path:
    """
    Return the folder with the configuration and the vocabulary of the query encoder.

    It is the folder `bert_base_uncased` beside the model file or in ParlAI's data
    folder, and else the cache of the Hugging Face hub.

    :raises UserError: if it is in none of these and cannot be downloaded.
    """
    from huggingface_hub import hf_hub_download, try_to_load_from_cache

    homes = [Path(model_file).parent / BERT_FOLDER] if model_file else []
    homes += [Path(datapath, BERT_FOLDER)] if datapath else []
    cached = [  # the hub has renamed it
        try_to_load_from_cache(repo, BERT_FILES[-1])
        for repo in (BERT, f'google-bert/{BERT}')
    ]
    in_cache = [Path(file).parent for file in cached if isinstance(file, str)]
    for home in (*homes, *in_cache):
        if all((home / name).is_file() for name in BERT_FILES):
            return home
    try:
        files = [hf_hub_download(f'google-bert/{BERT}', name) for name in BERT_FILES]
    except (OSError, ValueError) as error:
        raise UserError(
            f'the tokenizer of {BERT} is missing and cannot be downloaded; put its '
            f'{" and ".join(BERT_FILES)} into {[Path(BERT_FOLDER), *homes][-1]}'
        ) from error
    return Path(files[0]).parent


def index_files(path: str | Path, embeddings: str | Path | None = None) -> list[Path]:
    """
    Return the file of an index, followed by those that number its passages.

    As in rag/indexers.py:145: ``path`` is a folder, a file `….index` or its name
    without that ending; the numbers are in `…_meta`, or else in `ids_0`, `ids_1`, … in
    the folder of the embeddings.
    """
    index = Path(path)
    if index.is_dir():
        index = index / 'index'
    elif index.suffix != '.index':
        index = Path(f'{path}.index')
    numbers = [Path(f'{index}_meta')]
    if not numbers[0].is_file():
        folder = Path(embeddings) if embeddings else Path(path).parent
        folder = folder if folder.is_dir() else folder.parent
        parts = [p for p in folder.glob('ids_*') if p.name[4:].isdigit()]
        numbers = sorted(parts, key=lambda p: int(p.name[4:])) or numbers
    return [index, *numbers]


# --- the index and its passages ------------------------------------------------------


@replaces('parlai.agents.rag.indexers', 'BaseIndexer.deserialize_from')
def read_index_without_writing(
    original: Any, self: Any, file: str, emb_path: str | None = None
) -> None:
    """
    ParlAI writes a file beside the index when it first reads it (rag/indexers.py:170),
    which would change the system's identity. The fix only reads; it also refuses an
    index with other passages than are numbered.
    """
    import torch

    index, *numbers = index_files(file, emb_path)
    # an index can name any file of this machine for its lists, to be written to; with
    # these flags the file beside it is taken instead, and only read
    flags = self.faiss.IO_FLAG_ONDISK_SAME_DIR | self.faiss.IO_FLAG_READ_ONLY
    self.index = self.faiss.read_index(str(index), flags)
    self.index_id_to_db_id = [i for path in numbers for i in torch.load(path)]
    if len(self.index_id_to_db_id) != self.index.ntotal:
        raise UserError(
            f'path_to_index: {index} has {self.index.ntotal} passages, but '
            f'{len(self.index_id_to_db_id)} are numbered in {numbers[0]}'
        )


@replaces('parlai.agents.rag.retrievers', 'DPRRetriever.load_index')
def check_index_against_passages(
    original: Any, self: Any, opt: Any, shared: Any
) -> None:
    """
    ParlAI raises a KeyError in the middle of a dialogue if a passage of the index is
    missing (rag/retrievers.py:698), and repeats the last passage if more are wanted
    than there are (rag/indexers.py:108). The fix refuses both when the index is loaded.
    """
    original(self, opt, shared)
    ids, wanted = self.indexer.index_id_to_db_id, opt['n_docs']
    if wanted > len(ids):
        poly = opt['rag_retriever_type'] == 'dpr_then_poly'
        key = 'dpr_num_docs' if poly else 'n_docs'
        raise UserError(
            f'{key}: {wanted} passages are wanted, but the index has {len(ids)}'
        )
    lost = next((i for i in ids if str(int(i)) not in self.passages), None)
    if lost is not None:
        raise UserError(
            f'path_to_dpr_passages: passage {lost} of the index is not in '
            f'{opt["path_to_dpr_passages"]}; both must be of the same passages'
        )


# --- the query encoder: its tokenizer and its weights --------------------------------

_bert_home: ContextVar[Path | None] = ContextVar('bert_home', default=None)


@contextmanager
def _bert_from_folder(opt: 'Opt') -> Iterator[None]:
    """
    Have `FromFolder` read BERT from this system's folder.
    """
    token = _bert_home.set(bert_home(opt.get('model_file'), opt.get('datapath')))
    try:
        yield
    finally:
        _bert_home.reset(token)


@frozen
class FromFolder:
    """
    Replaces a class of transformers where ParlAI loads ``bert-base-uncased`` with it.

    Offline, transformers 5 returns a tokenizer without words instead of an error: all
    words of a query would be unknown, and ParlAI would never look into its data folder.
    """

    kind: Any
    bare: bool = False  # a model whose weights will be replaced in any case

    def from_pretrained(self, name: str, *args: Any, **kwargs: Any) -> Any:
        home = _bert_home.get()
        if name != BERT or home is None:
            return self.kind.from_pretrained(name, *args, **kwargs)
        if self.bare:
            return self.kind(self.kind.config_class.from_pretrained(str(home)))
        return self.kind.from_pretrained(str(home), *args, **kwargs)


@fixes('parlai.agents.rag.retrievers')
def load_bert_tokenizer_from_folder(module: Any) -> None:
    """
    ParlAI asks the hub for the tokenizer first (rag/retrievers.py:271), and offline
    gets one without words (see `FromFolder`). The fix loads it from `bert_home`.
    """
    module.BertTokenizer = FromFolder(module.BertTokenizer)


@replaces('parlai.agents.rag.retrievers', 'RagRetriever.__init__')
def tell_retriever_its_folder(
    original: Any, self: Any, opt: Any, *args: Any, **kwargs: Any
) -> None:
    """
    Let a retriever whose encoder is a BERT find that in its system's folder.
    """
    is_bert = str(opt['query_model']).startswith('bert')
    with _bert_from_folder(opt) if is_bert else nullcontext():
        original(self, opt, *args, **kwargs)


@fixes('parlai.agents.rag.conversion_utils')
def build_bert_without_weights(module: Any) -> None:
    """
    ParlAI downloads BERT's weights and then loads DPR's over them
    (rag/conversion_utils.py:60). The fix builds BERT from its configuration alone.
    """
    module.BertModel = FromFolder(module.BertModel, bare=True)


@fixes('parlai.agents.rag.dpr')
def read_bert_config_from_folder(module: Any) -> None:
    """
    ParlAI asks the hub for BERT's configuration first (rag/dpr.py:99). The fix reads
    it from `bert_home`.
    """
    module.BertConfig = FromFolder(module.BertConfig)


@replaces('parlai.agents.rag.dpr', 'DprEncoder.__init__')
def load_query_encoder_from_model_file(
    original: Any,
    self: Any,
    opt: Any,
    *checkpoint: str,
    encoder_type: str = 'query',
    **kwargs: Any,
) -> None:
    """
    ParlAI downloads a DPR checkpoint (or a whole other RAG model) even when the model
    file holds the trained query encoder, which replaces it (rag/dpr.py:106). The fix
    downloads nothing then.
    """
    if encoder_type == 'query' and model_file_has_encoder(opt):
        # for a name that it does not know, `_load_state` loads nothing
        checkpoint, kwargs = ('model_file', opt['model_file']), {}
    with _bert_from_folder(opt):
        original(self, opt, *checkpoint, encoder_type=encoder_type, **kwargs)


def model_file_has_encoder(opt: 'Opt') -> bool:
    """
    True if the query encoder will be loaded from the model file.

    As in rag/rag.py:453, a DPR checkpoint that is named and exists comes first.
    """
    checkpoint = opt.get('override', {}).get('dpr_model_file')
    model_file = opt.get('model_file')
    return bool(
        'rag_retriever_type' in opt
        and model_file
        and Path(model_file).is_file()
        and not (checkpoint and Path(checkpoint).is_file())
    )


@replaces('parlai.agents.rag.rag', 'RagAgent.load_state_dict')
def load_query_encoder_of_plain_model(
    original: Any, self: Any, state_dict: Mapping[str, object]
) -> None:
    """
    A plain BART can be loaded as FiD or RAG (rag/rag.py:453) although its model file
    has no query encoder. The fix then loads DPR's, which the fix of rag/dpr.py skips.
    """
    encoder = getattr(self.model.retriever, 'query_encoder', None)
    inside = any(k.startswith('retriever.query_encoder.') for k in state_dict)
    if encoder is not None and not inside and model_file_has_encoder(self.opt):
        dpr = (self.opt['query_model'], self.opt['dpr_model_file'])
        with _bert_from_folder(self.opt):
            fresh = type(encoder)({**self.opt, 'model_file': None}, *dpr)
        encoder.load_state_dict(fresh.state_dict())
    original(self, state_dict)


# --- every row of a batch keeps to its own dialogue ----------------------------------


@replaces('parlai.agents.rag.modules', 'RagModel.concat_docs_and_input')
def join_documents_to_each_row(
    original: Any,
    self: Any,
    input: Any,
    input_lengths: Any,
    top_docs: list[Any],
    max_num_docs: int,
    right_padded: bool = True,
) -> Any:
    """
    ParlAI counts the padding of a row as tokens of it (rag/modules.py:384): passages
    are cut one token shorter in a batch than alone. The fix joins passages and input
    row by row, without padding.
    """
    from parlai.utils.torch import padded_tensor

    more = (max_num_docs, right_padded)
    if not right_padded:
        return original(self, input, input_lengths, top_docs, *more)
    rows: list[Any] = []
    for i, docs in enumerate(top_docs):
        unpadded_row = input[i : i + 1, : int(input_lengths[i])]
        rows += original(self, unpadded_row, input_lengths[i : i + 1], [docs], *more)
    padded, _ = padded_tensor(rows, pad_idx=self.pad_idx, fp16friendly=self.fp16)
    return padded.to(input.device)


@replaces('parlai.agents.rag.rag', 'RagAgent._get_batch_context')
def block_context_of_own_dialogue(original: Any, self: Any, batch: Any) -> Any:
    """
    ParlAI maps a row of RAG-Sequence (one for each passage) to its dialogue in a method
    that it no longer calls (rag/rag.py:650): ``--beam-context-block-ngram`` blocks
    n-grams of other dialogues. The fix repeats each context for its rows.
    """
    import torch

    source = getattr(batch, 'src_text_vec', None)
    if source is None or self.beam_context_block_ngram <= 0:
        return original(self, batch)
    context = batch.full_text_vec if self.beam_block_full_context else source
    turns = getattr(batch, 'input_turns_cnt', None)  # RAG-Turn: a row for each turn
    if turns is None:
        turns = torch.full((len(source),), batch.batchsize // len(source))
    return context.repeat_interleave(turns.to(context.device), dim=0)


# --- our presets and the worlds of our tasks, which ParlAI does not find; their logs --


@replaces('parlai.core.opt', 'Opt.load_init')
def find_our_presets(original: Any, optfile: str) -> Any:
    """
    ParlAI looks for presets (``-o``) in its own packages only (core/opt.py:144). The
    fix finds those of `zoo_configs`, too.
    """
    ours = zoo_configs.HOME / f'{optfile}.opt'
    if os.path.exists(optfile) or not ours.is_file():
        return original(optfile)
    return original.__self__.load(str(ours))


@fixes('parlai.core.loader')
def find_worlds_of_our_tasks(module: Any) -> None:
    """
    ParlAI looks for a task's world behind ``internal:`` only, and for ``task:Teacher``
    or ``task:option=value`` under a module name that does not exist
    (core/loader.py:383): it uses a stock world without a word. The fix gives our tasks
    their own world however they are spelled.
    """
    original = module.load_world_module

    @wraps(original)
    def load_world_module(taskname: str, **options: Any) -> Any:
        task = full_task_path(taskname.strip())
        if task.startswith('parlai_ext.'):
            name = task.partition(':')[0]
            worlds = name.removesuffix('.agents') + '.worlds'
            # ParlAI hides the error if they cannot be imported (core/loader.py:418)
            if ',' not in task and importlib.util.find_spec(worlds):
                importlib.import_module(worlds)
            own_only = {**options, 'num_agents': None, 'default_world': None}
            # the class named after the teacher, else the task's only one
            for spelling in (task, name):
                if world := original(spelling, **own_only):
                    return world
        return original(taskname, **options)

    # params.py and worlds.py hold the function under their own names
    for name in ('loader', 'params', 'worlds'):
        if importer := sys.modules.get(f'parlai.core.{name}'):
            vars(importer)['load_world_module'] = load_world_module


@replaces('parlai.utils.world_logging', 'WorldLogger.convert_to_labeled_data')
def label_only_answers(original: Any, self: Any, episode: Any) -> Any:
    """
    ParlAI takes two acts of every parley (utils/world_logging.py:145) and fails at a
    last utterance that nobody answers. The fix leaves it out: it has no label.
    """
    return original(self, [parley for parley in episode if len(parley) > 1])


@replaces('parlai.utils.world_logging', 'WorldLogger.write')
def tell_the_world_of_its_log(
    original: Any, self: Any, outfile: str, world: Any, *args: Any, **kwargs: Any
) -> None:
    """
    ParlAI asks a world to write its log in one format only (scripts/self_chat.py:157).
    The fix tells a world of ours that its log is written, in any format.
    """
    original(self, outfile, world, *args, **kwargs)
    if hasattr(world, 'log_written'):
        world.log_written()


def full_task_path(task: str) -> str:
    """
    Return the dotted path of one of our tasks; the name of any other task unchanged.

    >>> full_task_path('ext:smalltalk:Opener')
    'parlai_ext.tasks.smalltalk.agents:Opener'
    >>> full_task_path('ext:pairs:self_play')
    'parlai_ext.tasks.pairs.agents:SelfPlay'
    """
    name, colon, rest = task.removeprefix('ext:').partition(':')
    if not task.startswith('ext:') or '.' in name or ',' in task:
        return task
    if '=' not in rest:  # as ParlAI spells the teacher's name (core/loader.py:313)
        rest = ''.join(word[:1].upper() + word[1:] for word in rest.split('_'))
    return f'parlai_ext.tasks.{name.lower()}.agents{colon}{rest}'
