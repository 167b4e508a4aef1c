"""
The agent families, and their registry.

To add a family, subclass `Family` in a file of its own (or here, if it is small) and
name it in `FAMILIES`. Nothing else of the program has to know of it.

ParlAI's rankers get two things wrong for us: in a batch, every row avoids the lines of
one dialogue; and vectors of candidates are cached by the candidate file's base name.
FiD and RAG find passages for the dialogue in an index: the files that they read beside
their model are part of what such a system is, and a missing one is named before the
system is built. A remote system is the name that its model gives itself; where it gives
none, its address.
"""

import logging
from argparse import ArgumentTypeError
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from parlai.core.torch_agent import Batch
from parlai.core.torch_ranker_agent import TorchRankerAgent
from parlai.utils import logging as parlai_logging

from parlai_ext import zoo_configs
from parlai_ext.compat.faults import (
    BERT_FILES,
    HUB_REPOSITORIES,
    bert_home,
    index_files,
)
from parlai_ext.core import (
    JsonObject,
    System,
    UserError,
    content_id,
    errors_about,
    frozen,
    json_object,
    known_values,
    option,
    optional,
    options_of,
    require_known,
    text_option,
)
from parlai_ext.engines import data_folder, data_in, local_path
from parlai_ext.files import (
    FOLDER_OPTIONS,
    existing_file,
    is_model_name,
    model_card,
    parse_target,
    read_file,
    read_utf8,
    sha256,
)
from parlai_ext.systems import hub, zoo
from parlai_ext.systems.chat.conversation import other_contexts_hash
from parlai_ext.systems.family import DOWNLOAD, PRESENT, Family, model_path
from parlai_ext.systems.fetch.checked_downloads import Entry, lock_file
from parlai_ext.systems.remote.settings import UNTOLD, Settings
from parlai_ext.systems.safe.load import read_opt

# --- weights from the Hugging Face hub, or from a folder in its format ----------------

BITS = {
    '4bit': 4,
    '8bit': 8,
    'float16': 16,
    'bfloat16': 16,
    'float32': 32,
    'float64': 64,
}


class HubFamily(Family):
    """
    Systems whose weights are in a repository of the hub, or in a folder of its format.
    """

    weights_options = ('model_file', 'hf_model', 'model_name', 'gpt2_size')
    local_options = ('model_name',)  # whose files are hashed in its stead
    # whether `load_hf_judge` can read such a model as a judge
    can_judge = True
    # the most tokens of a context that its agent reads, whatever the model could
    text_truncate: int | None = None

    def source(self, opt: JsonObject) -> tuple[str, str | None]:
        """
        Return the repository, or the folder, of a system's weights, and the branch, tag
        or commit that the options ask for.

        :raises UserError: when the options name none.
        """
        raise NotImplementedError

    def commit(self, opt: JsonObject) -> str | None:
        """
        Return the commit of a system's files in the hub's cache; `None` for a folder,
        a model of the catalogue, and files that are not there.
        """
        weights = self.cached_weights(opt)
        if weights is None or weights.parents[1].name != 'snapshots':
            return None
        return weights.parent.name

    def cached_weights(self, opt: JsonObject) -> Path | None:
        """
        Return the weights in the hub's cache, in the folder, or in the folder of the
        catalogue's models; `None` without them.
        """
        with data_in(text_option(opt, 'datapath')):
            return hub.cached_weights(*self.source(opt))

    def fetched_weights(self, opt: JsonObject) -> Path:
        """
        Return the weights, which are fetched where they are not here.
        """
        with data_in(text_option(opt, 'datapath')):
            return hub.fetch_weights(*self.source(opt))

    def locate_weights(self, opt: JsonObject) -> tuple[str, str]:
        repo, revision = self.source(opt)
        cached = self.cached_weights(opt)
        if cached:
            return PRESENT, str(cached)
        if is_model_name(repo):
            return DOWNLOAD, ' '.join(model_card(repo).addresses())
        if Path(repo).is_dir():
            raise UserError(
                f'hf_model: {repo} has no weights; see docs/hugging_face.md'
            )
        at = f' at {revision}' if revision else ''
        return DOWNLOAD, f'https://huggingface.co/{repo}{at}'

    def fetch_weights(self, opt: JsonObject) -> list[str]:
        if self.cached_weights(opt) is not None:
            return []
        weights, (repo, _) = self.fetched_weights(opt), self.source(opt)
        if is_model_name(repo):
            return [repo]  # its card has its checksums
        address = f'https://huggingface.co/{repo}/resolve/{self.commit(opt)}'
        entries = {
            f'{address}/{path.name}': Entry.from_file(path)
            for path in hub.weight_files(weights)
        }
        lock_file().record(entries)
        return [repo]

    def weight_bytes(self, opt: JsonObject) -> int:
        weights = self.cached_weights(opt)
        if weights is None:
            return 0
        return sum(path.stat().st_size for path in hub.weight_files(weights))

    def contents(self, opt: JsonObject) -> dict[str, str]:
        """
        Return the hash of every file that changes a reply. A folder that moves, or a
        snapshot in the cache with the same files, is the same model.
        """
        weights = self.fetched_weights(opt)
        folder = weights.parent
        code = ('*.py',) if hub.trusts_code(opt) else ()
        files = hub.model_files(weights, code)
        hashes = {f'hub/{p.relative_to(folder).as_posix()}': sha256(p) for p in files}
        return hashes | other_contexts_hash(opt)


class HuggingFace(HubFamily):
    """
    ``ext:hf``: any causal or sequence-to-sequence model of transformers.
    """

    agents = (hub.AGENT,)
    place_options = ('hf_model', 'hf_revision', 'hf_device', 'hf_device_map')

    def source(self, opt: JsonObject) -> tuple[str, str | None]:
        if 'hf_model' not in opt:
            for near in get_close_matches('hf_model', opt, 1, cutoff=0.85):
                raise UserError(f"{near}: unknown; did you mean 'hf_model'?")
        repository = hub.checked_repository(opt.get('hf_model'))
        return repository, text_option(opt, 'hf_revision') or None

    def weights_key(self, opt: JsonObject) -> Hashable:
        """
        Return the options with which `ModelOptions` loads a model: two systems with
        the same share it.
        """
        return tuple(
            str(opt.get(option.dest()))
            for option in options_of(hub.ModelOptions).values()
        )

    def weight_bytes(self, opt: JsonObject) -> int:
        """
        Return about how many bytes the weights take in the precision asked for.
        """
        stored = super().weight_bytes(opt)
        asked = (opt.get(f'hf_{name}') for name in ('quantisation', 'dtype'))
        bits = next((BITS[str(name)] for name in asked if str(name) in BITS), None)
        weights = self.cached_weights(opt)
        if bits is None or weights is None:
            return stored
        config = hub.read_config(weights.parent)
        own = str(config.get('dtype') or config.get('torch_dtype'))
        return stored * bits // BITS.get(own, 32)


class BaseModelFamily(HubFamily):
    """
    Agents of a base model, which is the hub's; once trained, it is a model file.
    """

    can_judge = False

    def covers(self, opt: JsonObject) -> bool:
        return super().covers(opt) and not opt.get('model_file')


class CausalLm(BaseModelFamily, HuggingFace):
    """
    ``ext:causal_lm`` as its base model is.
    """

    agents = ('ext:causal_lm',)

    def weights_key(self, opt: JsonObject) -> Hashable:
        return None


class Gpt2(BaseModelFamily):
    """
    ParlAI's agent for GPT-2, built without a model file.
    """

    agents = ('hugging_face/gpt2',)

    def source(self, opt: JsonObject) -> tuple[str, str | None]:
        if opt.get('model_name'):
            return str(opt['model_name']), None
        # of both agents, as DialoGPT's parser ends with GPT-2's default
        size = str(opt.get('gpt2_size') or 'small')
        sizes = HUB_REPOSITORIES[self.agents[0]]
        require_known(size, sizes, f'gpt2_size {size!r}')
        return sizes[size], None


class DialoGpt(Gpt2):
    """
    ParlAI's agent for DialoGPT.
    """

    agents = ('hugging_face/dialogpt',)
    can_judge = True
    text_truncate = 768  # parlai/agents/hugging_face/dialogpt.py


# --- a safety layer around another system ---------------------------------------------

SAFETY_SYSTEM = 'safety_system'
FIRED = PROMPT, ANSWER = 'prompt', 'answer'  # which check fired
DEFLECTIONS = zoo_configs.HOME / 'moderation' / 'deflections.yaml'


@frozen(kw_only=True)
class SafetyOptions:
    """
    What a safety layer checks, and what it says where a check fires.
    """

    title = 'Safety layer'
    prefix = 'safety'
    system: str | None = optional(
        help='the system inside: the name of a shipped one, a YAML file, '
        'NAME=MODEL_FILE[,key=value…] as --add-target takes it, or (in a roster) a '
        'mapping of its options',
    )
    detector: str = option(
        'toxic-comments',
        help='what tells toxic texts, as compare_detectors names it; '
        'NAME,threshold=0.8 sets the threshold',
    )
    checks: str = option(
        'both',
        choices=('both', *FIRED),
        help="prompt = what the other says, answer = the system's reply",
    )
    deflections: str | None = optional(
        metavar='FILE', help='sentences to say instead, one a line (shipped ones)'
    )


def system_inside(opt: JsonObject) -> System:
    """
    Return the system that a safety layer holds.

    :raises UserError: ``safety_system: what is wrong``.
    """
    value = opt.get(SAFETY_SYSTEM)
    if not value:
        raise UserError(f'{SAFETY_SYSTEM}: not given; a system is expected')
    try:
        if isinstance(value, str) and value.lstrip().startswith('{'):
            value = json_object(value)
        if isinstance(value, Mapping):
            return System('inside', dict(value))
        return parse_target(str(value))[0]
    except (UserError, ArgumentTypeError) as error:
        raise UserError(f'{SAFETY_SYSTEM}: {error}') from None


def read_deflections(opt: JsonObject) -> tuple[str, ...]:
    """
    Return the sentences that are said instead of a flagged answer.

    :raises UserError: when the file cannot be read, or has none.
    """
    path = opt.get('safety_deflections')
    if not path:
        return tuple(read_file(DEFLECTIONS).data['sentences'])
    with errors_about('safety_deflections'):
        lines = read_utf8(str(path)).split('\n')
    sentences = tuple(line.strip() for line in lines if line.strip())
    if not sentences:
        raise UserError(f'safety_deflections: {path} has no sentence')
    return sentences


# --- rankers, and systems that read passages ------------------------------------------

CANDIDATES = 'fixed_candidates_path'


class Ranker(Family):
    """
    Every subclass of ParlAI's `TorchRankerAgent`, known by the options it has.
    """

    def covers(self, opt: JsonObject) -> bool:
        return 'fixed_candidate_vecs' in opt or bool(opt.get(CANDIDATES))

    def check(self, opt: JsonObject) -> None:
        if 'fixed_candidate_vecs' not in opt:
            return  # an agent that generates, though its options name candidates
        if opt['fixed_candidate_vecs'] not in ('reuse', 'replace'):
            raise UserError(
                'fixed_candidate_vecs: no file of vectors is read: nothing says which '
                'candidates are theirs'
            )
        if opt.get('interactive_candidates', 'fixed') == 'fixed':
            path = text_option(opt, CANDIDATES)
            if not path:
                raise UserError(
                    f'{CANDIDATES}: not given: a file with one possible reply a line'
                )
            existing_file(path, CANDIDATES)

    def contents(self, opt: JsonObject) -> dict[str, str]:
        return candidate_hashes(opt)


def candidate_hashes(opt: JsonObject) -> dict[str, str]:
    """
    Return the hash of the candidate replies that options name; nothing without the
    file, for then the agent is refused when it is built.
    """
    path = Path(str(opt.get(CANDIDATES) or ''))
    return {CANDIDATES: sha256(path)} if path.is_file() else {}


@contextmanager
def rows_of_own_dialogue(agent: Any, clones: Sequence[Any]) -> Iterator[None]:
    """
    Let every row of a ranker's batch avoid the lines of its own dialogue, as the clone
    of that dialogue would alone; other agents do so by themselves.

    torch_ranker_agent.py:585 reads the history of the agent whose `batch_act` is
    called, for all rows, where each row's clone knows the lines of its own
    dialogue.
    """
    if not isinstance(agent, TorchRankerAgent):
        yield
        return
    rows: list[int] = []

    if agent.rank_top_k <= 0:  # all: torch_ranker_agent.py:559 makes a tensor of each
        agent.rank_top_k = agent.opt['cap_num_predictions']  # of which it keeps so many

    def eval_step(batch: Batch) -> Any:
        rows[:] = batch.valid_indices.tolist()
        return type(agent).eval_step(agent, batch)

    def block_repeats(candidates: list[list[str]]) -> list[list[str]]:
        pairs = zip(rows, candidates, strict=True)
        allowed = [clones[row].block_repeats([ranked])[0] for row, ranked in pairs]
        if not all(allowed):  # ParlAI would take the first of none
            raise LookupError('every candidate has been said; the file needs more')
        return allowed

    def is_other_report(record: logging.LogRecord) -> bool:
        # than ParlAI's of the candidates that a ranker has
        return not record.getMessage().startswith('[ Executing ')

    agent.eval_step, agent.block_repeats = eval_step, block_repeats
    parlai_logging.logger.addFilter(is_other_report)
    try:
        yield
    finally:
        parlai_logging.logger.removeFilter(is_other_report)
        del agent.eval_step, agent.block_repeats


@contextmanager
def fresh_candidates() -> Iterator[None]:
    """
    Keep rankers from writing vectors of their candidates beside the model.

    torch_ranker_agent.py:930 names that cache after the candidate file's base name:
    the next file of that name, or the next model, would silently get its vectors.
    """
    original = TorchRankerAgent._save_candidates
    TorchRankerAgent._save_candidates = lambda *args, **kwargs: None
    try:
        yield
    finally:
        TorchRankerAgent._save_candidates = original


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

    def covers(self, opt: JsonObject) -> bool:
        return 'rag_retriever_type' in opt or super().covers(opt)

    def check(self, opt: JsonObject) -> None:
        if not retrieval_paths(opt):
            return
        turns = opt.get('model') == 'rag' and opt.get('rag_model_type') == 'turn'
        if turns and opt.get('rag_turn_marginalize') != 'doc_only':
            # model_types.py:1029: a decoder row for each passage, none for each turn
            raise UserError(
                'rag_turn_marginalize: ParlAI can generate with doc_only alone'
            )
        if find_spec('faiss') is None:
            raise UserError("path_to_index: needs faiss: pip install 'parlai_ext[rag]'")
        retrieval_files(opt)

    def contents(self, opt: JsonObject) -> dict[str, str]:
        files = retrieval_files(opt)
        return {f'retrieval/{key}': sha256(file) for key, file in files.items()}


def retrieval_files(opt: JsonObject) -> dict[str, Path]:
    """
    Return the files that a system reads to find passages, by a name for each; those of
    the zoo are downloaded when they are not here.

    :raises UserError: ``option: …`` when one is missing or packed.
    """
    named: dict[str, Path] = {}
    for key, path in retrieval_paths(opt).items():
        with errors_about(key), data_in(text_option(opt, 'datapath')):
            if path.endswith('.gz'):
                raise UserError(
                    f'{path} is packed; unpack it, for ParlAI reads plain text only'
                )
            files = [zoo.fetch_path(path)]
            if key == 'path_to_index':
                vectors = text_option(opt, 'path_to_dense_embeddings')
                files = index_files(files[0], local_path(vectors) if vectors else None)
            elif key == 'polyencoder_init_model':
                files.append(Path(f'{files[0]}.dict'))
            for i, file in enumerate(files):
                if not file.is_file():
                    raise UserError(f'there is no file {file}{HINTS.get(key, "")}')
                named[f'{key}.{i}' if i else key] = file
    if named and str(opt.get('query_model', 'bert')).startswith('bert'):
        named |= query_encoder_files(opt)
    return named


def query_encoder_files(opt: JsonObject) -> dict[str, Path]:
    """
    Return the files of BERT that a query encoder reads, by a name for each.

    :raises UserError: ``query_model: …`` when they cannot be had.
    """
    model_file = text_option(opt, 'model_file')
    with errors_about('query_model'):
        home = bert_home(
            local_path(model_file) if model_file else None,
            data_folder(text_option(opt, 'datapath')),
        )
    return {f'query_model/{name}': home / name for name in BERT_FILES}


def retrieval_paths(opt: JsonObject) -> dict[str, str]:
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
            reranker = f'zoo:pretrained_transformers/poly_model_huge_{reranker}/model'
        paths['polyencoder_init_model'] = reranker
    return paths


# --- endpoints, and other kinds -------------------------------------------------------


class Remote(Family):
    """
    Chat endpoints and plain POST services.
    """

    agents = ('ext:remote',)
    place_options = tuple(
        option.dest() for option in options_of(Settings).values() if not option.signed
    )

    def locate_weights(self, opt: JsonObject) -> tuple[str, str]:
        return PRESENT, f'{Settings.from_options(opt).endpoint} (not contacted)'

    def samples(self, opt: JsonObject) -> bool:
        """
        True unless the temperature is set to 0: an endpoint that is not told decides.
        """
        temperature = opt.get('remote_temperature')
        return not isinstance(temperature, str | int | float) or float(temperature) != 0

    def pin(self, opt: JsonObject) -> JsonObject:
        """
        Return the options with the model's dated name among them, asked for unless
        given: the agent then refuses answers of any other model; and with ``$NAME`` in
        place of a key in the URL, since a run keeps the options.
        """
        pinned = {**opt, 'remote_url': Settings.from_options(opt).url}
        if opt.get('remote_dated_model') is None:
            pinned['remote_dated_model'] = dated_name(opt)
        return pinned

    def contents(self, opt: JsonObject) -> dict[str, str]:
        settings = Settings.from_options(opt)
        name = settings.dated_model or dated_name(opt)
        if name == UNTOLD:
            what = {'remote_url': settings.endpoint}
        else:
            what = {'remote_model': name}
        return what | other_contexts_hash(opt)


def dated_name(opt: JsonObject) -> str:
    """
    Ask a model for its name (``gpt-4o-2024-08-06``); `UNTOLD` when it gives none.

    :raises UserError: when it cannot be asked.
    """
    from parlai_ext.systems.remote.endpoint import Endpoint

    settings = replace(
        Settings.from_options(opt), dated_model=None, cache=None, max_cost=None
    )
    return Endpoint(settings).dated_name()


class Bart(Family):
    """
    BART and R2C2: their parser asks for GPT-2's tokenizer (agents/bart/bart.py:65).
    """

    agents = ('bart',)
    dict_tokenizer = 'gpt2'


class SafetyLayer(Family):
    """
    A safety layer around another system, which decides all but the sentences by which
    it is replaced.
    """

    agents = ('ext:safety_layer',)
    # whose contents are taken instead
    place_options = (SAFETY_SYSTEM, 'safety_detector', 'safety_deflections')

    def inner_system(self, opt: JsonObject) -> System:
        return system_inside(opt)

    def contents(self, opt: JsonObject) -> dict[str, str]:
        """
        Return the hashes of the sentences, and of the files that the detector reads.
        """
        named = opt.get('safety_detector') or SafetyOptions.detector
        name, *settings = str(named).split(',')
        kind, _, file = name.rpartition('=')
        path = Path(file).expanduser()
        detector = [kind, sha256(path) if path.is_file() else file, *settings]
        return {
            'deflections': content_id(*read_deflections(opt)),
            'detector': content_id(*detector),
        }

    def pin(self, opt: JsonObject) -> JsonObject:
        inner = system_inside(opt).opt
        return {**opt, SAFETY_SYSTEM: family_of(inner).pin(inner)}


# the first that covers a system's options is its family
FAMILIES: tuple[Family, ...] = (
    Remote(),
    HuggingFace(),
    DialoGpt(),
    Gpt2(),
    Passages(),
    Ranker(),
    Bart(),
    SafetyLayer(),
    CausalLm(),
)
GENERATOR = Family()  # every other
PLACE_OPTIONS = frozenset(key for family in FAMILIES for key in family.place_options)


def family_of(opt: JsonObject) -> Family:
    """
    Return the family of a system with these options.
    """
    return next((f for f in FAMILIES if f.covers(opt)), GENERATOR)


def layers(system: System) -> Iterator[System]:
    """
    Yield a system and those within its safety layers, from the outside.
    """
    inner = family_of(system.opt).inner_system(system.opt)
    yield system
    if inner is not None:
        yield from layers(inner)


def innermost(system: System) -> System:
    """
    Return the system that draws the replies and has the weights: the one within all
    safety layers, or the system itself.
    """
    [*_, inner] = layers(system)
    return inner


def has_trusted_folder(opt: JsonObject) -> bool:
    """
    True if the weights that options name are of the catalogue, and from the user's own
    folder of data, or may even run code.
    """
    if hub.trusts_code(opt):
        return True
    folders = [str(opt[key]) for key in FOLDER_OPTIONS if opt.get(key)]
    if isinstance(family := family_of(opt), Gpt2):  # which need not be named
        folders.append(family.source(opt)[0])
    # the catalogue's hashes are not asked again where its models lie
    return not opt.get('datapath') and all(map(is_model_name, folders))


MISREADERS = (
    'transformer/generator',
    'parlai.agents.transformer.transformer:TransformerGeneratorAgent',
)


def check_reader(opt: JsonObject) -> None:
    """
    Refuse an agent that would misread a model with a long context: MSC's own class,
    which ParlAI's wheel lacks, and the plain generator.

    :param opt: the model's own options with the roster's over them.
    :raises UserError: naming the agent that reads it.
    """
    agent, pretrained = str(opt.get('model')), opt.get('n_positions_init')
    reads = 'ext:long_context reads it'
    if agent.startswith('projects.msc.'):
        raise UserError(f'model: {agent} is not in ParlAI; {reads}')
    if agent not in MISREADERS or not isinstance(pretrained, int):
        return
    from parlai.agents.transformer.modules import get_n_positions_from_options

    size = get_n_positions_from_options(opt)
    if pretrained < size:
        raise UserError(
            f'model: {agent} would misread contexts of more than {pretrained} '
            f'tokens: n_positions_init is {pretrained}, n_positions {size}; {reads}'
        )


def effective_options(system: System) -> JsonObject:
    """
    Return the roster's options of a system, over those in the `.opt` beside its model
    file, where there is one.

    Reads the disk only. The roster may name an agent that the `.opt` may not.

    :raises UserError: when the `.opt` holds no options, or more than data.
    """
    path = model_path(system.opt)
    own: JsonObject = {}
    if path is not None and Path(f'{path}.opt').is_file():
        own = read_opt(f'{path}.opt', roster_opt=system.opt)
    return {**own, **known_values(system.opt)}


def no_model(file: object) -> UserError:
    """
    Return the refusal of a model file of which no options name the agent.
    """
    return UserError(f"model: not given; {file}.opt names none: add 'model' to opt")
