"""
A signal ends a command with one line and a shell's exit code, whenever it comes: in the
first seconds, too, while modules are imported.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from parlai_ext.commands.signals import LINE, Interrupted, signals_as_interrupt

SIGNALS = [signal.SIGINT, signal.SIGTERM]


def catches(process, number):
    """
    True once a process has a handler of its own for a signal.
    """
    status = Path(f'/proc/{process.pid}/status').read_text()
    [mask] = [line for line in status.split('\n') if line.startswith('SigCgt')]
    return int(mask.split()[1], 16) >> (number - 1) & 1


def signalled(args, number, seconds):
    """
    Return exit code and error lines of a command that gets a signal so long after its
    first line of code; before it, Python has no say. The code is `None` if the command
    ended before, or had printed its result: while Python leaves, the system ends it.
    """
    with subprocess.Popen(
        ['env', '--default-signal', sys.executable, '-m', 'parlai_ext', *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while process.poll() is None and not catches(process, signal.SIGTERM):
            time.sleep(0.005)
        time.sleep(seconds)
        over = process.poll() is not None
        process.send_signal(number)
        printed, errors = process.communicate(timeout=120)
    leaving = process.returncode == -number and printed
    return None if over or leaving else process.returncode, errors


@pytest.mark.parametrize('number', SIGNALS)
def test_a_signal_at_the_start_is_one_line(number):
    code, errors = signalled(['report_run', '--run-dir', 'nowhere'], number, 0)
    assert (code, errors) == (128 + number, f'error: {LINE}\n')


@pytest.mark.slow  # once all is imported: torture/, part "kills"
@pytest.mark.parametrize('number', SIGNALS)
def test_a_signal_in_the_first_seconds_is_one_line(tmp_path, number):
    args = ['evaluate_systems', '--config', 'demo', '--num-dialogues', '1']
    for tenths in (0, 1, 2, 5, 10, 20, 35, 50, 80):
        where = ['--run-dir', tmp_path / 'run']
        code, errors = signalled([*args, *where], number, tenths / 10)
        said = [line for line in errors.split('\n') if line.startswith('error: ')]
        # done, or leaving with an error of its own, before the signal came
        if code in (None, 0) or (said and LINE not in said[0]):
            assert 'Traceback' not in errors, tenths
            break
        assert (code, said) == (128 + number, [f'error: {LINE}']), tenths
        assert 'Traceback' not in errors


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with signals_as_interrupt():
            assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_deleted_current_folder_is_one_line(tmp_path):
    command = f'rmdir "$PWD"; exec {sys.executable} -m parlai_ext report_run'
    ended = subprocess.run(
        ['sh', '-c', command], cwd=tmp_path, capture_output=True, text=True
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith('error: the current folder ')
    assert ended.stderr.count('\n') == 1


@pytest.mark.parametrize('number', SIGNALS)
@pytest.mark.parametrize('other', [ValueError('no shape'), KeyboardInterrupt()])
def test_a_signal_that_a_library_turns_into_another_error_is_a_signal(
    other, number, request
):
    before = signal.signal(number, signal.default_int_handler)  # `nohup` ignores it
    request.addfinalizer(lambda: signal.signal(number, before))
    with pytest.raises(Interrupted) as raised, signals_as_interrupt():
        try:
            os.kill(os.getpid(), number)
            time.sleep(10)
        except Interrupted:
            raise other from None
    assert raised.value.number == number
    assert signal.getsignal(number) is signal.default_int_handler
