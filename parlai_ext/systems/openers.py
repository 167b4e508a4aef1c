"""
Openers from any ParlAI task: the first act of each episode and its first label.
"""

import logging
import pkgutil
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from parlai_ext.compat.parlai_setup import prepare_parlai
from parlai_ext.core import (
    Opener,
    UserError,
    first_line,
    nearest,
    without_half_characters,
)
from parlai_ext.files.openers_file import read_openers_file, report_too_short
from parlai_ext.files.option_files import existing_file

logger = logging.getLogger(__name__)

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
        report_too_short(openers_file, file)
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


def require_openers(task: str, openers_file: str | None = None) -> None:
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
            teachers: list[Any] = create_task_agent_from_taskname(opt)
    except (RuntimeError, AssertionError) as e:
        problem = f'the data of task {task!r} cannot be had: {first_line(e)}'
        raise UserError(problem) from None
    return teachers


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
