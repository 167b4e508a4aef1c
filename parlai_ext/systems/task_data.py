"""
What ParlAI's tasks give: openers (the first act of each episode and its first label),
and the candidate replies of a retriever, collected once from a task into a file.

    fixed_candidates_path: task:TASK[@DATATYPE]

stands for a file with every label of the task's episodes, each once, sorted, one a
line. ``task:blended_skill_talk`` is its training data (``train:evalmode``),
``task:convai2:normalized@valid`` the validation data of another. The file lies in
``DATAPATH/parlai_ext/candidates``, named after the words above and not after what is in
it; what is in it is part of a system's identity. A note beside it holds its hash and
those of the data and the code it came from: when one of them differs, or the file is
not whole, it is made again. Where a task reads no file that we know of, it always is.
"""

import importlib
import inspect
import os
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from parlai_ext.compat import prepare_parlai
from parlai_ext.core import (
    FOLDS,
    Opener,
    UserError,
    content_id,
    first_line,
    logger,
    nearest,
    parse_json,
    without_half_characters,
)
from parlai_ext.engines import data_folder
from parlai_ext.files import existing_file, read_openers_file, sha256
from parlai_ext.store import json_text, write_file, write_text
from parlai_ext.systems.fetch.checked_downloads import (
    downloads_noted,
    ensure_checked_downloads,
)

FILE_TASK = 'ext:empathetic_openers'
SAY = 'say:'
# a task of ours, or one of ParlAI's own, which has no prefix and is no module
TASK = re.compile(r'\s*(ext:\w+|\w+(?!.*[:.]))')
# what gives openers without data that would be downloaded first
NO_DOWNLOAD = (SAY, 'ext:everyday_openers', 'ext:smalltalk')


def load_openers(
    task: str, openers_file: str | None = None, *, split: str = 'test'
) -> list[Opener]:
    """
    Return an opener of two utterances for each dialogue of the task, or one of one
    utterance: the text behind ``say:``. Half characters become U+FFFD.

    The first is the last line of the first act's text (lines before it are personas
    and the like, not said by anyone), the second its first label. Its `reply` is the
    last line of the second act's text, or the first act's own ``reply``.

    :param openers_file: a CSV in place of what `ext:empathetic_openers` downloads.
    :raises UserError: for an unknown task, or one whose data cannot be had.
    """
    require_openers(task, openers_file)
    if openers_file:
        file = read_openers_file(openers_file)
        return [
            Opener.from_utterances(utterances, f'{task} {key}', file.replies.get(key))
            for key, utterances in file.openers.items()
        ]
    if task.startswith(SAY):
        words = (without_half_characters(task.removeprefix(SAY).strip()),)
        return [Opener.from_utterances(words, SAY.rstrip(':'))]
    openers = list(_from_acts(_first_acts(task, split), f'{task}:{split}'))
    if not openers:
        raise UserError(f'task {task!r} has no dialogue that could open a conversation')
    return openers


def require_openers(task: str, openers_file: str | None) -> None:
    """
    Refuse openers that no task gives, as far as names tell; ParlAI is not imported.

    :raises UserError: for an unknown task, with the nearest one; for a file that is not
        there, or that another task reads.
    """
    if openers_file and task != FILE_TASK:
        raise UserError(
            f'--openers-file is read by {FILE_TASK}, not by {task}; '
            f'add --openers {FILE_TASK}'
        )
    if openers_file:
        existing_file(openers_file, 'openers file')
    if task.startswith(SAY):
        if not task.removeprefix(SAY).strip():
            raise UserError(f'openers: a text is expected behind {SAY!r}')
        return
    if not task:
        raise UserError('openers: the name of a task is expected, not nothing')
    for one in task.split(','):
        name, known = TASK.match(one), known_tasks()
        loader = sys.modules.get('parlai.core.loader')
        own = getattr(loader, 'TEACHER_REGISTRY', ())
        if name and name[1].lower() not in known and one not in own:
            raise UserError(f'no task {one!r}; {nearest(one, known)}')
        if not name and os.path.isfile(one):
            problem = f'{one} is a file, not a task'
            raise UserError(f'{problem}: --openers {FILE_TASK} --openers-file {one}')


def _from_acts(pairs: Iterator[tuple[Any, Any]], source: str) -> Iterator[Opener]:
    """
    Yield the openers of first acts; those without text or label are counted.
    """
    skipped = 0
    for i, (act, following) in enumerate(pairs):
        first = _last_line(act)
        labels = act.get('eval_labels') or act.get('labels') or ('',)
        second = without_half_characters(' '.join(str(labels[0]).split('\n')).strip())
        if first and second:
            reply = act.get('reply') or _last_line(following or {})
            reply = without_half_characters(str(reply))
            name = f'{source} {act.get("conv_id", i)}'
            yield Opener.from_utterances((first, second), name, reply or None)
        else:
            skipped += 1
    if skipped:
        logger.warning('%s: %d episodes have no two utterances', source, skipped)


def _last_line(act: Any) -> str:
    """
    Return the last line of an act's text; lines before it are personas and the like.
    """
    text = without_half_characters(str(act.get('text') or ''))
    lines = [line.strip() for line in text.split('\n')]
    return next((line for line in reversed(lines) if line), '')


def _first_acts(task: str, split: str) -> Iterator[tuple[Any, Any]]:
    """
    Yield the first and, if there is one, the second act of every episode of a task, in
    the order of its data.
    """
    for teacher in teachers_of(task, split):
        episode: list[Any] = []
        while not teacher.epoch_done():
            episode.append(teacher.act())
            if episode[-1].get('episode_done', True) or teacher.epoch_done():
                yield episode[0], episode[1] if len(episode) > 1 else None
                episode = []


def teachers_of(task: str, split: str) -> list[Any]:
    """
    Build the teachers of a task with ParlAI's own defaults.
    """
    from parlai.core.params import ParlaiParser
    from parlai.core.teachers import create_task_agent_from_taskname

    prepare_parlai()
    given: dict[str, Any] = {
        'task': task,
        'datatype': 'train:evalmode' if split == 'train' else split,
    }
    try:
        with unknown_task_named(task):
            opt = ParlaiParser(True, False).parse_kwargs(**given)
            return create_task_agent_from_taskname(opt)
    except (RuntimeError, AssertionError) as e:
        raise UserError(
            f'the data of task {task!r} cannot be had: {first_line(e)}'
        ) from None


@contextmanager
def unknown_task_named(task: str) -> Iterator[None]:
    """
    Turn what ParlAI raises over a task that cannot be imported into one line.
    """
    try:
        yield
    except ModuleNotFoundError as e:
        if e.name and '.tasks.' not in e.name:
            raise UserError(f'task {task!r} needs the package {e.name!r}') from None
        raise UserError(f'no task {task!r}; {nearest(task, known_tasks())}') from None
    except (ImportError, AttributeError) as e:
        raise UserError(f'no task {task!r}: {e}') from None


def known_tasks() -> list[str]:
    """
    Return the names of ParlAI's tasks and of ours.
    """
    names = []
    for prefix, package in (('', 'parlai.tasks'), ('ext:', 'parlai_ext.tasks')):
        spec = find_spec(package)
        folders = spec.submodule_search_locations if spec else None
        modules = pkgutil.iter_modules(folders or [])
        names += [prefix + module.name for module in modules if module.ispkg]
    return names


# --- the candidate replies of a retriever ---------------------------------------------

PREFIX = 'task:'
DATA_OPTIONS = ('datafile', 'datapath')  # how their names end
RULE = 1  # version of the rule by which a label becomes a line
BREAKS = re.compile(r'[\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+')


def is_spec(value: Any) -> bool:
    """
    True if an option's value asks for the replies of a task.
    """
    return isinstance(value, str) and value.startswith(PREFIX)


def parse_spec(spec: str) -> tuple[str, str]:
    """
    Return the task and the datatype of ``task:TASK[@DATATYPE]``.

    :raises UserError: when it is not of this form.
    """
    task, _, datatype = spec.removeprefix(PREFIX).partition('@')
    split, _, mode = (datatype or 'train').partition(':')
    if not task or split not in FOLDS or mode not in ('', 'evalmode'):
        raise UserError(
            f'{spec!r} is not of the form task:TASK[@DATATYPE], '
            f'with one of {", ".join(FOLDS)}'
        )
    # plain `train` shuffles and goes on for ever
    return task, 'train:evalmode' if split == 'train' else split


def candidates_file(spec: str, *, build: bool = True) -> Path:
    """
    Return the file with the replies of a task, made from its data unless it is there.

    :param build: without it, return where the file is or would be, unseen.
    :raises UserError: when the task is not known or its data cannot be had.
    """
    task, datatype = parse_spec(spec)
    slug = re.sub(r'[^A-Za-z0-9_-]+', '-', task)[:60].strip('-')
    name = f'{slug}-{content_id("candidates", task, datatype, RULE)[:8]}.txt'
    path = Path(data_folder(), 'parlai_ext', 'candidates', name)
    if build and not _is_fresh(path):
        _build(path, task, datatype)
    return path


def to_download(spec: str) -> list[str]:
    """
    Return the URLs that would be downloaded for the replies of a task.

    The network is not touched.

    :raises UserError: when the task is not known.
    """
    from parlai.core.loader import load_teacher_module

    prepare_parlai()
    modules = []
    for part in parse_spec(spec)[0].split(','):
        with unknown_task_named(part):
            modules.append(str(load_teacher_module(part).__module__))
    if _is_fresh(candidates_file(spec, build=False)):
        return []
    return [url for module in modules for url in _data_urls(module)]


def _data_urls(module: str) -> list[str]:
    """
    Return what a task's own `build` would download now; [] where that is not known.

    It is stopped before it downloads, and touches nothing until then.
    """
    name = f'{module.rpartition(".")[0]}.build'
    if find_spec(name) is None:
        return []
    build = importlib.import_module(name)
    resources = getattr(build, 'RESOURCES', None)
    if not isinstance(resources, list) or not hasattr(build, 'build'):
        return []
    wanted = []

    def stop(url: str) -> None:
        wanted.append(url)
        raise InterruptedError

    opt = {'datapath': data_folder(), 'datatype': 'train:evalmode'}
    # a build of another kind raises when it really runs
    with suppress(Exception), downloads_noted(stop):
        build.build(opt)
    return [str(resource.url) for resource in resources] if wanted else []


def _is_fresh(path: Path) -> bool:
    """
    True if a file is complete and its task's data and code have not changed since it
    was made.
    """
    try:
        note = parse_json(path.with_suffix('.json').read_bytes())
        sources = dict(note['sources'])
        # data that is gone since cannot have changed
        now = _note(path, sources)
        now['sources'] = sources | now['sources']
        return bool(sources) and note == now
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _note(path: Path, sources: Iterable[str]) -> dict[str, Any]:
    """
    Return the hashes of a file and of those of its sources that are there.
    """
    return {
        'sha256': sha256(path),
        'sources': {p: sha256(Path(p)) for p in sources if os.path.isfile(p)},
        'versions': {name: version(name) for name in ('parlai', 'parlai_ext')},
    }


def _build(path: Path, task: str, datatype: str) -> None:
    """
    Collect a task's replies into a file, and note beside it what they came from.
    """
    try:
        with ensure_checked_downloads():
            teachers = teachers_of(task, datatype)
            replies = sorted(
                {line for teacher in teachers for line in _replies(teacher)}
            )
    except Exception as e:  # whatever network, archive and teacher come up with
        if isinstance(e, UserError) and 'task' in str(e):
            raise
        raise UserError(
            f'the data of task {task!r} cannot be had: {first_line(e)}'
        ) from e
    if not replies:
        raise UserError(f'task {task!r} has no replies ({datatype})')
    text = ''.join(f'{line}\n' for line in replies).encode('utf-8', 'replace')
    if not path.is_file() or path.read_bytes() != text:
        write_file(path, text)
    note = _note(path, files_read(teachers))
    write_text(path.with_suffix('.json'), json_text(note, sort_keys=True))


def files_read(teachers: Iterable[Any]) -> set[str]:
    """
    Return the files of data that teachers read, as far as their options name them, and
    those of their code; none where no file of data is known.
    """
    data: set[str] = set()
    code: set[str] = set()
    for teacher in teachers:
        named = [v for k, v in teacher.opt.items() if k.endswith(DATA_OPTIONS)]
        named = [v for v in (*named, getattr(teacher, 'datafile', None)) if v]
        data |= {os.path.abspath(v) for v in named if os.path.isfile(v)}
        for kind in type(teacher).__mro__:  # ParlAI's common ones apart
            if not kind.__module__.startswith(('builtins', 'parlai.core')):
                code.add(inspect.getsourcefile(kind) or '')
    return data and data | code


def _replies(teacher: Any) -> Iterator[str]:
    """
    Yield every label of a teacher as one line; a label without text is none.
    """
    while not teacher.epoch_done():
        act = teacher.act()
        for label in act.get('labels') or act.get('eval_labels') or ():
            line = BREAKS.sub(' ', str(label)).strip()
            if line:
                yield line
