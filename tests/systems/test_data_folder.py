"""
Where models and data lie.
"""

from pathlib import Path

import parlai
import pytest

from parlai_ext.engines import data_folder

PARLAIS = Path(parlai.__file__).parents[1] / 'data'
needs_parlais_wheel = pytest.mark.skipif(
    'site-packages' not in PARLAIS.parts, reason='ParlAI is a checkout'
)


@pytest.fixture
def environment(monkeypatch, tmp_path):
    monkeypatch.delenv('PARLAI_DATAPATH', raising=False)
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    return monkeypatch


def test_what_is_named_is_taken(environment):
    environment.setenv('PARLAI_DATAPATH', '/data')
    assert data_folder('/mine') == '/mine'
    assert data_folder() == '/data'


@needs_parlais_wheel
@pytest.mark.parametrize('given', [None, str(PARLAIS)])
def test_an_environment_is_no_place_for_models(given, environment, tmp_path):
    if given:  # as ParlAI leaves it
        environment.setenv('PARLAI_DATAPATH', given)
    assert data_folder() == str(tmp_path / 'parlai_ext')


@needs_parlais_wheel
def test_without_a_cache_of_ones_own_it_lies_in_the_home(environment):
    environment.delenv('XDG_CACHE_HOME')
    environment.setenv('HOME', '/home/me')
    assert data_folder() == '/home/me/.cache/parlai_ext'
