"""
A model of the zoo is there, whole and checked, or it is not there: also where two fetch
it at once, or one is killed; ParlAI's functions are replaced only meanwhile.
"""

import gzip
import random
import shutil
import signal

import pytest
from parlai.core import build_data

from parlai_ext.engines import downloads_folder
from parlai_ext.systems import zoo
from parlai_ext.systems.fetch import archives
from parlai_ext.systems.fetch.checked_downloads import checked_downloads
from tests.support.download_server import (
    exit_code,
    fetching,
    forget,
    seen,
    sha256,
    tar_of,
)
from tests.support.user_error import error_line, user_error
from tests.support.waiting import comes_true
from tests.support.written import json_in

pytestmark = pytest.mark.usefixtures('data')

pytest_plugins = ['tests.support.download_server']


MODEL = bytes(range(256)) * 1000


LOCK = 'models/parlai_ext.lock.json'


BUILT = ['models/fake/m/.built', 'models/fake/m/model', LOCK]


@pytest.fixture
def model(server, add_model):
    """
    Put a model into the zoo and return its archive's bytes.
    """
    server.files['/a/m.tgz'] = tar_of({'./model': MODEL})
    add_model('m')
    return server.files['/a/m.tgz']


def test_a_file_that_a_downloaded_folder_lacks_is_told_at_once(model, fetch_model):
    folder = fetch_model('m').parent
    with user_error(f"{folder} has no modle; did you mean 'model'"):
        zoo.require_in_zoo('zoo:fake/m/modle')


def test_its_hash_is_recorded(model, fetch_model, data, server):
    assert fetch_model('m').read_bytes() == MODEL
    entry = {'sha256': sha256(model), 'size': len(model)}
    assert json_in(data / LOCK)['files'] == {f'{server.url}/a/m.tgz': entry}
    assert seen(data) == (BUILT, [])


def test_what_is_there_is_not_touched(model, fetch_model, server):
    fetch_model('m').write_bytes(b'mine')
    assert fetch_model('m').read_bytes() == b'mine'
    assert len(server.asked) == 1


def test_another_file_is_refused_and_both_hashes_are_named(
    model, fetch_model, data, server
):
    fetch_model('m')
    shutil.rmtree(data / 'models' / 'fake')
    server.files['/a/m.tgz'] = tar_of({'./model': b'evil'})
    line = error_line(fetch_model, 'm')
    for content in (model, server.files['/a/m.tgz']):
        assert sha256(content) in line
    assert seen(data) == ([LOCK], [])
    server.files['/a/m.tgz'] = model
    assert fetch_model('m').read_bytes() == MODEL


def test_what_is_not_a_model_leaves_nothing(model, fetch_model, data, server):
    server.files['/a/m.tgz'] = model[:-500]
    with user_error('^zoo:fake/m/model cannot be downloaded: .*m.tgz is damaged'):
        fetch_model('m')
    assert seen(data) == ([], [])  # and nothing is recorded of it


def test_of_two_archives_both_are_there_or_none(
    model, fetch_model, data, server, add_model
):
    add_model('two', ['m.tgz', 'n.tgz'])
    with user_error('n.tgz answers 404'):
        fetch_model('two')
    assert seen(data)[0] == []
    server.files['/a/n.tgz'] = tar_of({'more': b''})
    fetch_model('two')
    asked = [path for path, _ in server.asked]
    assert asked == ['/a/m.tgz', '/a/n.tgz', '/a/n.tgz']  # the first only once


def test_a_file_that_is_no_archive_is_put_beside_the_model(
    model, fetch_model, data, server, add_model
):
    server.files['/a/model'] = MODEL
    add_model('plain', ['model'])
    assert fetch_model('plain').read_bytes() == MODEL
    assert seen(data)[1] == []


def test_flat_models_are_flat(fetch_model, server, add_model):
    server.files['/a/m.tgz'] = tar_of({'some/where/model': MODEL})
    add_model('flat', flat=True)
    assert fetch_model('flat').read_bytes() == MODEL


def renewed(server, add_model, content):
    server.files['/a/v2.tgz'] = content
    add_model('m', ['v2.tgz'], 'v2.0')
    forget()


def test_a_newer_version_takes_the_place_of_the_older(
    model, fetch_model, data, server, add_model
):
    (fetch_model('m').parent / 'of_the_old').touch()
    renewed(server, add_model, tar_of({'model': b'new'}))
    assert fetch_model('m').read_bytes() == b'new'
    assert seen(data) == (BUILT, [])


def test_a_newer_version_that_fails_leaves_the_older(
    model, fetch_model, data, server, add_model
):
    file = fetch_model('m')
    renewed(server, add_model, b'<html>')
    with user_error('web page'):
        fetch_model('m')
    assert file.read_bytes() == MODEL
    assert seen(data) == (BUILT, [])


def test_half_a_model_of_another_program_is_replaced(model, fetch_model, data):
    folder = data / 'models' / 'fake' / 'm'
    folder.mkdir(parents=True)
    (folder / 'model').write_bytes(MODEL[:1000])  # and no .built
    assert fetch_model('m').read_bytes() == MODEL


def test_a_folder_that_may_not_be_written_is_one_line(model, fetch_model, data):
    data.write_text('a file')
    with user_error('cannot be downloaded: .*Errno'):
        fetch_model('m')


MODEL_KILLED = random.Random(0).randbytes(3_000_000)


def start(*deadly):
    return fetching(lambda: zoo.fetch_path('zoo:fake/m/model'), *deadly)


def upload(server, add_model):
    server.files['/a/m.tgz'] = tar_of({'model': MODEL_KILLED, 'model.opt': b'{}'})
    add_model('m')
    return len(server.files['/a/m.tgz'])


def test_killed_in_the_middle_of_a_file(server, add_model, data, fetch_model):
    size = upload(server, add_model)
    server.holds = 2_000_000
    process = start()
    try:
        assert server.half.wait(60)
        assert comes_true(  # what was sent is on the disk
            lambda: any(
                path.stat().st_size > 10**6
                for path in downloads_folder().glob('*/file.part')
            )
        )
    finally:
        process.kill()
        process.join()
    assert seen(data)[0] == []
    have = next(downloads_folder().glob('*/file.part')).stat().st_size
    server.holds = None
    assert fetch_model('m').read_bytes() == MODEL_KILLED
    assert server.ranges_asked() == [None, f'bytes={have}-']
    assert server.sent[1] == size - have  # what had come did not travel again
    assert seen(data)[1] == []


@pytest.mark.parametrize(
    'module, function', [(archives, 'move_into'), (build_data, 'mark_done')]
)
def test_killed_after_the_download(
    module, function, server, add_model, data, fetch_model
):
    upload(server, add_model)
    assert exit_code(start(module, function)) == -signal.SIGKILL
    assert seen(data)[0] == []
    assert fetch_model('m').read_bytes() == MODEL_KILLED
    assert len(server.asked) == 1
    assert seen(data)[1] == []


def test_two_processes_fetch_a_model_once(server, add_model, data):
    upload(server, add_model)
    both = [start() for _ in range(2)]
    assert [exit_code(process) for process in both] == [0, 0]
    assert len(server.asked) == 1
    assert (data / 'models/fake/m/model').read_bytes() == MODEL_KILLED
    assert seen(data)[1] == []


PLAIN = """
from parlai.core.build_data import built, download as get, mark_done
import gzip, os

def download(datapath):
    path = os.path.join(datapath, 'models/fake/own')
    if not built(path, 'v1'):
        os.makedirs(path)
        get({url!r}, path, 'model.gz')
        with gzip.open(os.path.join(path, 'model.gz')) as packed:
            with open(os.path.join(path, 'model'), 'wb') as file:
                file.write(packed.read())
        mark_done(path, 'v1')
"""


def test_a_module_that_unpacks_by_itself_downloads_through_us_too(
    fetch_model, data, server, zoo_home, add_model
):
    # as parlai/zoo/hallucination/wiki_passages.py
    server.files['/a/model.gz'] = gzip.compress(MODEL)
    add_model('m')
    url = f'{server.url}/a/model.gz'
    (zoo_home / 'fake' / 'own.py').write_text(PLAIN.format(url=url))
    assert zoo.needed_downloads('zoo:fake/own/model') == [url]
    assert not data.exists()
    server.statuses = [403]
    with user_error('answers 403'):
        fetch_model('own')
    assert seen(data) == ([], [])
    assert fetch_model('own').read_bytes() == MODEL
    assert url in (data / LOCK).read_text()


def test_parlais_own_functions_are_back_afterwards(server, tmp_path):
    server.files['/a/x'] = b'<html>'
    for name in ('before', 'after'):  # the same functions: a module may hold one
        function = build_data.download
        with user_error('web page'), checked_downloads():
            function(f'{server.url}/a/x', str(tmp_path), name)
        function(f'{server.url}/a/x', str(tmp_path), name)
        assert (tmp_path / name).read_bytes() == b'<html>'


def test_the_innermost_block_downloads(server, tmp_path):
    server.files['/a/x'] = b'x'
    with checked_downloads() as outer:
        with checked_downloads() as inner:
            build_data.download(f'{server.url}/a/x', str(tmp_path), 'x')
        build_data.download(f'{server.url}/a/x', str(tmp_path), 'y')
    assert len(inner.entries) == len(outer.entries) == 1
