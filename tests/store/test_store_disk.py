"""
Disks that cannot do what the store asks of them: one line that names the place.

Answers kept for a shard that is being scored: read back, or dropped where not sound.
"""

import errno
import fcntl
import os
import signal
from types import SimpleNamespace

import pytest

from parlai_ext.commands.command import Command
from parlai_ext.store import PartialWork, locked, staged_folder, write_file
from parlai_ext.store.disk import SAVE_SECONDS, encode
from tests.support.forked import Forked
from tests.support.store_samples import sample_run
from tests.support.user_error import user_error


class Write(Command):
    """
    Writes a file under the lock of its folder.
    """

    def run(self):
        with locked(self.opt['folder'] / '.lock'):
            write_file(self.opt['folder'] / 'ranking.json', b'{}')


def failing(monkeypatch, module, step, number):
    def fail(*args):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(module, step, fail)


@pytest.mark.parametrize(
    'step, name',
    # the first write of a command that `ulimit -f 0` started is that of the lock
    [('write', 'ranking.json'), ('fsync', 'ranking.json'), ('pwrite', '.lock')],
)
@pytest.mark.parametrize('number', [errno.EFBIG, errno.ESTALE])
def test_a_failing_disk_is_one_line_with_the_files_name(
    tmp_path, monkeypatch, exit_line, step, name, number
):
    failing(monkeypatch, os, step, number)
    line = exit_line(Write.execute, {'folder': tmp_path})
    assert line == f'error: {os.strerror(number)}: {tmp_path / name}\n'


def writes_meanwhile(monkeypatch, path):
    """
    Let a second writer write the file just before the first one gives it its name.
    """
    replace = os.replace

    def second(source, target):
        monkeypatch.setattr(os, 'replace', replace)
        write_file(path, b'second')
        assert path.read_bytes() == b'second'
        replace(source, target)

    monkeypatch.setattr(os, 'replace', second)


@pytest.mark.parametrize('has_locks', [True, False])
def test_two_writers_of_a_file_do_not_meet(tmp_path, monkeypatch, has_locks):
    if not has_locks:
        failing(monkeypatch, fcntl, 'flock', errno.ENOLCK)
    path = tmp_path / 'file'
    writes_meanwhile(monkeypatch, path)
    write_file(path, b'first')
    assert path.read_bytes() == b'first'
    assert [*tmp_path.iterdir()] == [path]


def test_what_a_killed_writer_leaves_is_written_over(tmp_path):
    path = tmp_path / 'file'
    write_file(path, b'earlier')

    def killed():
        os.replace = lambda *args: signal.raise_signal(signal.SIGKILL)
        write_file(path, b'longer than the next one')

    child = Forked(killed, tmp_path.with_suffix('.log'))
    assert child.wait() == -signal.SIGKILL
    assert path.read_bytes() == b'earlier' and len([*tmp_path.iterdir()]) == 2
    write_file(path, b'later')
    assert path.read_bytes() == b'later' and [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize('number', [errno.ENOSPC, errno.EFBIG])
def test_a_library_that_names_no_file_is_one_line_with_the_folder(exit_line, number):
    class Library(Command):
        def run(self):
            raise OSError(number, os.strerror(number))

    line = exit_line(Library.execute, {'out': 'folder'})
    assert line == f'error: {os.strerror(number)}: folder\n'


def test_a_file_system_without_locks_is_told_in_one_line(
    tmp_path, monkeypatch, exit_line
):
    failing(monkeypatch, fcntl, 'flock', errno.ENOLCK)
    line = exit_line(Write.execute, {'folder': tmp_path})
    assert line.startswith(f'error: {tmp_path}/.lock ') and '--run-dir' in line
    assert not (tmp_path / 'ranking.json').exists()


def test_a_run_stays_where_it_is_when_an_agent_goes_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = sample_run('run')
    monkeypatch.chdir('/')
    run.write_json('x.json', {'a': 1})
    assert (tmp_path / 'run' / 'x.json').exists()


@pytest.mark.parametrize('becomes_target', [True, False])
def test_a_folder_takes_its_name_when_all_is_in_it_and_one_process_writes(
    tmp_path, becomes_target
):
    target = tmp_path / 'run'
    half = tmp_path / '.run.unfinished' / 'dialogues' / 'half'  # of a killed process
    half.parent.mkdir(parents=True)
    half.touch()
    with pytest.raises(KeyError), staged_folder(target):
        raise KeyError
    assert list(tmp_path.iterdir()) == []
    with staged_folder(target, becomes_target=becomes_target) as folder:
        assert [path.name for path in folder.iterdir()] == ['.lock']
        (folder / 'manifest.json').touch()
        with user_error('in use by process'), staged_folder(target):
            pass
        assert not target.exists() and (folder / 'manifest.json').exists()
    assert (target / 'manifest.json').exists() == becomes_target
    assert [path.name for path in tmp_path.iterdir()] == ['run'] * becomes_target


@pytest.fixture
def path(tmp_path):
    return tmp_path / 'new' / '00000.partial'


ANSWER = [[[1, 2], [-0.1, -1e-300]]]


def kept(path, *keys, source='s'):
    partial = PartialWork(path, source)
    for key in keys:
        partial.put(key, ANSWER)
    partial.save()
    return partial


def known(path, keys, source='s'):
    """
    Return the keys whose answers are read back.
    """
    partial = PartialWork(path, source)
    return ''.join(key for key in keys if partial.get(key) is not None)


def test_answers_come_back_to_the_last_digit(path):
    kept(path, 'a', 'b')
    assert kept(path, 'c').get('a') == ANSWER
    assert known(path, 'abcd') == 'abc'


def test_what_a_kill_left_half_written_is_cut_off(path):
    kept(path, 'a', 'b')
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        n_lines = whole[:end].count(b'\n')
        assert known(path, 'ab') == 'ab'[: max(n_lines - 1, 0)]
        kept(path, 'c')
        assert known(path, 'c') == 'c'


@pytest.mark.parametrize(
    'old, new',
    [
        (b'-0.1', b'-0.2'),
        (b'\n', b'\n' + b'[' * 100_000 + b'\n'),
        (b'\n', b'\n' + encode({'batch': 'a'}).encode() + b'\n'),
        (b'\n', b'\n' + encode({'batch': [], 'answers': 0}).encode() + b'\n'),
    ],
)
def test_a_damaged_line_and_those_after_it_are_dropped(path, old, new):
    kept(path, 'a', 'b')
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    assert known(path, 'ab') == ''


def test_answers_for_other_dialogues_are_dropped(path):
    kept(path, 'a')
    assert known(path, 'a', 'other') == ''
    kept(path, 'b', source='other')
    assert known(path, 'a') == ''


def test_a_shard_of_less_than_the_interval_leaves_no_file(path, monkeypatch):
    clock = SimpleNamespace(monotonic=lambda: 0.0)
    monkeypatch.setattr('parlai_ext.store.disk.time', clock)
    partial = PartialWork(path, 's')
    clock.monotonic = lambda: SAVE_SECONDS - 1
    partial.put('a', [])
    assert not path.exists()
    clock.monotonic = lambda: SAVE_SECONDS
    partial.put('b', [])
    assert known(path, 'a') == 'a'
    partial.remove()
    assert not path.exists()


def test_numbers_that_json_lacks_are_not_kept(path):
    partial = kept(path)
    partial.put('a', [float('nan')])
    partial.save()
    assert known(path, 'a') == ''
