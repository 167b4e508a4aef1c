import pytest

from tests.house import measures


def test_tokens_leave_out_comments_docstrings_and_layout():
    assert measures.code_tokens('x = 1  # one\n\n\n') == 3
    assert measures.code_tokens("def f():\n    'Doc.'\n    return 1\n") == 7
    packed = measures.code_tokens('x = [1, 2]\n')
    assert measures.code_tokens('x = [\n    1,\n    2\n]\n') == packed


@pytest.mark.parametrize(
    'now, said',
    [
        ({'tokens': 101}, ['tokens rose from 100 to 101']),
        ({'tokens': 98}, ['tokens fell from 100 to 98']),
        ({'tokens': 99}, []),
        ({'tokens': 100, 'new': 2}, ["ratchets.yaml: other names: {'new'}"]),
    ],
)
def test_a_number_that_rose_fell_far_or_is_not_recorded_is_named(now, said):
    lines = measures.faults(now, {'tokens': 100})
    assert [line[: len(start)] for line, start in zip(lines, said, strict=True)] == said


def test_siblings_are_modules_of_the_house_counted_once():
    text = (
        'import os\nfrom parlai_ext.core import errors\n'
        'from parlai_ext.core import options\ndef later():\n    import parlai_ext.api\n'
    )
    assert measures.siblings(text) == 2
