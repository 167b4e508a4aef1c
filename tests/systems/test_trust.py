"""
`--trust-model-code`: one file may run code when it is read, and the run says which.
Without it, no option of a system has a file of others read in the program.
"""

import sys
from itertools import product
from pathlib import Path

import pytest

from parlai_ext.commands.collect_dialogues import CollectDialogues
from parlai_ext.core import Recorded, System
from parlai_ext.files import FILE_OPTIONS
from parlai_ext.isolation import policy
from parlai_ext.isolation.policy import note_trust, require_named, unnamed_uses
from parlai_ext.systems.parlai_agents import SEEN_TO, is_trusted
from tests.support.malicious_pickles import reduced
from tests.support.small_run import small_config
from tests.support.talk import loaded
from tests.support.tiny_models import make_generator
from tests.support.user_error import user_error
from tests.support.written import json_in


@pytest.fixture(autouse=True)
def own_configuration(tmp_path, monkeypatch):
    monkeypatch.setenv('XDG_CONFIG_HOME', str(tmp_path / 'configuration'))
    here = set(policy.TRUSTED.here)
    monkeypatch.setattr(policy, 'TRUSTED', policy.Notes('trusted', here))


@pytest.fixture
def marker(tmp_path):
    return tmp_path / 'marker'


@pytest.fixture
def path(tmp_path, marker):
    """
    Write a generator whose old pickled `.opt` touches a file when it is read.
    """
    path = make_generator(tmp_path, 'knows')
    stored = json_in(Path(f'{path}.opt'))
    code = f'open({str(marker)!r}, "w").close() or {stored!r}'
    Path(f'{path}.opt').write_bytes(reduced('builtins', 'eval', code) + b'.')
    return path


def collected(tmp_path, model_file, **more):
    return CollectDialogues.main(
        config=small_config(tmp_path, targets=1, partners=1),
        run_dir=tmp_path / 'run',
        num_dialogues=1,
        add_target=[f'mine={model_file}'],
        no_cuda=True,
        **more,
    )


def test_nothing_is_trusted_unless_it_is_named(tmp_path, path, marker):
    with user_error(r"^system 'mine': .*refused.*builtins\.eval"):
        collected(tmp_path, path)
    assert not marker.exists()
    assert not (tmp_path / 'run' / 'dialogues').exists()


def test_a_trusted_file_runs_and_is_in_the_manifest(tmp_path, path, marker):
    report = collected(tmp_path, path, trust_model_code=[path])
    assert (report.n_played, report.problems) == (2, ())
    assert marker.exists()
    manifest = json_in(tmp_path / 'run' / 'manifest.json')
    assert list(manifest['trusted']) == ['knows']


def test_trust_is_remembered_for_this_very_file(path, marker):
    note_trust([path])
    loaded(model_file=path)
    assert marker.exists()
    with open(f'{path}.opt', 'ab') as file:
        file.write(b' ')
    with user_error('refused'):
        loaded(model_file=path)


READERS = 'rag bart hugging_face/gpt2 ext:causal_lm ext:long_context ext:mini_retriever'
OTHER_OPTIONS = 'datapath init_fairseq_model retriever_model_file dict_initpath'
NAMED = {
    'ext:hf': ['hf_model', 'datapath'],
    'hugging_face/dialogpt': ['model_name'],
    'ext:safety_layer': ['datapath'],
    **dict.fromkeys(READERS.split(), {*FILE_OPTIONS, *OTHER_OPTIONS.split()}),
}


@pytest.mark.parametrize('more', [{}, {'model_file': 'zoo:mini/step-50/model'}])
@pytest.mark.parametrize('agent', NAMED)
def test_what_a_record_names_is_not_read_in_the_program(agent, more, tmp_path):
    (tmp_path / 'exact.index').touch()
    opt = {'model': agent, 'safety_system': {'model': 'ext:mini_floor'}, **more}
    # of GPT-2 without a file, the hub's weights are read
    assert is_trusted(System('ours', opt)) == bool(more or 'gpt' not in agent)
    names = f'{tmp_path} {tmp_path}/exact.index {tmp_path}/exact zoo:others/model'
    for option, name in product({*NAMED[agent]} - {*SEEN_TO}, names.split()):
        named = {**opt, option: name}
        system = System('theirs', named, Recorded('0' * 64, 'systems.theirs'))
        require_named(system)  # it is data
        assert not is_trusted(system), named


def test_a_folder_in_the_place_of_projects_is_not_parlais(tmp_path, monkeypatch):
    (tmp_path / 'projects').mkdir()
    (tmp_path / 'projects' / '__init__.py').touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, 'projects', raising=False)
    opt = {'model': 'projects.mine.agents:Mine', 'task': 'projects.mine'}
    assert not is_trusted(System('mine', opt))
    assert len([*unnamed_uses(opt)]) == 2
