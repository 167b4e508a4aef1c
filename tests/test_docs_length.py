"""
A page of the docs can be read in one sitting.
"""

import re
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[1] / 'docs').glob('*.md'))
MOST_WORDS = 1500
# pages of tables and printed output; of these, too, the text between them is bounded
REFERENCE = {
    'annotation',  # options, columns of files
    'audit_demos',  # what the audit prints
    'composite',
    'judged_sets',
    'judges_compared',
    'paireval',
    'papers',
    'stopping_method',
}


def text_words(page):
    """
    Return the number of words outside of tables and code blocks.
    """
    text = re.sub(r'^```.*?^```', '', page, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r'(?:\A|\n\n)(?: {4}.*(?:\n|\Z)+)+', '\n\n', text)
    return len(re.sub(r'^ *\|.*$', '', text, flags=re.MULTILINE).split())


@pytest.mark.parametrize('page', PAGES, ids=lambda path: path.stem)
def test_a_page_has_at_most_1500_words(page):
    text = page.read_text(encoding='utf-8')
    assert text_words(text) <= MOST_WORDS
    assert page.stem in REFERENCE or len(text.split()) <= MOST_WORDS
