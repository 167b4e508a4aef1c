"""
The repository that is tested, and the text of its pages.
"""

from pathlib import Path

ROOT = Path(__file__).parents[2]


def docs_page(name):
    """
    Return the text of a page in docs/.
    """
    return (ROOT / 'docs' / f'{name}.md').read_text('utf-8')
