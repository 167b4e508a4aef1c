"""
Killed at any moment, a download goes on where it was; two at once are one.
"""

import os
import random
import signal
import threading
import time
from multiprocessing import get_context

import pytest
from parlai.core import build_data

from parlai_ext.systems import zoo
from parlai_ext.systems.fetch import archives
from parlai_ext.systems.fetch.data_folder import downloads_folder, exclusive
from tests.support.download_server import add_model, seen, tar_of

pytest_plugins = ['tests.support.download_server']
MODEL = random.Random(0).randbytes(3_000_000)


def fetch(data, when):
    """
    Fetch the model, and be killed on the way.
    """

    def die(*args, **kwargs):
        os.kill(os.getpid(), signal.SIGKILL)

    if when == 'unpacking':
        archives.move_into = die
    if when == 'building':
        build_data.mark_done = die
    zoo.fetch_path('zoo:fake/m/model')


def nothing_is_left(data):
    return not [p for p in downloads_folder().rglob('*') if p.is_file()]


def start(data, when='never'):
    """
    Begin to fetch in another process: a fork, for a fresh one would import torch first.
    """
    process = get_context('fork').Process(target=fetch, args=(data, when), daemon=True)
    process.start()
    return process


def upload(server, zoo_home):
    server.files['/a/m.tgz'] = tar_of({'model': MODEL, 'model.opt': b'{}'})
    add_model(zoo_home, server, 'm')
    return len(server.files['/a/m.tgz'])


def test_killed_in_the_middle_of_a_file(server, zoo_home, data, fetch_model):
    size = upload(server, zoo_home)
    server.holds = 2_000_000
    process = start(data)
    try:
        assert server.half.wait(60)
        deadline = time.monotonic() + 30
        while not any(  # until what was sent is on the disk
            path.stat().st_size > 10**6
            for path in downloads_folder().glob('*/file.part')
        ):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        process.kill()
        process.join()
    assert seen(data)[0] == []
    have = next(downloads_folder().glob('*/file.part')).stat().st_size
    server.holds = None
    assert fetch_model('m').read_bytes() == MODEL
    assert server.ranges_asked() == [None, f'bytes={have}-']
    assert server.sent[1] == size - have  # what had come did not travel again
    assert seen(data)[1] == []
    assert nothing_is_left(data)


@pytest.mark.parametrize('when', ['unpacking', 'building'])
def test_killed_after_the_download(when, server, zoo_home, data, fetch_model):
    upload(server, zoo_home)
    process = start(data, when)
    process.join(100)
    assert process.exitcode == -signal.SIGKILL
    assert seen(data)[0] == []
    assert fetch_model('m').read_bytes() == MODEL
    assert len(server.asked) == 1
    assert nothing_is_left(data)


def test_two_processes_fetch_a_model_once(server, zoo_home, data):
    upload(server, zoo_home)
    both = [start(data) for _ in range(2)]
    for process in both:
        process.join(100)
        assert process.exitcode == 0
    assert len(server.asked) == 1
    assert (data / 'models/fake/m/model').read_bytes() == MODEL
    assert nothing_is_left(data)


def test_a_folder_is_held_by_one_at_a_time(tmp_path):
    folder, inside, seen_together = tmp_path / 'x', [], []

    def work():
        for _ in range(20):
            with exclusive(folder):
                inside.append(1)
                seen_together.append(len(inside))
                time.sleep(0.001)
                inside.pop()

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert seen_together == [1] * 80


def test_a_file_in_the_place_of_a_folder_is_said(tmp_path):
    (tmp_path / 'x').write_text('')
    with pytest.raises(FileExistsError), exclusive(tmp_path / 'x'):
        pass
