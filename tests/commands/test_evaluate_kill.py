"""
`kill -9` at random moments of the whole way: the end is the same, byte for byte.
"""

import json
import random
import subprocess
import sys
import time

import pytest

from tests.support.small_run import files_of, small_config

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


def killed_on_the_way(process, run_dir, n_files, delay):
    """
    Kill a run a moment after so many files are there; tell whether it was still alive.
    """
    while process.poll() is None and n_there(run_dir) < n_files:
        time.sleep(0.01)
    try:
        process.wait(timeout=delay)
        return False
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return True


def n_there(run_dir):
    return sum(1 for _ in run_dir.glob('*/**/*.jsonl'))


@pytest.mark.slow
def test_killed_anywhere_and_run_again_ends_the_same(tmp_path):
    config = small_config(tmp_path, targets=3, partners=3)
    whole = start(config, tmp_path / 'whole')
    assert whole.wait() == 0, whole.stderr.read()
    expected = results(tmp_path / 'whole')
    assert json.loads(expected['ranking.json'])['dimensions']
    rng = random.Random(2022)
    killed = chains = 0
    while killed < KILLS:
        run_dir = tmp_path / f'chain{chains}'
        chains += 1
        alive = True
        while alive and killed < KILLS:
            process = start(config, run_dir)
            # all of them, ranking.json too, are there when nothing is left to kill
            n_files = rng.randint(n_there(run_dir), len(expected))
            alive = killed_on_the_way(process, run_dir, n_files, rng.uniform(0, 0.5))
            killed += alive
        last = start(config, run_dir)
        assert last.wait() == 0, last.stderr.read()
        assert results(run_dir) == expected
    assert chains >= 2
