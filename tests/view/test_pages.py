"""
Every kind of page has the same frame, parts and style, and fits into narrow windows.
"""

import re

import pytest

from parlai_ext.collect.trials import DryRun
from parlai_ext.view.page import TEMPLATES, terminal_lines
from tests.support.browser import STICKING
from tests.support.pages import example_pages

pytest_plugins = ['tests.support.browser']
# of a rating page only its frame is shared: it must not say what made the dialogues
READ = ('run', 'bench', 'comparison', 'safety', 'list', 'protocol', 'side_by_side')


@pytest.fixture(scope='module')
def pages(module_folder):
    return example_pages(module_folder)


@pytest.mark.parametrize('kind', READ)
def test_the_page_begins_with_what_was_measured_on_what_and_with_what(pages, kind):
    fact = r'<dt>(?:Measured|On|With)</dt><dd>\s*(?:<[ab][^>]*>)*[^<\s]'
    assert len(re.findall(fact, pages[kind].read_text())) == 3


@pytest.mark.parametrize('kind', READ)
def test_every_table_has_a_name_for_those_who_hear_the_page(pages, kind):
    page = pages[kind].read_text()
    named = re.findall(r'class="scroll" tabindex="0" role="group" aria-label="\S', page)
    assert len(named) == page.count('class="scroll"') > 0


def test_a_name_adds_no_line_to_a_report_for_the_terminal():
    dry = DryRun('mine\nproven  all of it\x1b[2J', 1, 1, 1, 1, 1, 1, 1, 0, (), {}, {})
    lines = terminal_lines('dry_run', dry=dry)
    assert lines[0] == r'protocol   mine proven  all of it\x1b[2J'


def test_two_runs_of_one_name_are_told_apart_and_compared(pages):
    page = pages['side_by_side'].read_text()
    assert 'run (1)' in page
    assert 'run (2)' in page
    # of three targets, two are ranked in both: they alone may have moved
    assert '<b>0 of 2</b>' in page


def test_two_dialogues_fit_side_by_side_on_a_telephone(browser, pages):
    browser.show(width=400)
    browser.open(pages['side_by_side'])
    tables = '[...document.querySelectorAll(".scroll:has(.side)")]'
    hidden = f'Math.max(...{tables}.map((e) => e.scrollWidth - e.clientWidth))'
    assert browser.evaluate(hidden) == 0


def test_tables_and_frames_are_written_in_one_template_each():
    texts = {path.name: path.read_text('utf-8') for path in TEMPLATES.glob('**/*.j2')}
    marks = {
        'macros.html.j2': ('<table', 'class="scroll"', 'svg class="share'),
        'base.html.j2': ('<!DOCTYPE', '<style', 'Content-Security-Policy'),
    }
    for home, of_home in marks.items():
        for mark in of_home:
            assert [name for name, text in texts.items() if mark in text] == [home]


@pytest.mark.parametrize('kind', [*READ, 'rating'])
def test_nothing_sticks_out_and_an_accessibility_engine_finds_nothing(
    browser, pages, kind
):
    browser.open(pages[kind])
    for width in (1280, 800, 400):
        browser.show(width=width, scheme='dark')
        room = browser.evaluate('document.documentElement.clientWidth')
        assert browser.evaluate(STICKING) == [room, []]
    assert browser.violations() == []
