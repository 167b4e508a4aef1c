"""
`kill -9` at random moments of the whole way: the end is the same, byte for byte.
"""

import json
import random
import subprocess
import time

import pytest

from tests.support.small_run import results_of, small_config, start_run

FEW = ('--num-dialogues', '6', '--batchsize', '2')
KILLS = 20


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
    whole = start_run(config, tmp_path / 'whole', *FEW)
    assert whole.wait() == 0, whole.stderr.read()
    expected = results_of(tmp_path / 'whole')
    assert json.loads(expected['ranking.json'])['dimensions']
    rng = random.Random(2022)
    killed = chains = 0
    while killed < KILLS:
        run_dir = tmp_path / f'chain{chains}'
        chains += 1
        alive = True
        while alive and killed < KILLS:
            process = start_run(config, run_dir, *FEW)
            # all of them, ranking.json too, are there when nothing is left to kill
            n_files = rng.randint(n_there(run_dir), len(expected))
            alive = killed_on_the_way(process, run_dir, n_files, rng.uniform(0, 0.5))
            killed += alive
        last = start_run(config, run_dir, *FEW)
        assert last.wait() == 0, last.stderr.read()
        assert results_of(run_dir) == expected
    assert chains >= 2
