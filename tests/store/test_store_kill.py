"""
Killed at any step, or out of disk at any step, and run again: the same bytes.

Every call by which the store changes the disk is a place to die. The child is forked,
so that a step costs milliseconds; nothing here loads a model.
"""

import errno
import os
import random
import resource
import shutil
import signal
import tempfile
import traceback
from pathlib import Path

import pytest

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Utterance
from parlai_ext.store import RunFolder
from tests.support.store_samples import (
    files_under,
    sample_run,
    whole_run,
)

STEPS = ('open', 'write', 'pwrite', 'ftruncate', 'fsync', 'replace', 'mkdir')
CRASHED = 99


def short_run(root):
    """
    Two targets, one after the other, with one partner: four shards.
    """
    whole_run(root, partners=['p1'])


def in_child(work):
    """
    Run ``work`` in a forked process; return its exit status, negative for a signal.
    """
    pid = os.fork()
    if pid == 0:
        status = CRASHED
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def at_step(number, happens):
    """
    In this process: let something happen before disk step ``number`` (0, 1, …).

    A write is half done by then.
    """
    count = iter(range(1_000_000))

    def spoilt(name, real):
        def step(*args, **kwargs):
            if next(count) == number:
                if name == 'write':
                    real(args[0], bytes(args[1])[: len(args[1]) // 2])
                happens()
            return real(*args, **kwargs)

        return step

    for name in STEPS:
        setattr(os, name, spoilt(name, getattr(os, name)))


def killed_run(root, number):
    def work():
        at_step(number, lambda: os.kill(os.getpid(), signal.SIGKILL))
        short_run(root)

    return in_child(work)


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
def expected(tmp_path_factory):
    root = tmp_path_factory.mktemp('expected') / 'run'
    short_run(root)
    return files_under(root)


def resumed(root):
    """
    Run to the end, by which nothing that was there is touched; return all files.
    """
    before = results(root)
    short_run(root)
    after = results(root)
    assert {name: after[name] for name in before} == before
    return files_under(root)


def test_killed_at_every_single_step_and_run_again(fast_path, expected):
    number, status = 0, -signal.SIGKILL
    while status == -signal.SIGKILL:
        root = fast_path / str(number)
        status = killed_run(root, number)
        if (root / 'manifest.json').exists():
            list(RunFolder.existing(root).iter_dialogues())  # what is there is whole
        assert resumed(root) == expected
        shutil.rmtree(root)
        number += 1
    assert status == 0
    # 12 shard and metadata files, each at least open, write, fsync, replace
    assert number > 12 * 4


def test_killed_again_and_again_and_run_again(fast_path, expected):
    rng = random.Random(2022)
    for chain in range(20):
        root = fast_path / str(chain)
        for _ in range(5):
            killed_run(root, rng.randrange(100))
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
                names[result] = str(args[0])
            else:
                where = names.get(args[0], args[0])
                trace.append((name, str(where), *map(str, args[1:2])))
            return result

        return step

    for name in ('open', 'write', 'fsync', 'replace'):
        monkeypatch.setattr(os, name, recorded(name, getattr(os, name)))
    short_run(tmp_path / 'run')
    monkeypatch.undo()
    renames = [at for at, step in enumerate(trace) if step[0] == 'replace']
    assert len(renames) > 12
    for at in renames:
        _, unfinished, final = trace[at]
        assert trace[at - 1] == ('fsync', unfinished)
        assert trace[at - 2][:2] == ('write', unfinished)
        assert trace[at + 1] == ('fsync', str(Path(final).parent))


def test_a_disk_that_is_full_at_any_step_leaves_only_whole_files(fast_path, expected):
    def full():
        raise OSError(errno.ENOSPC, 'No space left on device')

    def work(root, number):
        at_step(number, full)
        try:
            short_run(root)
        except OSError as error:
            assert error.errno == errno.ENOSPC
            os._exit(7)

    number, status = 0, 7
    while status == 7:
        root = fast_path / str(number)
        status = in_child(lambda: work(root, number))  # noqa: B023
        for name, data in files_under(root).items():
            complete = data == expected.get(name)
            changes = name in ('.lock', 'manifest.json', 'ranking.json')
            assert complete or changes, name
        assert resumed(root) == expected
        shutil.rmtree(root)
        number += 3
    assert status == 0


def big_shard(run):
    from tests.support.store_samples import sample_dialogue

    pairing = run.pairings[0]
    dialogues = [sample_dialogue(pairing, opener) for opener in run.openers[:2]]
    text = Utterance('a', 'x' * 500_000)
    return pairing.id, [
        type(one)(one.id, one.pairing_id, one.opener_id, (text,)) for one in dialogues
    ]


def test_a_file_that_may_not_grow_is_not_shown(tmp_path):
    def work():
        run = sample_run(tmp_path)
        pairing_id, dialogues = big_shard(run)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            run.write_dialogues(run.shard(pairing_id, 0), dialogues)
        except OSError as error:
            os._exit(7 if error.errno == errno.EFBIG else 8)

    assert in_child(work) == 7
    assert not list(tmp_path.rglob('*.jsonl'))
    assert not list(tmp_path.rglob('.*unfinished'))


def test_several_processes_on_one_folder_make_one_run(tmp_path, expected):
    def work():
        try:
            short_run(tmp_path / 'run')
        except UserError as error:
            os._exit(7 if 'in use by' in str(error) else 8)

    children = []
    for _ in range(6):
        pid = os.fork()
        if pid == 0:
            try:
                work()
                os._exit(0)
            finally:
                os._exit(CRASHED)
        children.append(pid)
    ends = {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children}
    assert ends <= {0, 7}
    assert resumed(tmp_path / 'run') == expected
