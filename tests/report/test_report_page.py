import base64
import hashlib
import json
import random
import re
import unicodedata
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parlai_ext.report import page as report_page
from parlai_ext.report.page import (
    PageCandidate,
    choose,
    fair_shares,
    room_for,
    write_report,
)
from parlai_ext.view.page import script_safe_json
from tests.support.report_example import LABELS, example_ranking, example_run, standing

# attributes through which a page could load or send something
LOADING = 'src href xlink:href srcset action formaction data poster background ping'
BREAKING = [
    '</script><script>1</script>',
    '<!--<script>',
    ']]>',
    '\u2028\u2029',
    '\\u003c/script>',
    '"\'&amp;',
    'half \ud83d',
]


class Page(HTMLParser):
    """
    The page as a browser's parser sees it, more or less.
    """

    def __init__(self, text):
        super().__init__()
        self.source, self.tags = text, []
        self.feed(text)
        self.scripts = re.findall('<script[^>]*>(.*?)</script>', text, re.DOTALL)
        (self.style,) = re.findall('<style>(.*?)</style>', text, re.DOTALL)
        self.data = json.loads(self.scripts[0])

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


def rendered(folder, ranking=None, **about):
    path = write_report(example_run(folder, **about), ranking or example_ranking())
    return path.read_text('utf-8')


@pytest.fixture(scope='module')
def page(module_folder):
    return Page(rendered(module_folder / 'r'))


def test_page_loads_nothing_and_no_element_has_a_handler_or_a_style(page):
    for tag, attributes in page.tags:
        for name in LOADING.split():
            assert attributes.get(name, '#').startswith('#'), (tag, attributes)
        assert tag not in ('link', 'iframe', 'object', 'embed', 'base', 'img')
        assert not any(n == 'style' or n.startswith('on') for n in attributes)
    assert '@import' not in page.style and 'url(' not in page.style
    assert 'http://' not in page.source and 'https://' not in page.source


def test_policy_allows_only_this_style_and_this_script(page):
    (policy,) = [a['content'] for _, a in page.tags if 'http-equiv' in a]
    assert "default-src 'none';" in policy
    for kind, text in (('style', page.style), ('script', page.scripts[1])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}';" in policy


@pytest.mark.parametrize('text', BREAKING)
def test_data_cannot_leave_its_script_element(text):
    written = script_safe_json({text: [text]})
    assert not set('<>&') & set(written)
    assert written.encode('utf-8')


def test_page_carries_evidence_with_its_labels(page):
    shown = page.data['dialogues']
    [scorer] = page.data['scorers']
    assert scorer['labels'] == list(LABELS)
    assert {one['why'] for one in shown} == {''}  # all of the run
    scored = shown[0]['scored'][0]['turns']['2']
    assert len(scored['evidence']) == len(LABELS)


def test_the_page_never_shows_nan(tmp_path):
    nan = replace(standing('alpha', None, None), low=float('nan'))
    ranking = example_ranking(unranked=('alpha', 'beta'), standings={'Overall': (nan,)})
    assert not re.search(r'\bnan\b', rendered(tmp_path / 'r', ranking), re.IGNORECASE)


def test_unranked_system_is_listed_and_marked(tmp_path):
    ranking = example_ranking(unranked=('alpha',), dimensions=('Overall',))
    text = rendered(tmp_path / 'r', ranking)
    board = text.partition('<table class="board">')[2].partition('</table>')[0]
    # below the other
    last = board.rpartition('<tr')[2]
    assert 'not ranked' in last and 'alpha' in last
    assert '1 of its 4 dialogues failed' in last


def test_floors_and_guessed_systems_are_marked(tmp_path):
    names = ('floor-generic', 'beta')
    ranking = example_ranking(names, guessed=('beta',))
    text = rendered(tmp_path / 'r', ranking, targets=names)
    rows = text.split('<tr')
    assert any('floor-generic' in r and '>floor</span>' in r for r in rows)
    assert any('beta' in r and '>guessed</span>' in r for r in rows)


def test_page_says_how_many_of_how_many_dialogues_it_shows(tmp_path, monkeypatch):
    monkeypatch.setattr('parlai_ext.report.page.MAX_PAGE_CHARACTERS', 14_000)
    openers = [f'hello {n}' for n in range(10)]
    text = rendered(tmp_path / 'r', openers=openers)
    n_shown = len(Page(text).data['dialogues'])
    assert 12 < n_shown < 40
    assert f'{n_shown} of 40 dialogues are on this page' in text


def test_folders_of_this_machine_are_left_out(tmp_path):
    text = rendered(tmp_path / 'r')
    assert 'someone' not in text and str(tmp_path) not in text
    assert '…/model' in text


def test_hidden_characters_become_visible(tmp_path):
    hidden = 'a\x1b[31m\u202eb\u200b\x00\x85'
    text = rendered(tmp_path / 'r', lines=[hidden], openers=[hidden])
    bad = {c for c in text if unicodedata.category(c) in ('Cc', 'Cf', 'Cs')} - {'\n'}
    assert not bad
    assert 'a␛[31m⟨U+202E⟩b⟨U+200B⟩␀⟨U+0085⟩' in text


def test_very_long_utterances_are_cut_and_say_so(tmp_path):
    text = rendered(tmp_path / 'r', lines=['x' * 100_000])
    assert '(96000 more characters)' in text
    assert 'x' * 4001 not in text


def some(target, values):
    return [
        PageCandidate(f'{target}-{i}', f'pair-{i % 3}', f'o-{i}', target, 'p', value)
        for i, value in enumerate(values)
    ]


@given(st.lists(st.integers(0, 50), max_size=12), st.integers(0, 200))
def test_shares_use_every_place_and_nobody_has_less_while_another_could_spare(
    sizes, limit
):
    shares = fair_shares(sizes, limit)
    assert sum(shares) == min(limit, sum(sizes))
    pairs = list(zip(shares, sizes, strict=True))
    assert all(share <= size for share, size in pairs)
    wanting = [share for share, size in pairs if share < size]
    assert not wanting or max(shares) - min(wanting) <= 1


def test_choice_is_bounded_and_has_both_ends_of_every_target():
    values = [*map(float, range(500)), None]
    found = some('a', values) + some('b', map(float, range(400)))
    picks = choose(found, 40)
    ids = {one.dialogue_id for one in picks}
    assert len(picks) == len(ids) == 40
    # and those without a score
    assert {'a-0', 'a-499', 'a-500', 'b-0', 'b-399'} <= ids


def test_choice_does_not_depend_on_the_order_of_dialogues():
    found = some('a', [float(i % 7) for i in range(200)])
    mixed = random.Random(3).sample(found, len(found))
    assert choose(found, 25) == choose(mixed, 25)


def test_the_random_ones_are_over_the_same_openers_for_each_target():
    # no values: half are taken as not scored, half at random, in one and the same order
    found = some('a', [None] * 90) + some('b', [None] * 90)
    openers = {'a': set(), 'b': set()}
    for pick in choose(found, 40):
        openers[pick.target].add(pick.opener_id)
    assert openers['a'] == openers['b'] and len(openers['a']) == 20


def test_there_is_room_for_as_many_as_fit(monkeypatch):
    monkeypatch.setattr(report_page, 'MAX_PAGE_CHARACTERS', 1000)
    ten = [replace(one, size=50) for one in some('a', map(float, range(100)))]
    # 1000 / 50, and half as many with the scores of two scorers
    assert (room_for(ten), room_for(ten[:20]), room_for(ten, 2)) == (20, 20, 12)
    assert room_for(ten[:10], 2) == 10
