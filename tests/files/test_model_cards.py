"""
Cards of the model catalogue: what they pin, and what is wrong with one.
"""

import pytest

from parlai_ext.files import (
    load_roster,
    model_card,
    model_names,
    parse_target,
)
from parlai_ext.models.handle import Models
from tests.support.repository import docs_page
from tests.support.user_error import user_error
from tests.support.written import written

pytest_plugins = ['tests.support.model_catalogue']
HUB = {'repository': 'owner/tiny', 'revision': 'a' * 40}


@pytest.mark.parametrize('name', model_names())
def test_every_source_of_a_shipped_card_is_pinned(name):
    card = model_card(name)
    assert all(len(file.sha256) == 64 for file in (*card.files, *card.wheels))
    assert card.revision is None or len(card.revision) == 40  # a commit, no branch
    assert card.licence and card.kinds and {*card.kinds} <= {*Models.__annotations__}


def test_the_page_has_the_table_that_the_cards_give():
    rows = [
        f'| `{name}` | {card.title} | {", ".join(card.kinds)} | {card.licence} | '
        f'{card.download_bytes / 1e6:.0f} MB | {card.disk_bytes / 1e6:.0f} MB | '
        f'{card.good_for} |'
        for name in model_names()
        for card in [model_card(name)]
    ]
    assert '\n'.join(rows) in docs_page('models')


FILE = {'name': 'x', 'size': 1, 'sha256': 'f' * 64}


@pytest.mark.parametrize(
    'changes, key',
    [
        ({'title': None}, 'title'),
        ({'files': [{**FILE, 'sha256': 'abc'}]}, r'files\[0\].sha256: a text of the'),
        ({'repository': None, 'revision': None}, 'wheels'),
        ({'revision': None}, 'revision'),
        ({'gguf': 'other'}, 'gguf'),
        ({'titel': 'x'}, "titel.*'title'"),
    ],
)
def test_a_wrong_card_is_refused_by_its_key(catalogue, changes, key):
    catalogue.add('tiny', **{**HUB, **changes})
    with user_error(rf'tiny.yaml:\d+: .*{key}'):
        model_card('tiny')


# ---- names in rosters and on the command line

CHAT = {'model': 'ext:hf', 'hf_model': 'smollm2-135m-q4'}


def test_a_chat_model_is_a_target_by_its_name():
    system, _ = parse_target('mine=smollm2-135m-q4,x=y')
    assert (system.name, system.opt) == ('mine', {**CHAT, 'x': 'y'})
    assert parse_target('smollm2-135m-q4')[0].name == 'smollm2-135m-q4'


def test_a_roster_may_list_it_and_a_folder_of_its_name_is_not_meant(tmp_path):
    (tmp_path / 'smollm2-135m-q4').mkdir()
    both = {'targets': ['smollm2-135m-q4'], 'partners': [{'name': 'x', 'opt': CHAT}]}
    roster = load_roster(str(written(tmp_path, 'r.yaml', both))).roster
    assert [system.opt for system in roster.systems] == [CHAT, CHAT]


def test_an_embedder_is_no_target():
    with user_error('minilm'):
        parse_target('mine=minilm')
