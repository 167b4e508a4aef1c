"""
Errors of the disk where Rust writes are the `OSError` that they are.
"""

import errno
import resource
import signal

import pytest
import torch
from tokenizers import Tokenizer, models

from parlai_ext.systems.safe.read import disk_errors, write_states

MOST = 4096  # bytes of a file


@pytest.fixture
def small_files():
    """
    Let no file of this process grow beyond some bytes.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def write_tokenizer(path):
    with disk_errors(path):
        Tokenizer(models.WordLevel({'x' * MOST: 0}, unk_token='x')).save(str(path))


def write_model(path):
    write_states({'model': {'a': torch.zeros(MOST)}}, path)


@pytest.mark.parametrize('write', [write_tokenizer, write_model])
def test_a_disk_that_takes_no_more_is_an_os_error(tmp_path, small_files, write):
    path = tmp_path / 'file'
    with pytest.raises(OSError) as raised:
        write(path)
    assert (raised.value.errno, raised.value.filename) == (errno.EFBIG, str(path))


def test_other_errors_stay_what_they_are(tmp_path):
    with pytest.raises(ValueError, match='no such thing'), disk_errors(tmp_path):
        raise ValueError('no such thing')
