"""
Killed at any step, or out of disk at any step, and run again: the same bytes.

Every call by which the store changes the disk is a place to die. What a kill leaves is
what is on the disk before the call; nothing here loads a model.
"""

import errno
import os
import tempfile
from pathlib import Path

import pytest

from parlai_ext.core import UserError
from parlai_ext.store import RunFolder
from tests.support.forked import Forked
from tests.support.store_samples import files_under, whole_run, write_files

STEPS = ('open', 'write', 'pwrite', 'ftruncate', 'fsync', 'replace', 'mkdir')


def short_run(root):
    """
    Two targets, one after the other, with one partner: four shards.
    """
    whole_run(root, partners=['p1'])


def before_steps(patch, happens):
    """
    Let ``happens(number)`` be called before each disk step (0, 1, …) of this process. A
    write is half done by then.
    """
    numbers = iter(range(1_000_000))

    def spoilt(name, real):
        def step(*args, **kwargs):
            if name == 'write':
                half = real(args[0], bytes(args[1])[: len(args[1]) // 2])
            happens(next(numbers))
            if name == 'write':
                os.lseek(args[0], -half, os.SEEK_CUR)
            return real(*args, **kwargs)

        return step

    for name in STEPS:
        patch.setattr(os, name, spoilt(name, getattr(os, name)))


def states_left(folder, work, monkeypatch):
    """
    Do some work; return copies of a folder, one for each state in which a kill before a
    disk step of the work leaves it.
    """
    states = []

    def note(number):
        files = files_under(folder)
        if files not in states:
            states.append(files)

    with monkeypatch.context() as patch:
        before_steps(patch, note)
        work()
    copies = [folder.parent / str(number) for number in range(len(states))]
    for copy, files in zip(copies, states, strict=True):
        write_files(copy, files)
    return copies


def results(root):
    """
    Return inode and content of the shards that can be seen.
    """
    return {
        str(path): (path.stat().st_ino, path.read_bytes())
        for path in root.rglob('*.jsonl')
    }


@pytest.fixture
def fast_path(tmp_path):
    """
    A folder in memory where there is one: thousands of small files are made.
    """
    memory = '/dev/shm'
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as name:
        yield Path(name)


@pytest.fixture(scope='module')
def expected(module_folder):
    root = module_folder / 'run'
    short_run(root)
    return files_under(root)


def resumed(root):
    """
    Run to the end, by which nothing that was there is touched; return all files.
    """
    before = results(root)
    if (root / 'manifest.json').exists():
        list(RunFolder.existing(root).iter_dialogues())  # what is there is whole
    short_run(root)
    after = results(root)
    assert {name: after[name] for name in before} == before
    return files_under(root)


def test_killed_at_every_single_step_and_run_again(fast_path, expected, monkeypatch):
    run = fast_path / 'run'
    states = states_left(run, lambda: short_run(run), monkeypatch)
    # each of 12 shard and metadata files is absent, half written, whole, and named
    assert len(states) > 12 * 3
    for root in states:
        assert resumed(root) == expected


def test_a_file_is_on_the_disk_before_its_name_and_its_name_before_the_next(
    tmp_path, monkeypatch
):
    # a power cut cannot be tried here, so the order of the calls is looked at
    trace, names = [], {}

    def recorded(name, real):
        def step(*args, **kwargs):
            result = real(*args, **kwargs)
            if name == 'open':
                names[result] = args[0]
            else:
                trace.append((name, str(names.get(args[0], args[0])), args[-1]))
            return result

        return step

    with monkeypatch.context() as patch:
        for name in ('open', 'write', 'fsync', 'replace'):
            patch.setattr(os, name, recorded(name, getattr(os, name)))
        short_run(tmp_path / 'run')
    renames = [at for at, step in enumerate(trace) if step[0] == 'replace']
    assert len(renames) > 12
    for at in renames:
        _, unfinished, final = trace[at]
        steps = [step[:2] for step in trace[at - 2 : at + 2]]
        assert steps[:2] == [('write', unfinished), ('fsync', unfinished)]
        assert steps[3] == ('fsync', str(Path(final).parent))


def test_a_disk_that_is_full_at_any_step_leaves_only_whole_files(
    fast_path, expected, monkeypatch
):
    is_full = True
    for first in range(0, 1000, 5):
        if not is_full:
            return
        is_full = False

        def fill(number, first=first):
            nonlocal is_full
            if number == first:
                is_full = True
                raise OSError(errno.ENOSPC, 'No space left on device')

        root = fast_path / str(first)
        with monkeypatch.context() as patch:
            before_steps(patch, fill)
            try:
                short_run(root)
            except OSError as error:
                assert error.errno == errno.ENOSPC
        for name, data in files_under(root).items():
            changes = name in ('.lock', 'manifest.json', 'ranking.json')
            assert changes or data == expected.get(name), name
        assert resumed(root) == expected
    raise AssertionError('no run came to its end')


def test_several_processes_on_one_folder_make_one_run(tmp_path, expected):
    def work():
        try:
            short_run(tmp_path / 'run')
        except UserError as error:
            os._exit(7 if 'in use by' in str(error) else 8)

    children = [Forked(work, tmp_path / f'{number}.log') for number in range(6)]
    assert {child.wait() for child in children} <= {0, 7}
    assert resumed(tmp_path / 'run') == expected
