"""
`kill -9` within a shard: the batches that were saved are not computed again, and the
scores are those of a run that was never killed.
"""

import shutil
import subprocess
import sys
import time

import pytest

from parlai_ext.commands.collect_dialogues import CollectDialogues
from tests.support.small_run import files_of, small_config

# scores a run in batches of one context, slowly, and saves each batch
SCORE = """
import sys, time
from parlai_ext.commands.score_dialogues import ScoreDialogues
from parlai_ext.models.likelihood.encoder_decoder import EncoderDecoder
from parlai_ext.store import partial

partial.SAVE_SECONDS = 0
compute = EncoderDecoder._encode_and_decode

def counted(self, *inputs):
    time.sleep(float(sys.argv[2]))
    print('batch', flush=True)
    return compute(self, *inputs)

EncoderDecoder._encode_and_decode = counted
ScoreDialogues.main(run_dir=sys.argv[1], batchsize=1)
"""


def start(run_dir, pause):
    command = [sys.executable, '-c', SCORE, str(run_dir), str(pause)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def n_batches(text):
    return text.split().count('batch')


def scored_files(run_dir):
    return {n: b for n, b in files_of(run_dir).items() if n.startswith('scores/')}


@pytest.mark.parametrize('n_before', [1, pytest.param(4, marks=pytest.mark.slow)])
def test_a_shard_that_was_killed_goes_on_after_its_last_saved_batch(tmp_path, n_before):
    config = small_config(tmp_path, targets=1, partners=1)
    whole, killed = tmp_path / 'whole', tmp_path / 'killed'
    CollectDialogues.main(config=config, run_dir=whole, num_dialogues=3)
    shutil.copytree(whole, killed)
    process = start(whole, 0)
    words, errors = process.communicate()
    assert process.returncode == 0, errors
    n_all = n_batches(words)
    assert n_all >= 6  # one shard of 15 contexts
    process = start(killed, 0.2)
    partial = None
    while partial is None or partial.read_bytes().count(b'\n') <= n_before:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
        partial = next(killed.glob('scores/*/*/*.partial'), None)
    process.kill()
    process.communicate()
    n_saved = partial.read_bytes().count(b'\n') - 1
    assert n_saved >= n_before and not list(killed.glob('scores/*/*/*.jsonl'))
    process = start(killed, 0)
    words, errors = process.communicate()
    assert process.returncode == 0, errors
    assert n_batches(words) == n_all - n_saved
    assert scored_files(killed) == scored_files(whole)
    # what a kill between writing and removing leaves is removed by the next command
    partial.write_bytes(b'')
    process = start(killed, 0)
    assert n_batches(process.communicate()[0]) == 0 and not partial.exists()
