"""
What ParlAI 1.7.2 breaks on with current libraries, and the mend for each.

A fix is a function over the module that it mends. It runs right after that module is
imported, so nothing is imported early, and a module mended twice is mended once.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Fix = Callable[[Any], None]
MENDED = '_mended_by_parlai_ext'


def plateau_scheduler_without_verbose(module: Any) -> None:
    """
    nn/lr_scheduler.py:338 passes ``verbose``, which torch 2.7 took away: with the
    default ``--lr-scheduler`` nothing can be trained.
    """
    base = module.ParlAILRScheduler

    def __init__(self, optimizer, patience, decay, warmup_updates, warmup_rate):  # type: ignore[no-untyped-def]
        base.__init__(self, warmup_updates, warmup_rate)
        self.scheduler = module.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, 'min', factor=decay, patience=patience
        )

    module.ReduceOnPlateauLRScheduler.__init__ = __init__


def gpt2_cache_reordering(module: Any) -> None:
    """
    agents/hugging_face/gpt2.py:188 takes the cache apart as tuples; transformers 5 has
    `Cache` objects, which reorder themselves: GPT-2 and DialoGPT could not generate.
    """
    model = module.HFGPT2Model
    for_tuples = model.reorder_decoder_incremental_state

    @wraps(for_tuples)
    def reorder(self: Any, incremental_state: Any, inds: Any) -> Any:
        if not hasattr(incremental_state, 'reorder_cache'):
            return for_tuples(self, incremental_state, inds)
        incremental_state.reorder_cache(inds)
        return incremental_state

    model.reorder_decoder_incremental_state = reorder


def gpt2_encoder_reordering(module: Any) -> None:
    """
    agents/hugging_face/gpt2.py:178 is given a list of rows by ``--rank-candidates``
    (core/torch_generator_agent.py:892) and `torch.index_select` wants a tensor.
    """
    model = module.HFGPT2Model
    for_tensors = model.reorder_encoder_states

    @wraps(for_tensors)
    def reorder(self: Any, encoder_states: Any, indices: Any) -> Any:
        rows = module.torch.as_tensor(indices, device=encoder_states.device)
        return for_tensors(self, encoder_states, rows)

    model.reorder_encoder_states = reorder


def dialogpt_from_a_folder(module: Any) -> None:
    """
    agents/hugging_face/dialogpt.py:51 takes ``--model-name`` and reads the weights of
    ``--gpt2-size`` from the hub all the same.
    """
    decoder = module.DialoGPTDecoder
    by_size = decoder._init_from_pretrained

    @wraps(by_size)
    def _init_from_pretrained(self: Any, opt: Any) -> Any:
        if not opt.get('model_name'):
            return by_size(self, opt)
        return module.GPT2Model.from_pretrained(opt['model_name'])

    decoder._init_from_pretrained = _init_from_pretrained


def dialogpt_tokens_from_a_folder(module: Any) -> None:
    """
    agents/hugging_face/dict.py:246, likewise for its tokens.
    """
    dictionary = module.DialoGPTDictionaryAgent
    by_size = dictionary.get_tokenizer

    @wraps(by_size)
    def get_tokenizer(self: Any, opt: Any) -> Any:
        if not opt.get('model_name'):
            return by_size(self, opt)
        return module.GPT2Tokenizer.from_pretrained(opt['model_name'])

    dictionary.get_tokenizer = get_tokenizer


def arrays_of_token_ids(module: Any) -> None:
    """
    core/dict.py:754 says ``np.int``, which numpy 1.24 took away.
    """
    agent = module.DictionaryAgent
    original = agent.txt2vec

    @wraps(original)
    def txt2vec(self: Any, text: str, vec_type: Any = list) -> Any:
        if vec_type is not module.np.ndarray:
            return original(self, text, vec_type)
        return module.np.array(original(self, text, list), dtype=int)

    agent.txt2vec = txt2vec


def replies_without_a_leading_space(module: Any) -> None:
    """
    utils/bpe.py:236 asserts that a byte-level BPE reply begins with a space, which an
    undertrained model's may not.
    """
    helper = module.BPEHelper
    original = helper.decode

    @wraps(original)
    def decode(self: Any, tokens: Any, token_ids: Any, delimiter: str) -> Any:
        try:
            return original(self, tokens, token_ids, delimiter)
        except AssertionError:
            return self.helper_decode(tokens, token_ids, delimiter)

    helper.decode = decode


def worlds_behind_our_prefix(module: Any) -> None:
    """
    core/loader.py:383 looks for a task's world behind ``internal:`` only, and with
    ``:Teacher`` or ``:option=value`` under a name that nobody uses: both end in a stock
    world, in silence. Our tasks get their own world however they are spelled.
    """
    original = module.load_world_module

    @wraps(original)
    def load_world_module(
        taskname: str,
        interactive_task: bool = False,
        selfchat_task: bool = False,
        num_agents: int | None = None,
        default_world: Any = None,
    ) -> Any:
        task = full_task_path(taskname.strip())
        found = None
        if task.startswith('parlai_ext.'):
            import_worlds(task)
            # the class named after the teacher, else the task's only one
            for spelling in (task, task.partition(':')[0]):
                found = found or original(spelling, interactive_task, selfchat_task)
        return found or original(
            taskname, interactive_task, selfchat_task, num_agents, default_world
        )

    # params.py and worlds.py hold the function under their own names
    for name in ('loader', 'params', 'worlds'):
        user = sys.modules.get(f'parlai.core.{name}')
        if user is not None and hasattr(user, 'load_world_module'):
            user.__dict__['load_world_module'] = load_world_module


def full_task_path(task: str) -> str:
    """
    Return the dotted path of one of our tasks; another's name as it is.

    >>> full_task_path('ext:smalltalk:Opener')
    'parlai_ext.tasks.smalltalk.agents:Opener'
    """
    name, colon, rest = task.removeprefix('ext:').partition(':')
    if not task.startswith('ext:') or '.' in name or ',' in task:
        return task
    return f'parlai_ext.tasks.{name.lower()}.agents{colon}{rest}'


def import_worlds(task: str) -> None:
    """
    Import the worlds of our ``task``, if it has any; loader.py:418 hides why it can't.
    """
    package = task.partition(':')[0].removesuffix('.agents')
    if ',' not in task and importlib.util.find_spec(package + '.worlds'):
        importlib.import_module(package + '.worlds')


FIXES: dict[str, tuple[Fix, ...]] = {
    'parlai.nn.lr_scheduler': (plateau_scheduler_without_verbose,),
    'parlai.agents.hugging_face.gpt2': (gpt2_cache_reordering, gpt2_encoder_reordering),
    'parlai.agents.hugging_face.dialogpt': (dialogpt_from_a_folder,),
    'parlai.agents.hugging_face.dict': (dialogpt_tokens_from_a_folder,),
    'parlai.core.dict': (arrays_of_token_ids,),
    'parlai.utils.bpe': (replies_without_a_leading_space,),
    'parlai.core.loader': (worlds_behind_our_prefix,),
}


def apply() -> None:
    """
    Mend what is imported already, now, and the rest when it is imported.
    """
    for name in FIXES:
        if name in sys.modules:
            mend(sys.modules[name])
    if not any(isinstance(finder, AfterImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, AfterImport())


def mend(module: ModuleType) -> None:
    """
    Run the fixes of ``module``, once.
    """
    if hasattr(module, MENDED):
        return
    for fix in FIXES[module.__name__]:
        fix(module)
    setattr(module, MENDED, True)


class AfterImport(MetaPathFinder):
    """
    Lets the other finders find a module, and mends it once it has been executed.
    """

    def __init__(self) -> None:
        self.asked: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in FIXES or name in self.asked:
            return None
        self.asked.add(name)  # so that the question below goes to the others
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.asked.discard(name)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            mend(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
