"""
`kill -9` within a shard: the batches that were saved are not computed again, and the
scores are those of a run that was never killed.
"""

import os
import shutil
import signal

import pytest

from parlai_ext.commands.collect_dialogues import CollectDialogues
from parlai_ext.commands.score_dialogues import ScoreDialogues
from parlai_ext.models.likelihood.encoder_decoder import EncoderDecoder
from parlai_ext.store import partial
from tests.support.forked import said_in_child
from tests.support.small_run import files_of, small_config

COMPUTE = EncoderDecoder._encode_and_decode


@pytest.fixture
def n_batches(monkeypatch):
    """
    A function that scores a run in batches of one context, each of which is saved; it
    returns how many are computed, and the process is killed within the one after
    ``most``.
    """
    monkeypatch.setattr(partial, 'SAVE_SECONDS', 0)

    def score(run_dir, most=1000):
        computed = []

        def counted(self, *inputs):
            if len(computed) == most:
                os.kill(os.getpid(), signal.SIGKILL)
            computed.append(inputs)
            return COMPUTE(self, *inputs)

        monkeypatch.setattr(EncoderDecoder, '_encode_and_decode', counted)
        ScoreDialogues.main(run_dir=run_dir, batchsize=1)
        return len(computed)

    return score


def scored_files(run_dir):
    return {n: b for n, b in files_of(run_dir).items() if n.startswith('scores/')}


def test_a_shard_that_was_killed_goes_on_after_its_last_saved_batch(
    tmp_path, n_batches
):
    config = small_config(tmp_path, targets=1, partners=1)
    whole, killed = tmp_path / 'whole', tmp_path / 'killed'
    CollectDialogues.main(config=config, run_dir=whole, num_dialogues=3)
    shutil.copytree(whole, killed)
    n_all = n_batches(whole)
    for most in (1, 3):  # killed once more while it goes on
        assert said_in_child(lambda m=most: n_batches(killed, m), 300) == 'never ended'
    [saved] = killed.glob('scores/*/*/*.partial')
    assert saved.read_bytes().count(b'\n') == 1 + 1 + 3  # a header before them
    assert not list(killed.glob('scores/*/*/*.jsonl'))
    assert n_batches(killed) == n_all - 4
    assert scored_files(killed) == scored_files(whole)
    # what a kill between writing and removing leaves is removed by the next command
    saved.write_bytes(b'')
    assert n_batches(killed) == 0 and not saved.exists()
