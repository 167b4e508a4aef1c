"""
CSV rows with line numbers, checked headers, and both ways of quoting.
"""

import pytest

from parlai_ext.files import read_csv
from tests.support.user_error import user_error


@pytest.mark.parametrize(
    'data, rows',
    [
        ('\ufeff"a", b \r\n"x, y", 4 \r\n\r\n', [(2, 'x, y', '4')]),
        ('b,a\n1,x\u2028y\n', [(2, 'x\u2028y', '1')]),
        ('a,b\n\n1,\n', [(3, '1', '')]),
    ],
)
def test_files_of_other_programs_are_read(tmp_path, data, rows):
    path = tmp_path / 'x.csv'
    path.write_bytes(data.encode())
    found = [(line, row['a'], row['b']) for line, row in read_csv(path, ['a', 'b'])]
    assert found == rows


@pytest.mark.parametrize(
    'data, problem',
    [
        (b'a,b\n1,2\n1,2,3\n', ':3: 3 cells'),
        (b'a,b\n1\n', ':2: 1 cells'),
        (b'a,b\n1,2\n\n"1,2\n', ':4: not a CSV row'),
        (b'a,b\n1,caf\xe9\n', ':2: not UTF-8'),
        (b'', ':1: the file is empty'),
        (None, 'No such file'),
    ],
)
def test_a_mistake_names_file_and_line(tmp_path, data, problem):
    path = tmp_path / 'x.csv'
    if data is not None:
        path.write_bytes(data)
    with user_error(f'{path}.*{problem}'):
        list(read_csv(path, ['a']))
