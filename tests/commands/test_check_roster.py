"""
Every system is present, to be downloaded, or missing with a reason.
"""

import sys

import pytest
import torch

from parlai_ext.commands.check_roster import CheckRoster
from parlai_ext.commands.command import run_directly
from parlai_ext.engines import data_in
from parlai_ext.files import parse_target
from parlai_ext.systems.identity import resolve
from tests.support.store_samples import files_under, write_files

MODELS = 'http://parl.ai/downloads/_models/'


pytestmark = pytest.mark.usefixtures('no_network')


@pytest.fixture
def model(tmp_path):
    """
    Write a model file of 12 parameters, 6 of them under two names, and return it.
    """
    shared = torch.zeros(2, 3)
    weights = {'a': shared, 'b': shared, 'c': torch.zeros(6)}
    torch.save({'model': weights}, tmp_path / 'model')
    (tmp_path / 'model.opt').write_text('{"model": "transformer/generator"}')
    return str(tmp_path / 'model')


def one(spec, datapath=None):
    with data_in(datapath):
        return resolve(parse_target(spec)[0])


def test_a_local_model_is_present_with_its_size(model):
    found = one(f'A={model}')
    assert (found.name, found.status, found.where) == ('A', 'present', model)
    assert (found.params, found.bytes, found.reason) == (12, 48, None)


@pytest.mark.parametrize('built, status', [(True, 'present'), (False, 'download')])
def test_a_model_of_the_zoo_is_present_where_parlai_has_finished_it(
    tmp_path, built, status
):
    folder = tmp_path / 'models' / 'blender' / 'blender_90M'
    files = {'model': b'', **({'.built': b'2022-01-01\nv1.0'} if built else {})}
    write_files(folder, files)
    spec = 'A=zoo:blender/blender_90M/model,model=transformer/generator'
    found = one(spec, str(tmp_path))
    assert found.status == status and found.params == 87508992
    assert (found.where == str(folder / 'model')) == built
    assert files_under(folder) == files


@pytest.mark.parametrize(
    'body, reason',
    [
        (
            'raise SystemExit("bye")',
            'its options cannot be read: raised SystemExit: bye',
        ),
        ('class A: pass', 'mine:A is no ParlAI agent'),
        (
            'class A(Agent):\n    @classmethod\n'
            '    def add_cmdline_args(*given):\n        raise SystemExit("bad\\nday")',
            'its options cannot be read: raised SystemExit: bad day',
        ),
    ],
)
def test_an_error_in_an_agents_own_code_is_a_reason(
    tmp_path, monkeypatch, body, reason
):
    imported = 'from parlai.core.agents import Agent'
    (tmp_path / 'mine.py').write_text(f'{imported}\n{body}\n')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, 'mine', raising=False)
    found = one('A=agent:mine:A')
    assert (found.status, found.reason) == ('missing', f'model: {reason}')


def test_dialogpt_is_looked_up_in_the_hubs_cache(tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, 'HF_HUB_CACHE', str(tmp_path))
    spec = 'A=agent:hugging_face/dialogpt,gpt2_size=small'
    found = one(spec)
    assert found.status == 'download'
    assert found.where == 'https://huggingface.co/microsoft/DialoGPT-small'
    files = {'snapshots/abc/pytorch_model.bin': b'', 'refs/main': b'abc'}
    write_files(tmp_path / 'models--microsoft--DialoGPT-small', files)
    assert one(spec).status == 'present'


@pytest.mark.parametrize(
    'spec, words',
    [
        ('A={folder}/modle', "did you mean '{folder}/model'?"),
        ('A={folder}', "is a folder, not a file; did you mean '{folder}/model'?"),
        ('A={folder}/none/at/all', 'no folder {folder}/none'),
        ('A=agent:transformer/generatr', "did you mean 'transformer/generator'?"),
        ('A=agent:no_package.bots:Bot', "No module named 'no_package'"),
        ('A=agent:parlai.agents.repeat_query.repeat_query:Bot', "no attribute 'Bot'"),
        ('A=agent:hugging_face/dialogpt,gpt2_size=huge', 'known: large, medium'),
        (
            'A=zoo:blender/blender_9M/model',
            "did you mean 'zoo:blender/blender_90M/model'",
        ),
        ('A=zoo:dodecadialogue/base_model/model', 'cannot be had from the zoo'),
        ('A={folder}/model,dict_file={folder}/x.dict', 'dict_file: there is no file'),
        ('A={folder}/model,fixed_candidates_path=no/c', 'fixed_candidates_path: there'),
    ],
)
def test_a_missing_system_has_a_reason(spec, words, model, tmp_path):
    found = one(spec.format(folder=tmp_path), str(tmp_path))
    assert found.status == 'missing'
    assert words.format(folder=tmp_path) in found.reason
    assert '\n' not in found.reason


@pytest.mark.parametrize('name', ['model.safetensors', 'tokenizer.json'])
def test_a_hugging_face_folder_without_its_config_says_so(tmp_path, name):
    (tmp_path / name).write_bytes(b'')
    reason = one(f'A={tmp_path}').reason
    assert 'is a folder, not a file' in reason and 'lacks a config.json' in reason


def test_a_model_that_names_no_agent_is_missing(model, tmp_path):
    (tmp_path / 'model.opt').unlink()
    assert "add 'model' to opt" in one(f'A={model}').reason
    assert one(f'A={model},model=transformer/generator').status == 'present'


def test_the_exit_code_tells_whether_a_run_could_start(model, exit_line):
    targets = ['--add-target', f'A={model}']
    run_directly('check_roster', targets)
    targets += ['--add-target', f'B={model}x']
    line = exit_line(run_directly, 'check_roster', targets)
    assert '1 missing, 0 to download' in line


def test_a_roster_without_targets_could_start_nothing(tmp_path, exit_line):
    (tmp_path / 'empty.yaml').write_text('targets: []\n')
    given = ['--roster', str(tmp_path / 'empty.yaml')]
    assert 'no targets' in exit_line(run_directly, 'check_roster', given)


def test_a_judge_of_the_hub_is_a_system_of_the_hub(tmp_path):
    given = {'config': 'demo', 'judge_model_file': 'hf:someone/model'}
    [*shipped, judge] = CheckRoster.main(**given, datapath=str(tmp_path))
    assert {system.status for system in shipped} == {'present'}
    assert judge.status == 'download' and judge.where.endswith('/someone/model')
