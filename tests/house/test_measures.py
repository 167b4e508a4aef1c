import pytest

from tests.house import measures


def test_tokens_leave_out_comments_docstrings_and_layout():
    assert measures.code_tokens('x = 1  # one\n\n\n') == 3
    assert measures.code_tokens("def f():\n    'Doc.'\n    return 1\n") == 7
    packed = measures.code_tokens('x = [1, 2]\n')
    assert measures.code_tokens('x = [\n    1,\n    2\n]\n') == packed


@pytest.mark.parametrize(
    'now, said', [(101, 'rose from 100 to 101'), (98, 'fell from 100 to 98')]
)
def test_a_number_that_rose_or_fell_far_is_named(now, said):
    [line] = measures.faults({'tokens': now}, {'tokens': 100})
    assert line.startswith(f'tokens {said}')


def test_a_number_that_fell_a_little_is_let_be():
    assert measures.faults({'tokens': 99}, {'tokens': 100}) == []


def test_a_number_that_is_not_recorded_is_named():
    [line] = measures.faults({'tokens': 1, 'new': 2}, {'tokens': 1})
    assert 'new' in line


def test_siblings_are_modules_of_the_house_counted_once():
    text = (
        'import os\nfrom parlai_ext.core import errors\n'
        'from parlai_ext.core import options\ndef later():\n    import parlai_ext.api\n'
    )
    assert measures.siblings(text) == 2
