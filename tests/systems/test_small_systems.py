"""
Which systems several processes may each load unasked.
"""

import pytest
import torch

from parlai_ext.core import System
from parlai_ext.engines import Machine
from parlai_ext.mini import SHIPPED
from parlai_ext.systems import model_cache
from parlai_ext.systems.model_cache import are_small

MINI = {'model_file': str(SHIPPED / 'step-50' / 'model')}
FLOOR = {'model': 'fixed_response', 'fixed_response': 'yes'}


def small(*opts, **machine):
    return are_small([System('x', opt) for opt in opts], Machine(**machine))


def test_small_files_and_systems_without_any():
    assert small(MINI, FLOOR)


@pytest.mark.parametrize(
    'opt',
    [
        {'model': 'tests.support.trial_agents:Talker'},
        {'model': 'ext:remote', 'remote_url': 'http://127.0.0.1:9/v1'},
        {'model_file': 'zoo:blender/blender_90M/model'},
    ],
)
def test_code_from_outside_servers_and_what_is_not_here_yet_are_not(opt):
    assert not small(MINI, opt)


def test_a_large_file_is_not(monkeypatch):
    monkeypatch.setattr(model_cache, 'SMALL', 1000)
    assert not small(MINI, FLOOR)


def test_where_this_process_computes_with_more_threads_bytes_could_differ(monkeypatch):
    monkeypatch.setattr(torch, 'get_num_threads', lambda: 2)
    assert not small(MINI)


def test_on_a_gpu_nothing_is(monkeypatch):
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: True)
    assert not small(MINI)
    assert small(MINI, no_cuda=True)
