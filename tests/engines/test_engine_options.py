"""
Choosing an engine: what is wrong with the options, or missing, is one line.
"""

import socket
import sys
from importlib.util import find_spec

import pytest

from parlai_ext.engines.local import LocalEngine
from parlai_ext.engines.machine import Machine
from parlai_ext.engines.open_engine import EngineOptions, open_engine
from tests.support.user_error import user_error


def needs_ray():
    if find_spec('ray') is None:
        pytest.skip('Ray is not installed')


def opened(tmp_path, **given):
    with open_engine(EngineOptions(**given), tmp_path, Machine()) as engine:
        return engine


def refusal(tmp_path, **given):
    with user_error() as error:
        opened(tmp_path, **given)
    return str(error.value)


@pytest.mark.parametrize('given', [{}, {'workers': 3}])
def test_without_ray_work_is_done_on_this_machine(tmp_path, given):
    engine = opened(tmp_path, **given)
    assert isinstance(engine, LocalEngine)
    assert engine.workers == given.get('workers')


def test_workers_of_this_machine_are_none_of_rays(tmp_path):
    line = refusal(tmp_path, engine='ray', workers=2)
    assert '--workers' in line and '--engine local' in line


@pytest.mark.parametrize(
    'given', [{'ray_address': 'auto'}, {'ray_cpus': 2}, {'ray_patience': 30.0}]
)
def test_options_of_ray_need_ray(tmp_path, given):
    [name] = given
    line = refusal(tmp_path, **given)
    assert f'--{name.replace("_", "-")}' in line and '--engine ray' in line


def test_without_ray_the_line_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, 'ray', None)
    assert "pip install 'parlai_ext[ray]'" in refusal(tmp_path, engine='ray')


@pytest.mark.parametrize('address', ['ray://host:10001', 'host', 'host:x', ':6379'])
def test_an_address_is_a_host_and_a_port(tmp_path, address):
    needs_ray()
    line = refusal(tmp_path, engine='ray', ray_address=address)
    assert address in line and 'HOST:PORT' in line


def test_an_address_where_nobody_listens_is_named(tmp_path):
    needs_ray()
    with socket.socket() as server:  # bound, and nobody listens
        server.bind(('127.0.0.1', 0))
        address = f'127.0.0.1:{server.getsockname()[1]}'
        line = refusal(tmp_path, engine='ray', ray_address=address)
    assert address in line and 'cannot be reached' in line
