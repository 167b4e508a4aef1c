"""
Answers kept for a shard that is being scored: read back, or dropped where not sound.
"""

import pytest

from parlai_ext.store.lines import encode
from parlai_ext.store.partial import SAVE_SECONDS, PartialWork


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def kept(path, *keys, source='s'):
    partial = PartialWork(path, source)
    for key in keys:
        partial.put(key, [[[1, 2], [-0.1, -1e-300]]])
    partial.save()
    return partial


def test_answers_come_back_to_the_last_digit(tmp_path):
    path = tmp_path / 'new' / '00000.partial'
    kept(path, 'a', 'b')
    again = kept(path, 'c')
    assert again.get('a') == [[[1, 2], [-0.1, -1e-300]]]
    read = PartialWork(path, 's')
    assert [read.get(key) is not None for key in 'abcd'] == [True, True, True, False]


def test_what_a_kill_left_half_written_is_cut_off(tmp_path):
    path = tmp_path / '00000.partial'
    kept(path, 'a', 'b')
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        read = PartialWork(path, 's')
        n_lines = whole[:end].count(b'\n')
        assert [read.get(key) is not None for key in 'ab'] == [n_lines > 1, n_lines > 2]
        read.put('c', [])
        read.save()
        assert PartialWork(path, 's').get('c') == []


@pytest.mark.parametrize('old, new', [(b'-0.1', b'-0.2'), (b'"batch"', b'"botch"')])
def test_a_damaged_line_and_those_after_it_are_dropped(tmp_path, old, new):
    path = tmp_path / '00000.partial'
    kept(path, 'a', 'b')
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    read = PartialWork(path, 's')
    assert read.get('a') is None and read.get('b') is None


def test_answers_for_other_dialogues_are_dropped(tmp_path):
    path = tmp_path / '00000.partial'
    kept(path, 'a')
    assert PartialWork(path, 'other').get('a') is None
    kept(path, 'b', source='other')
    assert PartialWork(path, 's').get('a') is None


def test_a_shard_of_less_than_the_interval_leaves_no_file(tmp_path):
    path, clock = tmp_path / '00000.partial', Clock()
    partial = PartialWork(path, 's', clock)
    clock.now = SAVE_SECONDS - 1
    partial.put('a', [])
    assert not path.exists()
    clock.now = SAVE_SECONDS
    partial.put('b', [])
    assert PartialWork(path, 's').get('a') == []
    partial.remove()
    assert not path.exists()


def test_no_interval_is_longer_than_a_minute():
    assert SAVE_SECONDS <= 60


def test_numbers_that_json_lacks_are_not_kept(tmp_path):
    partial = kept(tmp_path / '00000.partial')
    partial.put('a', [float('nan')])
    partial.save()
    assert PartialWork(tmp_path / '00000.partial', 's').get('a') is None


@pytest.mark.parametrize('line', ['[' * 100_000, encode({'batch': 'b'}), 'NaN'])
def test_a_line_of_another_kind_ends_what_is_read(tmp_path, line):
    path = tmp_path / '00000.partial'
    kept(path, 'a')
    path.write_text(f'{path.read_text()}{line}\n')
    read = PartialWork(path, 's')
    assert read.get('a') is not None and read.get('b') is None
