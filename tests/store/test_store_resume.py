"""
The same run goes on, targets are added, anything else is refused; one at a time. Killed
at any step, on a disk that is full or fails, and run again: the same bytes.
"""

import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from parlai_ext.commands.command import Command
from parlai_ext.core import UserError
from parlai_ext.store import PartialWork, RunFolder, locked, staged_folder, write_file
from parlai_ext.store.disk import SAVE_SECONDS, encode
from tests.support.forked import Forked
from tests.support.store_samples import (
    files_under,
    play,
    sample_manifest,
    sample_run,
    save,
    whole_run,
    write_files,
)
from tests.support.user_error import error_line, user_error
from tests.support.written import changed_json


def refused(root, manifest):
    before = files_under(root)
    line = error_line(RunFolder.open, root, manifest)
    assert files_under(root) == before
    return line


# -- going on


def test_an_extended_run_keeps_the_old_order_and_appends(tmp_path):
    sample_run(tmp_path, ['b', 'a'])
    run = sample_run(tmp_path, ['c', 'a'])
    assert list(run.manifest.targets) == ['b', 'a', 'c']
    assert [pair.first for pair in run.pairings] == ['b', 'b', 'a', 'a', 'c', 'c']
    assert RunFolder.existing(tmp_path).manifest == run.manifest


def test_shards_are_listed_in_the_order_of_the_manifest(tmp_path):
    run = sample_run(tmp_path, ['b', 'a'])
    play(run)
    keys = [(key.pairing_id[:5], key.start, key.stop) for key in run.dialogue_shards()]
    pairs = ('b--p1', 'b--p2', 'a--p1', 'a--p2')
    assert keys == [(pair, *ends) for pair in pairs for ends in ((0, 2), (2, 3))]


def test_other_versions_are_told_and_those_of_the_start_are_kept(tmp_path, caplog):
    sample_run(tmp_path)
    run = RunFolder.open(
        tmp_path, sample_manifest().changed(versions={'parlai_ext': '0.2.0'})
    )
    assert run.manifest.versions == {'parlai_ext': '0.1.0'}
    assert '0.2.0' in caplog.text


# -- refusing


def test_every_differing_key_is_named_with_both_values(tmp_path):
    sample_run(tmp_path, beam=1)
    other = sample_manifest(seed=7, nucleus=0.9, scorer={'name': 'fed'})
    kept = [pair for pair in other.pairings if pair.second == 'p1']
    changes = {
        'partners': {'p1': other.partners['p1'], 'p3': {'identity': 'x'}},
        'systems': {**other.systems, 'p3': {}},
        'pairings': kept,
        'openers': other.openers[:2],
        'shard_size': 5,
    }
    message = refused(tmp_path, other.changed(**changes))
    named = (
        *('partners.p1.beam: 1 → (absent)', 'partners.p1.nucleus: (absent) → 0.9'),
        *('partners.p2: ', 'partners.p3: (absent)', 'openers.content: ', '2 → 5'),
        *('seed: 0 → 7', 'scorer.name: "length" → "fed"'),
    )
    assert all(words in message for words in named)
    assert 'num_turns' not in message


def test_a_target_that_is_something_else_now_is_refused_with_its_options(tmp_path):
    first, other = sample_manifest(), sample_manifest()
    first.systems['a'].update(beam_size=1, model='m')
    play(RunFolder.open(tmp_path, first))
    other.systems['a'].update(beam_size=10, model='m')
    targets = {**other.targets, 'a': {'identity': 'other'}}
    message = refused(tmp_path, other.changed(targets=targets))
    assert 'targets.a.beam_size: 1 → 10' in message
    assert 'targets.a.identity: ' in message
    assert 'targets.a.model' not in message
    assert 'under another name' in message


def test_a_pair_with_another_id_is_refused(tmp_path):
    play(sample_run(tmp_path))
    other = sample_manifest()
    first = replace(other.pairings[0], id='a--p1-0123456789ab')
    other = other.changed(pairings=[first, *other.pairings[1:]])
    assert 'pairings.bipartite.a--p1' in refused(tmp_path, other)


def test_long_values_are_shortened_and_still_differ(tmp_path):
    sample_run(tmp_path, prompt='x' * 5000)
    message = refused(tmp_path, sample_manifest(prompt='x' * 4999 + '\ny'))
    old, new = message.split('partners.p1.prompt: ')[1].split('. Set')[0].split(' → ')
    assert old != new
    assert len(message) < 400 + len(str(tmp_path))


def test_a_folder_that_is_no_run_and_a_file_in_its_place_are_refused(tmp_path):
    (tmp_path / 'file').write_text('')
    for path in (tmp_path, tmp_path / 'absent', tmp_path / 'file'):
        with user_error('not a run folder'):
            RunFolder.existing(path)
    with user_error('is a file'):
        sample_run(tmp_path / 'file' / 'run')
    assert [path.name for path in tmp_path.iterdir()] == ['file']
    (tmp_path / 'link').symlink_to('absent')
    with user_error('link to nothing'):
        sample_run(tmp_path / 'link')


def test_results_that_lost_their_manifest_are_not_taken_over(tmp_path):
    whole_run(tmp_path)
    (tmp_path / 'manifest.json').unlink()
    assert 'no manifest.json' in refused(tmp_path, sample_manifest())


def test_a_newer_schema_names_the_version_it_needs(tmp_path):
    sample_run(tmp_path)
    newer = {'schema': 2, 'versions': {'parlai_ext': '3.1'}}
    changed_json(tmp_path / 'manifest.json', **newer)
    with user_error(r'schema 2.*schema 1.*parlai_ext 3\.1'):
        RunFolder.existing(tmp_path)


def test_a_run_under_a_scheme_of_other_code_is_not_called_damaged(tmp_path):
    content = sample_run(tmp_path).manifest.to_json()
    content['protocol']['pairing'] = 'ring'
    content['versions'] = {'parlai_ext': '3.1'}
    save(tmp_path, content)
    line = error_line(RunFolder.existing, tmp_path)
    for words in ("scheme 'ring'", 'it has bipartite', 'parlai_ext 3.1', 'PLAYED'):
        assert words in line
    assert 'damaged' not in line


# -- one at a time


HOLD = """
import sys, time
from parlai_ext.store import RunFolder
with RunFolder.existing(sys.argv[1]).lock():
    print('held', flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    """
    Another process that holds the lock of a run.
    """
    sample_run(tmp_path)
    process = subprocess.Popen(
        [sys.executable, '-c', HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == 'held\n'
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_process_is_refused_and_told_who_holds_the_run(tmp_path, holder):
    run = RunFolder.existing(tmp_path)
    message = refused(tmp_path, sample_manifest())
    assert f'process {holder.pid} on {socket.gethostname()}' in message
    with user_error('in use by'), run.lock():
        pass


def test_a_lock_may_be_entered_again_within_itself(tmp_path):
    run = sample_run(tmp_path)
    with run.lock():
        with run.lock():
            pass
        assert 'in use by' in refused(tmp_path, sample_manifest())
    assert sample_run(tmp_path).pairings == run.pairings


def test_leftovers_of_killed_runs_are_cleared_and_nothing_else(tmp_path):
    run = sample_run(tmp_path)
    play(run)
    before = files_under(tmp_path)
    (tmp_path / 'dialogues' / '.00000.jsonl.unfinished').write_text('half')
    (tmp_path / '.manifest.json.unfinished').write_text('half')
    (tmp_path / 'my notes.txt').write_text('keep')
    (tmp_path / '.joined.unfinished').mkdir()  # of a command that writes there
    sample_run(tmp_path)
    assert files_under(tmp_path) == {**before, 'my notes.txt': b'keep'}


@pytest.mark.parametrize(
    'make', [os.mkfifo, partial(os.symlink, '/'), partial(os.symlink, 'scores')]
)
def test_pipes_and_links_to_folders_are_no_part_of_a_run(tmp_path, make):
    sample_run(tmp_path)
    make(tmp_path / 'scores')
    for use in (RunFolder.existing, sample_run):
        with user_error('scores is a link to a folder'):
            use(tmp_path)


def test_a_lock_that_is_a_link_empties_no_file(tmp_path):
    (tmp_path / 'mine').write_text('mine')
    (tmp_path / '.lock').symlink_to('mine')
    with pytest.raises(OSError):
        sample_run(tmp_path)
    assert (tmp_path / 'mine').read_text() == 'mine'


# Killed at any step, or out of disk at any step, and run again: the same bytes.

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


# Disks that cannot do what the store asks of them: one line that names the place.


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
