"""
What of a record may be used without the user's word, value by value; and the notes.
"""

import stat

import pytest

from parlai_ext.core import Recorded, System
from parlai_ext.isolation import policy
from parlai_ext.isolation.policy import Notes, is_own_part, note_parts, unnamed_uses
from parlai_ext.store import record_hash
from parlai_ext.systems.identity import identity, resolve
from parlai_ext.systems.parlai_agents import load_system
from tests.support.store_samples import sample_manifest
from tests.support.user_error import user_error

FLOOR = 'parlai_ext.agents.mini_floor.mini_floor:MiniFloorAgent'


@pytest.fixture
def configuration(tmp_path, monkeypatch):
    monkeypatch.setenv('XDG_CONFIG_HOME', str(tmp_path / 'configuration'))
    forget(monkeypatch)
    return tmp_path / 'configuration' / 'parlai_ext' / 'own_records'


def forget(monkeypatch):
    """
    Know no more than another process would.
    """
    monkeypatch.setattr(policy, 'OWN_RECORDS', Notes('own_records'))


@pytest.mark.parametrize(
    'opt',
    [
        {'model': 'transformer/generator', 'model_file': 'zoo:tutorial/model'},
        {'model': FLOOR, 'floor_kind': 'word_salad'},
        {'model_file': 'models/my.best.model', 'beam_size': 10, 'inference': 'nucleus'},
        {'model': 'ext:hf', 'hf_model': 'owner/model.v1', 'hf_trust_code': False},
        {'model': 'ext:hf', 'hf_model': '/data/m', 'hf_device': 'cuda:0'},
        {'model': 'ext:safety_layer', 'safety_detector': 'hf:owner/m,threshold=0.5'},
        {'model': 'ir_baseline', 'fixed_candidates_path': 'task:convai2@valid'},
        {'model_file': 'm', 'search_server': 'none', 'temperature': '0.7'},
        {'model': FLOOR, 'said': 'Hello. How are you? e.g. fine.'},
        {'model': FLOOR, 'nothing': None},
        # in which an address might begin at each full stop
        {'model': FLOOR, 'said': 'a.' * 100_000 + ' b'},
    ],
)
def test_data_may_be_used(opt):
    assert list(unnamed_uses(opt)) == []


AGENTS = [
    'run.evil:Evil',
    'internal:evil',
    'ext:evil:Evil',
    'parlai.agents/../evil:Evil',
    'ext:remote',
    'parlai_ext.agents.remote.remote:RemoteAgent',
    'local_human',
]


@pytest.mark.parametrize(
    'opt',
    [
        *({'model': agent} for agent in AGENTS),
        {'model': 'ext:hf', 'hf_trust_code': 'true'},
        {'model': 'ext:hf', 'hf_trust_code': 1},
        {'model': 'ext:hf', 'hf_model': 'HTTP://host/m'},
        {'search_server': 'host'},
        {'any': 'https://me:word@host/x'},
        {'any': '10.0.0.1:80'},
        {'remote_key_env': 'HOME'},
        {'task': 'convai2,run.evil:Teacher'},
        {'fixed_candidates_path': 'task:run.evil'},
        {'init_opt': 'run/evil.opt'},
        {'dict_class': 'run.evil:Dict'},
        {'scorer': 'run/evil.py:Evil'},
        {'scorer_option': ['judge=agent:run.evil:Evil']},
        {'model': FLOOR, 'safety_system': 'run/card.yaml'},
        {'model': FLOOR, 'safety_detector': 'run.evil:Evil,threshold=1'},
    ],
)
def test_code_servers_and_keys_may_not(opt):
    [line] = unnamed_uses({'model_file': 'm', **opt})
    [*_, key] = opt
    assert [line] == list(unnamed_uses({'model': FLOOR, 'inside': opt}))
    assert line.startswith(f'{key}: ')


@pytest.mark.parametrize('use', [resolve, identity, load_system])
def test_a_recorded_system_is_refused_before_it_is_looked_at(configuration, use):
    # to look at it would tell that there is no such module
    opt = {'model': 'no_such_module:Evil'}
    with user_error('only a record that this machine did not make'):
        use(System('evil', opt, Recorded('0' * 64, 'systems.evil')))


def test_a_note_is_about_one_record_and_its_parts(configuration, monkeypatch):
    manifest = sample_manifest()
    note_parts(manifest, ['systems.a'])
    forget(monkeypatch)
    digest = record_hash(manifest)
    parts = 'systems.a', 'systems.b'
    assert [is_own_part(digest, part) for part in parts] == [True, False]
    [note] = configuration.iterdir()
    assert not stat.S_IMODE(note.stat().st_mode) & 0o077
    # what is written into a manifest later is not what it names
    assert record_hash(manifest.changed(left_out=['c'])) == digest
    systems = {**manifest.systems, 'a': {'x': 1}}
    assert record_hash(manifest.changed(systems=systems)) != digest
    note_parts(manifest, ['systems.b'])
    forget(monkeypatch)
    assert all(is_own_part(digest, part) for part in parts)


def test_a_worker_leaves_no_note(configuration):
    manifest = sample_manifest()
    note_parts(manifest, ['systems.a'], on_disk=False)
    assert is_own_part(record_hash(manifest), 'systems.a')
    assert not configuration.exists()


def test_a_folder_that_cannot_be_written_is_a_warning(configuration, caplog):
    configuration.parent.parent.mkdir()
    configuration.parent.write_text('a file where the folder would be')
    manifest = sample_manifest()
    note_parts(manifest, ['systems.a', 'systems.b'])
    assert caplog.text.count('cannot be noted') == 1
    # this command goes on all the same
    assert is_own_part(record_hash(manifest), 'systems.b')


def test_a_relative_configuration_folder_is_not_taken(monkeypatch, tmp_path):
    # it would lie in a folder that may be a stranger's
    monkeypatch.setenv('XDG_CONFIG_HOME', 'run')
    monkeypatch.setenv('HOME', str(tmp_path))
    assert Notes('kind').path == tmp_path / '.config' / 'parlai_ext' / 'kind'
