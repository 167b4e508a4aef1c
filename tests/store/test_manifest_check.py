"""
A manifest with a checksum that fits is read as it is, or refused by the key that does
not: nothing that was changed by hand ends a command with a traceback.
"""

import pytest

from parlai_ext.core.errors import UserError
from parlai_ext.core.protocol import ranking_options
from parlai_ext.report.page import command
from parlai_ext.store import RunFolder
from parlai_ext.store.manifest import save
from tests.support.mutations import mutations
from tests.support.store_samples import sample_manifest, whole_run
from tests.support.user_error import user_error


def test_a_changed_manifest_is_read_or_refused_by_its_key(tmp_path):
    whole_run(tmp_path)
    n_refused = 0
    changes = list(mutations(sample_manifest().to_json()))
    for change, manifest in changes[::5]:
        save(tmp_path, manifest)
        try:
            run = RunFolder.existing(tmp_path)
            list(run.iter_dialogues())
            command(run.plan.protocol.name, run.manifest)
        except UserError as error:
            n_refused += 1
            assert '\n' not in str(error)
            if 'is damaged: ' in str(error):
                key = change.split('.')[0].split(' ')[0]
                assert key in str(error) or key in RELATED, change
    assert n_refused > 60


# systems and openers are there twice; the other place may be named
RELATED = ('targets', 'partners', 'protocol')


@pytest.mark.parametrize(
    'key, value, place',
    [
        ('shard_size', 0, 'shard_size: 0'),
        ('batchsize', 10**30, 'batchsize: 1000'),
        ('grown_from', [9], 'grown_from'),
        ('protocol', {'name': 'x', 'num_turns': 'x'}, 'protocol.num_turns: '),
        ('protocol', {'name': 'x', 'turns': 5}, r'protocol.turns: .* \'num_turns\'\?'),
        ('opener', [], r'opener: unknown key; did you mean \'openers\'\?'),
        ('targets', {'a': {'identiti': 'x'}}, r'targets.a.identity is missing'),
        ('versions', {'torch': 2}, 'versions.torch: '),
        ('systems', {}, 'systems.a is missing'),
        ('openers', [], 'openers: '),
        ('asked', None, 'asked: '),
        ('imported', {'format': 'csv'}, 'imported.dialogues is missing'),
        ('protocol', {'name': 'x', 'pairing': 'imported'}, 'protocol.pairing: '),
    ],
)
def test_the_key_that_does_not_fit_is_named(tmp_path, key, value, place):
    manifest = sample_manifest().to_json()
    save(tmp_path, {**manifest, key: value})
    with user_error(rf'manifest\.json is damaged: {place}'):
        RunFolder.existing(tmp_path)


def test_dialogues_over_other_openers_than_the_manifests_are_refused(tmp_path):
    whole_run(tmp_path)
    manifest = sample_manifest().to_json()
    manifest['openers'].reverse()
    save(tmp_path, manifest)
    run = RunFolder.existing(tmp_path)
    with user_error('00000.jsonl: these are dialogues over other'):
        run.read_dialogues(run.shard(run.pairings[0].id, 0))


def test_a_ranking_may_not_ask_for_all_memory(tmp_path):
    manifest = sample_manifest().to_json()
    rule = {**manifest['protocol'], 'ranking': {'bootstraps': 10**30}}
    save(tmp_path, {**manifest, 'protocol': rule})
    with user_error('bootstraps: .*from 1 to 100000'):
        ranking_options(RunFolder.existing(tmp_path).manifest.protocol.ranking)
