"""
What a model's own `.opt` may ask for: agents of ParlAI and ours, and no strangers.

To name any other agent runs the module that it is in; that is for a roster to do, or
for whoever trusts the file. So is to name a server. Files it may name in its own folder
and in ParlAI's data folder: a ranker says the lines of its file, whosever they are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from parlai.core.loader import AGENT_REGISTRY, REGISTERED_REPOS

from parlai_ext.compat.agents import HUB_REPOSITORIES
from parlai_ext.systems.fetch.data_folder import data_folder
from parlai_ext.systems.safe.places import Elsewhere, elsewhere
from parlai_ext.systems.safe.unpickle import Refused

# ParlAI's teachers are agents too: they would say any file, and download their data
HOME = re.compile(r'(parlai\.agents|projects|parlai_ext\.agents)(\.\w+)+', re.ASCII)
# what talks to strangers, waits for the keyboard, or can run code: only a roster may
# seat these
ROSTER_ONLY = re.compile(
    r'(parlai_ext\.agents\.(hf|remote)|parlai\.agents\.(safe_)?local_human)(\..*)?'
)
ASKED_ONLY = re.compile(r'hf_trust_code|remote_\w+|search_server|model_name')
# repositories that ParlAI takes its own models from
PUBLISHED = [name for sizes in HUB_REPOSITORIES.values() for name in sizes.values()]
OUR_REPOS = ('parlai', 'parlai_ext')
TASKS = ('task', 'evaltask', 'pytorch_teacher_task')
# what began a training, or would convert other weights: BART writes those where
# `output_conversion_path` says
PAST = (
    *('init_model', 'init_opt', 'init_fairseq_model', 'output_conversion_path'),
    *('dict_initpath', 'fromfile_datapath', 'jsonfile_datapath', 'datafile'),
    *('parlaidialogteacher_datafile', 'conversationteacher_datafile'),
    *('cands_datafile', 'image_path'),
)
# files that a speaker reads
READ = (
    *('fixed_candidates_path', 'fixed_candidate_vecs', 'fixed_candidates_file'),
    *('label_candidates_file', 'classes_from_file', 'beam_block_list_filename'),
    *('dict_file', 'bpe_vocab', 'bpe_merge', 'pretrained_path', 't5_model_arch'),
    *('path_to_index', 'path_to_dpr_passages', 'path_to_dense_embeddings'),
    *('dpr_model_file', 'tfidf_model_path', 'polyencoder_init_model'),
    *('search_query_generator_model_file', 'regret_model_file', 'regret_dict_file'),
    *('predictor_model_file', 'retriever_model_file', 'reader_model_file'),
    *('biencoder_model_file', 'crossencoder_model_file', 'retriever_dbpath'),
)


def check(path: str, opt: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """
    Refuse options that would have other code run than ParlAI's and ours.

    :param given: the roster's entry; what it says itself is the user's own word.
    :raises Refused: naming the agent or the option.
    """
    for part in _mappings(opt):
        agent = part.get('model')
        if agent and agent != given.get('model') and not is_ours(str(agent)):
            known = f'if you know it: `model: {agent}` in the roster entry'
            raise Refused(path, f'the agent {agent}', known)
        for key in filter(None, part):
            asks = ASKED_ONLY.fullmatch(str(key)) and part[key] not in PUBLISHED
            if asks and part[key] and key not in given:
                known = f'if you mean it: `{key}: …` in the roster entry'
                raise Refused(path, f'with {key}, which a roster alone may set,', known)
    _check_files(path, opt, given)


def _check_files(path: str, opt: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """
    Refuse a file elsewhere on this machine, which the replies could give away.
    """
    folders = _own_folders(path, given)
    for key in READ:
        if key not in given and elsewhere(opt.get(key), folders):
            if key == 'dict_file' and _has_a_dictionary(path):
                continue
            raise Elsewhere(path, key, os.fsdecode(opt[key]))


def _own_folders(path: str, given: Mapping[str, Any]) -> list[Path]:
    return [Path(path).parent, Path(data_folder(given.get('datapath')))]


def _has_a_dictionary(path: str) -> bool:
    return Path(f'{path.removesuffix(".opt")}.dict').is_file()


def for_talking(
    path: str, opt: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """
    Return options without what they were trained with or began from.

    A dictionary elsewhere is left out where the model has one of its own, which ParlAI
    then takes.
    """
    folders = _own_folders(path, given)
    left = {k: v for k, v in without_strange_tasks(opt).items() if k not in PAST}
    if 'dict_file' not in given and elsewhere(left.get('dict_file'), folders):
        del left['dict_file']
    return left


def _mappings(opt: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """
    Yield options and what is nested in them, which may be a circle in a pickle.
    """
    left: list[Any] = [opt]
    seen = set()
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, Mapping):
            yield one
            left += one.values()
        elif isinstance(one, list | tuple):
            left += one


def is_ours(agent: str) -> bool:
    """
    Tell whether the name of an agent leads to ParlAI's modules or to ours.

    Follows core/loader.py:163 through all of its spellings; ``ext:foo:Bar`` is
    `foo.Bar` there.
    """
    if agent in AGENT_REGISTRY:
        module = AGENT_REGISTRY[agent].__module__
        return bool(HOME.fullmatch(module) and not ROSTER_ONLY.fullmatch(module))
    repo, path = _repo(agent)
    if path.startswith('projects:'):
        module = path.replace(':', '.')
    elif ':' in path:
        module = path.split(':')[0]
    else:
        module = f'{repo}.agents.{path.replace("/", ".")}'
    ours = repo in OUR_REPOS and HOME.fullmatch(module)
    return bool(ours and not ROSTER_ONLY.fullmatch(module))


def without_strange_tasks(opt: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return options without a task that only a module of somebody else has.

    An honest model names what it was trained on; a ranker would import that to make
    candidates of it.
    """
    return {k: v for k, v in opt.items() if k not in TASKS or _is_our_task(str(v))}


def _is_our_task(names: str) -> bool:
    for name in names.split(','):
        repo, path = _repo(name.strip())
        module = path.split(':')[0]
        home = module.startswith(('parlai.', 'projects.', 'parlai_ext.tasks.'))
        if repo not in OUR_REPOS or ('.' in module and not home):
            return False
    return True


def _repo(name: str) -> tuple[str, str]:
    """
    Return the package that a name's prefix stands for, and the rest of the name.
    """
    for prefix, about in REGISTERED_REPOS.items():
        if name.startswith(prefix):
            return str(about['repo']), name.removeprefix(prefix)
    return 'parlai', name
