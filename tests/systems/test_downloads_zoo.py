"""
A model of the zoo is there, whole and checked, or it is not there.
"""

import hashlib
import json
import shutil

import pytest

from parlai_ext.core.nouns import System
from parlai_ext.systems.parlai_agents import load_system
from tests.support.download_server import add_model, forget, seen, tar_of
from tests.support.tiny_models import make_generator
from tests.support.user_error import user_error

pytest_plugins = ['tests.support.download_server']
MODEL = bytes(range(256)) * 1000
LOCK = 'models/parlai_ext.lock.json'
BUILT = ['models/fake/m/.built', 'models/fake/m/model', LOCK]


@pytest.fixture
def model(server, zoo_home):
    """
    Put a model into the zoo and return its archive's bytes.
    """
    server.files['/a/m.tgz'] = tar_of({'./model': MODEL})
    add_model(zoo_home, server, 'm')
    return server.files['/a/m.tgz']


def test_a_model_that_was_downloaded_talks_as_the_one_that_was_uploaded(
    server, zoo_home, data, tmp_path
):
    theirs = tmp_path / 'theirs'
    theirs.mkdir()
    local = make_generator(theirs, 'model', inference='greedy')
    names = ('model', 'model.opt', 'model.dict')
    files = {name: (theirs / name).read_bytes() for name in names}
    server.files['/a/m.tgz'] = tar_of(files)
    add_model(zoo_home, server, 'm')
    said = []
    for path in (local, 'zoo:fake/m/model'):
        player = load_system(System('A', {'model_file': path}), no_cuda=True)
        player.agent.observe({'text': 'you like tea', 'episode_done': False})
        said.append(player.agent.act()['text'])
        shutil.rmtree(theirs, ignore_errors=True)  # only the first is read from there
    assert said[0] and said[0] == said[1]


def test_its_hash_is_recorded(model, fetch_model, data, server):
    assert fetch_model('m').read_bytes() == MODEL
    entry = {'sha256': hashlib.sha256(model).hexdigest(), 'size': len(model)}
    assert json.loads((data / LOCK).read_text())['files'] == {
        f'{server.url}/a/m.tgz': entry
    }
    assert seen(data) == (BUILT, [])


def test_what_is_there_is_not_touched(model, fetch_model, data, server):
    file = fetch_model('m')
    file.write_bytes(b'mine')
    assert fetch_model('m').read_bytes() == b'mine'
    assert len(server.asked) == 1


def test_another_file_is_refused_and_both_hashes_are_named(
    model, fetch_model, data, server
):
    fetch_model('m')
    shutil.rmtree(data / 'models' / 'fake')
    server.files['/a/m.tgz'] = tar_of({'./model': b'evil'})
    with user_error() as caught:
        fetch_model('m')
    for content in (model, server.files['/a/m.tgz']):
        assert hashlib.sha256(content).hexdigest() in str(caught.value)
    assert seen(data) == ([LOCK], [])
    server.files['/a/m.tgz'] = model
    assert fetch_model('m').read_bytes() == MODEL


@pytest.mark.parametrize(
    'content, words',
    [
        (b'<html>403</html>', 'gives a web page'),
        (tar_of({'model': MODEL})[:-500], 'm.tgz is damaged'),
    ],
    ids=['page', 'cut'],
)
def test_what_is_not_a_model_leaves_nothing(
    model, fetch_model, data, server, content, words
):
    server.files['/a/m.tgz'] = content
    with user_error(words) as caught:
        fetch_model('m')
    assert str(caught.value).startswith('zoo:fake/m/model cannot be downloaded: ')
    assert seen(data) == ([], [])  # and nothing is recorded of it
    server.files['/a/m.tgz'] = model
    assert fetch_model('m').read_bytes() == MODEL


def test_of_two_archives_both_are_there_or_none(
    model, fetch_model, data, server, zoo_home
):
    add_model(zoo_home, server, 'two', ['m.tgz', 'n.tgz'])
    with user_error('n.tgz answers 404'):
        fetch_model('two')
    assert seen(data)[0] == []
    server.files['/a/n.tgz'] = tar_of({'more': b''})
    fetch_model('two')
    asked = [path for path, _ in server.asked]
    assert asked == ['/a/m.tgz', '/a/n.tgz', '/a/n.tgz']  # the first only once


def test_a_file_that_is_no_archive_is_put_beside_the_model(
    model, fetch_model, data, server, zoo_home
):
    server.files['/a/model'] = MODEL
    add_model(zoo_home, server, 'plain', ['model'])
    assert fetch_model('plain').read_bytes() == MODEL
    assert seen(data)[1] == []


def test_flat_models_are_flat(fetch_model, server, zoo_home):
    server.files['/a/m.tgz'] = tar_of({'some/where/model': MODEL})
    add_model(zoo_home, server, 'flat', flat=True)
    assert fetch_model('flat').read_bytes() == MODEL


def renewed(server, zoo_home, content):
    server.files['/a/v2.tgz'] = content
    add_model(zoo_home, server, 'm', ['v2.tgz'], 'v2.0')
    forget()


def test_a_newer_version_takes_the_place_of_the_older(
    model, fetch_model, data, server, zoo_home
):
    (fetch_model('m').parent / 'of_the_old').touch()
    renewed(server, zoo_home, tar_of({'model': b'new'}))
    assert fetch_model('m').read_bytes() == b'new'
    assert seen(data) == (BUILT, [])


def test_a_newer_version_that_fails_leaves_the_older(
    model, fetch_model, data, server, zoo_home
):
    file = fetch_model('m')
    renewed(server, zoo_home, b'<html>')
    with user_error('web page'):
        fetch_model('m')
    assert file.read_bytes() == MODEL
    assert seen(data) == (BUILT, [])


def test_models_of_one_folder_do_not_touch_each_other(
    model, fetch_model, server, zoo_home
):
    first = fetch_model('m')
    mark = (first.parent / '.built').read_bytes()
    add_model(zoo_home, server, 'n')
    fetch_model('n')
    assert first.read_bytes() == MODEL
    assert (first.parent / '.built').read_bytes() == mark


def test_half_a_model_of_another_program_is_replaced(model, fetch_model, data):
    folder = data / 'models' / 'fake' / 'm'
    folder.mkdir(parents=True)
    (folder / 'model').write_bytes(MODEL[:1000])  # and no .built
    assert fetch_model('m').read_bytes() == MODEL


def test_a_folder_that_may_not_be_written_is_one_line(model, fetch_model, data):
    data.write_text('a file')
    with user_error('cannot be downloaded: .*Errno'):
        fetch_model('m')
