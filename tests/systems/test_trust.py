"""
`--trust-model-code`: one file may run code when it is read, and the run says which.
"""

from pathlib import Path

import pytest

from parlai_ext.commands.collect_dialogues import CollectDialogues
from parlai_ext.isolation import policy
from parlai_ext.isolation.policy import note_trust
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
