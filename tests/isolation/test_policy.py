"""
What of a record may be used without the user's word, value by value; and the notes.
"""

import json
import stat

import pytest

from parlai_ext.core import Recorded, System
from parlai_ext.isolation import own_records
from parlai_ext.isolation.own_records import named_parts, note_parts
from parlai_ext.isolation.policy import require_named, unnamed_uses
from parlai_ext.store.manifest import record_hash
from parlai_ext.systems.identity import identity
from parlai_ext.systems.parlai_agents import load_system
from parlai_ext.systems.resolve import resolve
from tests.support.store_samples import sample_manifest
from tests.support.user_error import user_error

FLOOR = 'parlai_ext.agents.mini_floor.mini_floor:MiniFloorAgent'


@pytest.fixture
def configuration(tmp_path, monkeypatch):
    monkeypatch.setenv('XDG_CONFIG_HOME', str(tmp_path / 'configuration'))
    monkeypatch.setattr(own_records, '_noted', {})
    return tmp_path / 'configuration' / 'parlai_ext' / 'own_records'


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
def test_a_recorded_system_is_refused_before_it_is_looked_at(
    tmp_path, monkeypatch, configuration, use
):
    package = tmp_path / 'planted_package'
    package.mkdir()
    (package / '__init__.py').write_text(
        "from pathlib import Path\nPath(__file__).with_name('sprung').touch()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    opt = {'model': 'planted_package.agents:Evil'}
    with user_error('planted_package'):
        use(System('evil', opt, Recorded('0' * 64, 'systems.evil')))
    assert not (package / 'sprung').exists()


def test_a_note_is_about_one_record_and_its_parts(configuration):
    manifest = sample_manifest()
    note_parts(manifest, ['systems.a'])
    own_records._noted.clear()  # as another process
    digest = record_hash(manifest)
    assert named_parts(digest) == {'systems.a'}
    # what is written into a manifest later is not what it names
    assert record_hash(manifest.changed(left_out=['c'])) == digest
    systems = {**manifest.systems, 'a': {'x': 1}}
    assert record_hash(manifest.changed(systems=systems)) != digest
    note_parts(manifest, ['systems.b'])
    own_records._noted.clear()
    assert named_parts(digest) == {'systems.a', 'systems.b'}
    mine = System('a', {'model': 'x.y:Z'}, Recorded(digest, 'systems.a'))
    require_named(mine)
    with user_error("'c'"):
        require_named(System('c', mine.opt, Recorded(digest, 'systems.c')))


def test_a_worker_leaves_no_note(configuration):
    manifest = sample_manifest()
    note_parts(manifest, ['systems.a'], on_disk=False)
    assert named_parts(record_hash(manifest)) == {'systems.a'}
    assert not configuration.exists()


@pytest.mark.parametrize('text', ['', '{', '[]', '{"parts": 3}', '{"parts": [{}]}'])
def test_a_damaged_note_names_nothing(configuration, text):
    manifest = sample_manifest()
    note_parts(manifest, ['systems.a'])
    [note] = configuration.iterdir()
    assert json.loads(note.read_text()) == {'parts': ['systems.a']}
    assert not stat.S_IMODE(note.stat().st_mode) & 0o077
    note.write_text(text)
    own_records._noted.clear()
    assert named_parts(record_hash(manifest)) == frozenset()


def test_a_folder_that_cannot_be_written_is_a_warning(configuration, caplog):
    configuration.parent.parent.mkdir()
    configuration.parent.write_text('a file where the folder would be')
    manifest = sample_manifest()
    note_parts(manifest, ['systems.a'])
    assert 'cannot be noted' in caplog.text
    # this command goes on all the same
    assert named_parts(record_hash(manifest)) == {'systems.a'}


def test_a_relative_configuration_folder_is_not_taken(monkeypatch, tmp_path):
    # it would lie in a folder that may be a stranger's
    monkeypatch.setenv('XDG_CONFIG_HOME', 'run')
    monkeypatch.setenv('HOME', str(tmp_path))
    assert own_records.configuration_folder() == tmp_path / '.config' / 'parlai_ext'
