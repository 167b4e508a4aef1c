"""
What the options that come with a model (its `.opt`) may decide.

They may name agents of ParlAI and ours; to name any other would run the module that it
is in. They may not name a server, nor read files elsewhere than beside the model and in
ParlAI's data folder: the lines of a ranker's file become its replies. All else is for
the roster to say, or for a user who trusts the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from parlai.core.loader import AGENT_REGISTRY, REGISTERED_REPOS

from parlai_ext.compat.agents import HUB_REPOSITORIES
from parlai_ext.systems.fetch.data_folder import data_folder
from parlai_ext.systems.safe.unpickle import Refused

Options = Mapping[str, Any]

# ParlAI's teachers are agents too: they would say any file, and download their data
AGENT_MODULES = re.compile(
    r'(parlai\.agents|projects|parlai_ext\.agents)(\.\w+)+', re.ASCII
)
# agents that talk to strangers, wait for the keyboard, or can run code
ROSTER_AGENTS = re.compile(
    r'(parlai_ext\.agents\.(hf|remote)|parlai\.agents\.(safe_)?local_human)(\..*)?'
)
ROSTER_OPTIONS = re.compile(r'hf_trust_code|remote_\w+|search_server|model_name')
# repositories that ParlAI loads its own models from
PARLAI_REPOSITORIES = [
    name for by_size in HUB_REPOSITORIES.values() for name in by_size.values()
]
OUR_PACKAGES = ('parlai', 'parlai_ext')
TASK_OPTIONS = ('task', 'evaltask', 'pytorch_teacher_task')
# options of a training, and those by which BART writes other weights, converted
TRAINING_OPTIONS = (
    *('init_model', 'init_opt', 'init_fairseq_model', 'output_conversion_path'),
    *('dict_initpath', 'fromfile_datapath', 'jsonfile_datapath', 'datafile'),
    *('parlaidialogteacher_datafile', 'conversationteacher_datafile'),
    *('cands_datafile', 'image_path'),
)
# options that name files which an agent reads when it talks
READ_OPTIONS = (
    *('fixed_candidates_path', 'fixed_candidate_vecs', 'fixed_candidates_file'),
    *('label_candidates_file', 'classes_from_file', 'beam_block_list_filename'),
    *('dict_file', 'bpe_vocab', 'bpe_merge', 'pretrained_path', 't5_model_arch'),
    *('path_to_index', 'path_to_dpr_passages', 'path_to_dense_embeddings'),
    *('dpr_model_file', 'tfidf_model_path', 'polyencoder_init_model'),
    *('search_query_generator_model_file', 'regret_model_file', 'regret_dict_file'),
    *('predictor_model_file', 'retriever_model_file', 'reader_model_file'),
    *('biencoder_model_file', 'crossencoder_model_file', 'retriever_dbpath'),
)


def check_options(path: str, opt: Options, roster_opt: Options) -> None:
    """
    Refuse a model's stored options if they would run code or read files that a model
    must not name.

    :param path: the model file or its ``.opt``.
    :param opt: the options stored with the model.
    :param roster_opt: the roster's entry, which the user wrote: it may name them.
    :raises Refused: naming the agent or the option.
    """
    for part in _nested_mappings(opt):
        agent = part.get('model')
        if agent and agent != roster_opt.get('model') and not is_our_agent(str(agent)):
            hint = f'if you know it: `model: {agent}` in the roster entry'
            raise Refused(path, f'the agent {agent}', hint)
        for key, value in part.items():
            reserved = ROSTER_OPTIONS.fullmatch(str(key)) and key not in roster_opt
            if reserved and value and value not in PARLAI_REPOSITORIES:
                hint = f'if you mean it: `{key}: …` in the roster entry'
                raise Refused(path, f'with {key}, which a roster alone may set,', hint)
    folders = _model_folders(path, roster_opt)
    own_dictionary = Path(f'{path.removesuffix(".opt")}.dict').is_file()
    for key in READ_OPTIONS:
        ignored = key == 'dict_file' and own_dictionary  # see `options_for_talking`
        if (
            key not in roster_opt
            and not ignored
            and is_elsewhere(opt.get(key), folders)
        ):
            raise _file_refused(path, key, os.fsdecode(opt[key]))


def _file_refused(path: str, key: str, value: str) -> Refused:
    value = (value if value.isprintable() else repr(value))[:200]
    hint = f'if you mean it: `{key}: {value}` in the roster entry'
    what = f'its own {key} is {value}, which is not beside the model'
    return Refused(path, f'with {key}', hint, sentence=what)


def options_for_talking(path: str, opt: Options, roster_opt: Options) -> dict[str, Any]:
    """
    Return options without those of the training.

    An honest model names the task that it was trained on, which a ranker would import;
    so tasks of other people's modules go. A dictionary elsewhere goes too: ParlAI then
    takes the model's own.
    """
    left = {key: value for key, value in opt.items() if key not in TRAINING_OPTIONS}
    for key in TASK_OPTIONS:
        if key in left and not all(map(_is_our_task, str(left[key]).split(','))):
            del left[key]
    folders = _model_folders(path, roster_opt)
    if 'dict_file' not in roster_opt and is_elsewhere(left.get('dict_file'), folders):
        del left['dict_file']
    return left


def _model_folders(path: str, roster_opt: Options) -> list[Path]:
    return [Path(path).parent, Path(data_folder(roster_opt.get('datapath')))]


def is_elsewhere(value: Any, folders: Iterable[Path]) -> bool:
    """
    True if a value names a file that exists, but in none of the folders.

    Links are followed. Hidden files of a folder are elsewhere: the folder may be
    somebody's home.
    """
    if not isinstance(value, str | bytes) or not value:
        return False
    try:
        real = Path(os.path.realpath(os.fsdecode(value)))
        if not real.exists() and not Path(f'{real}.opt').exists():
            return False
    except (OSError, ValueError):  # too long, or a NUL: nothing opens that
        return False
    for folder in map(os.path.realpath, folders):
        inside = real.is_relative_to(folder) and real.relative_to(folder).parts
        if inside is not False and not any(part.startswith('.') for part in inside):
            return False
    return True


def _nested_mappings(opt: Options) -> Iterator[Options]:
    """
    Yield options and the mappings nested in them, which may be a circle in a pickle.
    """
    left: list[Any] = [opt]
    seen = set()
    while left:
        value = left.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Mapping):
            yield value
            left += value.values()
        elif isinstance(value, list | tuple):
            left += value


def is_our_agent(agent: str) -> bool:
    """
    True if the name of an agent leads to a module of ParlAI's or ours.

    Follows core/loader.py:163 through all of its spellings; ``ext:foo:Bar`` is
    `foo.Bar` there.
    """
    package = 'parlai'
    if agent in AGENT_REGISTRY:
        module = AGENT_REGISTRY[agent].__module__
    else:
        package, name = _package_and_name(agent)
        if name.startswith('projects:'):
            module = name.replace(':', '.')
        elif ':' in name:
            module = name.split(':')[0]
        else:
            module = f'{package}.agents.{name.replace("/", ".")}'
    known = package in OUR_PACKAGES and AGENT_MODULES.fullmatch(module)
    return bool(known and not ROSTER_AGENTS.fullmatch(module))


def _is_our_task(task: str) -> bool:
    package, name = _package_and_name(task.strip())
    module = name.split(':')[0]
    ours = module.startswith(('parlai.', 'projects.', 'parlai_ext.tasks.'))
    return package in OUR_PACKAGES and ('.' not in module or ours)


def _package_and_name(name: str) -> tuple[str, str]:
    """
    Return the package that a name's prefix stands for, and the rest of the name.
    """
    for prefix, about in REGISTERED_REPOS.items():
        if name.startswith(prefix):
            return str(about['repo']), name.removeprefix(prefix)
    return 'parlai', name
