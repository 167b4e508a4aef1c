"""
The site of a folder of packs: one page a protocol, marks of what was checked, and no
text of a stranger that acts.
"""

import re
import shutil
from html.parser import HTMLParser

import pytest

from parlai_ext.commands.build_leaderboard import BuildLeaderboard
from parlai_ext.packs.check_pack import check_pack
from parlai_ext.packs.pack import RegenerateOptions
from parlai_ext.packs.site import build_site, page_name
from tests.support.published_runs import (
    checker_of,
    make_run,
    publish,
)
from tests.support.store_samples import files_under

HOSTILE = '<script>alert(1)</script>"onload="x'


class Tags(HTMLParser):
    """
    The tags and the addresses of a page.
    """

    def __init__(self, text):
        super().__init__()
        self.names, self.addresses = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.addresses += [v for k, v in attrs if k in ('href', 'src')]
        assert not [k for k, _ in attrs if k.startswith('on')]


@pytest.fixture
def folder(packs, tmp_path):
    """
    A folder with two packs that may be compared.
    """
    here = tmp_path / 'packs'
    here.mkdir()
    for name in ('generic', 'talker'):
        shutil.copy(packs[name], here)
    return here


def test_packs_that_compare_are_one_ranking_on_one_page(folder, tmp_path, printed):
    home, again = tmp_path / 'site', tmp_path / 'again'
    site = build_site(folder, home, check_pack)
    assert list(site.pages) == ['tiny']
    text = site.pages['tiny'].read_text()
    assert text.count('id="ranking-') == 1
    assert 'generic' in text and 'talker' in text
    assert 'played again</span>' not in text
    # links lead to the packs and between the pages
    for page in (site.index, *site.pages.values()):
        for address in Tags(page.read_text()).addresses:
            assert (home / address.partition('#')[0]).exists()
    copied = home / 'packs' / 'talker.zip'
    assert copied.read_bytes() == (folder / 'talker.zip').read_bytes()
    # the same packs give the same pages
    BuildLeaderboard.main('--packs', str(folder), '--out', str(again))
    assert f'site: {again / "index.html"}' in printed()
    assert files_under(home) == files_under(again)


def test_imported_packs_have_rankings_of_their_own(imported, folder, tmp_path):
    shutil.copy(imported, folder)
    site = build_site(folder, tmp_path / 'site', check_pack)
    assert list(site.pages) == ['imported', 'tiny'] and not site.left_out
    text = site.pages['imported'].read_text()
    assert 'theirs' in text and 'imported' in text
    assert 'same openers' not in text and '0 openers' not in text


def test_a_board_whose_judge_failed_says_so(folder, tmp_path, monkeypatch):
    failed = 'parlai_ext.report.judge.failure_on'
    monkeypatch.setattr(failed, lambda ranking, dimension: f'It fails on {dimension}.')
    text = build_site(folder, tmp_path / 'site', check_pack).pages['tiny'].read_text()
    assert re.findall('"finding doubt"[^>]*>([^<]*)<', text) == ['It fails on Overall.']


def test_a_system_that_was_played_again_is_marked(folder, tmp_path):
    mine = checker_of(tmp_path, ['talker'])
    (folder / 'generic.zip').unlink()
    options = RegenerateOptions(regenerate=100, sample=1)
    site = build_site(
        folder, tmp_path / 'site', lambda path: check_pack(path, options, mine)
    )
    text = site.pages['tiny'].read_text()
    assert 'played again</span> 10 of 10' in text
    assert 'self-reported</span>' not in text


@pytest.mark.slow
def test_packs_that_do_not_compare_have_rankings_of_their_own(folder, tmp_path):
    publish(make_run(tmp_path / 'run', ['talker'], seed=1), folder / 'zodd.zip')
    site = build_site(folder, tmp_path / 'site', check_pack)
    text = site.pages['tiny'].read_text()
    assert text.count('id="ranking-') == 2
    assert 'seed: 0 → 1' in text


def test_a_wrong_pack_is_named_and_left_out(folder, forged, tmp_path):
    path = forged('manifest.json', lambda m: m.update(signature='another'), 'generic')
    shutil.copy(path, folder / 'generic.zip')
    (folder / 'junk.zip').write_bytes(b'junk')
    site = build_site(folder, tmp_path / 'site', check_pack)
    assert set(site.left_out) == {'generic.zip', 'junk.zip'}
    assert 'manifest.json says another' in site.left_out['generic.zip']
    assert 'generic.zip' in site.index.read_text()
    assert not (tmp_path / 'site' / 'packs' / 'generic.zip').exists()


def test_hostile_names_are_text(tmp_path):
    systems = {HOSTILE: {'model': 'tests.support.trial_agents:Talker'}}
    run = make_run(tmp_path / 'run', [HOSTILE], systems=systems, name=HOSTILE)
    folder = tmp_path / 'packs'
    publish(run, folder / 'a"><img src=x>.zip')
    site = build_site(folder, tmp_path / 'site', check_pack)
    for page in (site.index, *site.pages.values()):
        names = Tags(page.read_text()).names
        assert not {'script', 'img', 'iframe'} & {*names}


@pytest.mark.parametrize(
    'name', ['../../etc/x', 'index', 'a b', '', 'CON/..', 'x' * 999]
)
def test_no_protocol_name_leads_out_of_the_site(name):
    page = page_name(name)
    assert '/' not in page
    assert page != 'index.html'
    assert len(page) < 80
