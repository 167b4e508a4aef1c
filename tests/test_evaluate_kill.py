"""
`kill -9` at random moments of the whole way: the end is the same, byte for byte.
"""

import json
import random
import signal
import subprocess
import sys
import time

import pytest

from tests.small_run import files_of, small_config

RESULTS = ('dialogues/', 'scores/', 'ranking.json')
KILLS = 20


def start(config, run_dir):
    command = [sys.executable, '-m', 'parlai_ext', 'evaluate_systems']
    command += ['--config', config, '--run-dir', str(run_dir)]
    command += ['--num-dialogues', '6', '--batchsize', '2', '--bootstraps', '50']
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def results(run_dir):
    return {n: b for n, b in files_of(run_dir).items() if n.startswith(RESULTS)}


@pytest.mark.slow
def test_killed_anywhere_and_run_again_ends_the_same(tmp_path):
    config = small_config(tmp_path, targets=3, partners=3)
    began = time.monotonic()
    whole = start(config, tmp_path / 'whole')
    assert whole.wait() == 0, whole.stderr.read()
    length = time.monotonic() - began
    expected = results(tmp_path / 'whole')
    assert json.loads(expected['ranking.json'])['dimensions']
    rng = random.Random(2022)
    killed = chains = 0
    while killed < KILLS:
        run_dir = tmp_path / f'chain{chains}'
        chains += 1
        done = False
        while not done and killed < KILLS:
            process = start(config, run_dir)
            try:
                process.wait(timeout=rng.uniform(0.3, 0.95) * length)
                done = True  # it got further with every try
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                killed += 1
        last = start(config, run_dir)
        assert last.wait() == 0, last.stderr.read()
        assert results(run_dir) == expected
    assert chains >= 2
