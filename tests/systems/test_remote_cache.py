"""
The cache: what was answered is there, whatever happened to the process.
"""

import os
import sqlite3
from contextlib import contextmanager
from multiprocessing import get_context

import pytest

from parlai_ext.systems.remote.endpoint import ReplyCache, cache_key
from parlai_ext.systems.remote.replies import RemoteReply
from tests.support.user_error import user_error


def write(path, name, n, told):
    cache = ReplyCache(str(path))
    for i in range(n):
        cache.put(str(i), RemoteReply(name * 500))
        os.write(told, b'%d\n' % i)


@contextmanager
def writer(path, name, n):
    """
    Write answers in another process; give it, and a file of the numbers that are there.
    """
    reads, writes = os.pipe()
    process = get_context('fork').Process(target=write, args=(path, name, n, writes))
    process.start()
    os.close(writes)
    with os.fdopen(reads) as numbers:
        yield process, numbers
        process.join(100)


def test_an_answer_is_kept_with_all_it_has(tmp_path):
    answer = RemoteReply('é\u2028🙂', None, None, 'tiny-1', 3, 4)
    ReplyCache(str(tmp_path / 'new' / 'c.sqlite')).put('k', answer)
    again = ReplyCache(str(tmp_path / 'new' / 'c.sqlite'))
    assert again.get('k') == answer
    assert again.get('other') is None


def test_of_two_answers_the_first_stays(tmp_path):
    cache = ReplyCache(str(tmp_path / 'c.sqlite'))
    cache.put('k', RemoteReply('first'))
    assert cache.put('k', RemoteReply('second')) == RemoteReply('first')


def test_a_killed_writer_loses_nothing_that_it_said_was_there(tmp_path):
    path = tmp_path / 'c.sqlite'
    with writer(path, 'x', 10**6) as (process, numbers):
        for _ in range(20):
            last = int(numbers.readline())
        process.kill()
    cache = ReplyCache(str(path))
    assert all(cache.get(str(i)) == RemoteReply('x' * 500) for i in range(last + 1))
    assert cache.put('after', RemoteReply('all')) == RemoteReply('all')


def test_two_processes_write_and_agree(tmp_path):
    path = tmp_path / 'c.sqlite'
    with writer(path, 'a', 40) as (_, one), writer(path, 'b', 40) as (_, other):
        outputs = [numbers.read() for numbers in (one, other)]
    assert [len(output.split()) for output in outputs] == [40, 40]
    cache = ReplyCache(str(path))
    texts = {cache.get(str(i)).text for i in range(40)}
    assert texts <= {'a' * 500, 'b' * 500}


def test_a_file_that_is_no_cache_is_one_line(tmp_path):
    path = tmp_path / 'c.sqlite'
    path.write_text('not a database, and long enough to be taken for one' * 20)
    with user_error('remote_cache: .*c.sqlite cannot be used'):
        ReplyCache(str(path))


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / 'file').touch()
    with user_error('remote_cache: '):
        ReplyCache(str(tmp_path / 'file' / 'c.sqlite'))


def test_the_key_depends_on_address_name_and_request():
    keys = {
        cache_key('http://a', 'm-1', b'{}'),
        cache_key('http://b', 'm-1', b'{}'),
        cache_key('http://a', 'm-2', b'{}'),
        cache_key('http://a', 'm-1', b'{"x":1}'),
    }
    assert len(keys) == 4


@pytest.mark.parametrize('row', ['', '[', '7', '{"nothing": 1}'])
def test_a_row_that_is_no_answer_is_one_line(tmp_path, row):
    path = str(tmp_path / 'c.sqlite')
    ReplyCache(path).put('k', RemoteReply('hi'))
    with sqlite3.connect(path) as file:
        file.execute('UPDATE answers SET answer = ?', (row,))
    with user_error('remote_cache: .*cannot be used'):
        ReplyCache(path).get('k')
