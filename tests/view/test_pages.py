"""
Every kind of page has the same frame, parts and style, and fits into narrow windows.
"""

import re
from html.parser import HTMLParser

import pytest

from parlai_ext.view.page import TEMPLATES, template_text
from tests.support.browser import BROWSER, MISSING, STICKING
from tests.support.pages import example_pages

pytest_plugins = ['tests.support.browser']
KINDS = (
    'run',
    'bench',
    'comparison',
    'safety',
    'list',
    'protocol',
    'side_by_side',
    'rating',
)
# of a rating page only its frame is shared: it must not say what made the dialogues
READ = tuple(kind for kind in KINDS if kind != 'rating')


class Outline(HTMLParser):
    """
    The elements of a page as paths from the body; those before its first section as its
    head; and the classes of what holds a table.
    """

    VOID = ('meta', 'input', 'br', 'line', 'rect', 'path', 'circle')

    def __init__(self, text):
        super().__init__()
        self.open, self.paths, self.holders = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == 'table':
            self.holders.append(dict(self.open[-1][1]))
        self.open.append((tag, attrs))
        self.paths.append('/'.join(name for name, _ in self.open))
        if tag in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop()[0] == tag


@pytest.fixture(scope='module')
def pages(tmp_path_factory):
    return example_pages(tmp_path_factory.mktemp('pages'))


@pytest.mark.parametrize('kind', KINDS)
def test_the_style_begins_with_the_shared_sheet(pages, kind):
    (style,) = re.findall('<style>(.*?)</style>', pages[kind].read_text(), re.DOTALL)
    assert style.startswith(template_text('page.css'))
    assert kind == 'rating' or style == template_text('page.css')


@pytest.mark.parametrize('kind', READ)
def test_the_page_begins_and_ends_as_every_other(pages, kind):
    text = pages[kind].read_text()
    paths = Outline(text).paths
    body = [p.removeprefix('html/body/') for p in paths if p.startswith('html/body/')]
    links = ['header/p/a'] * (kind == 'protocol')
    names = ['header/h1/bdi'] * (kind in ('run', 'protocol'))
    facts = [f'header/dl{end}' for end in ('', *('/div', '/div/dt', '/div/dd') * 3)]
    begin = ['header', 'header/p', *links, 'header/h1', *names]
    outer = [p for p in body if 'header/dl/div/dd/' not in p]
    assert outer[: len(begin) + len(facts)] == begin + facts
    assert [p for p in body if '/' not in p and p not in ('div', 'script')] == [
        'header',
        'main',
        'footer',
    ]
    values = re.findall(
        r'<dt>(?:Measured|On|With)</dt><dd>\s*(?:<[ab][^>]*>)*[^<\s]', text
    )
    assert len(values) == 3


@pytest.mark.parametrize('kind', KINDS)
def test_every_table_can_scroll(pages, kind):
    holders = Outline(pages[kind].read_text()).holders
    assert holders or kind == 'rating'
    for holder in holders:
        assert holder['class'] == 'scroll' and holder['tabindex'] == '0'


def test_tables_and_frames_are_written_in_one_template_each():
    texts = {path.name: path.read_text('utf-8') for path in TEMPLATES.glob('**/*.j2')}
    for mark, home in (
        ('<table', 'macros.html.j2'),
        ('class="scroll"', 'macros.html.j2'),
        ('svg class="share', 'macros.html.j2'),
        ('<!DOCTYPE', 'base.html.j2'),
        ('<style', 'base.html.j2'),
        ('Content-Security-Policy', 'base.html.j2'),
    ):
        assert [name for name, text in texts.items() if mark in text] == [home]


@pytest.mark.skipif(BROWSER is None, reason=MISSING)
@pytest.mark.parametrize('kind', KINDS)
def test_nothing_sticks_out_and_an_accessibility_engine_finds_nothing(
    browser, pages, kind
):
    browser.open(pages[kind])
    for width in (1280, 800, 400):
        browser.show(width=width, scheme='dark')
        room = browser.evaluate('document.documentElement.clientWidth')
        assert browser.evaluate(STICKING) == [room, []]
    assert browser.violations() == []
