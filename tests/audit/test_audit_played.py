"""
Canaries and clones, played against systems that are known to be dull.
"""

import shutil

import pytest

from parlai_ext.audit.record import FAILS, HOLDS, LEFT_OUT
from parlai_ext.commands.audit_run import AuditRun
from parlai_ext.isolation.policy import SCORER, note_parts
from parlai_ext.store.folder import RunFolder, read_manifest, save_manifest, system_part
from tests.audit.test_audit_tables import outcome
from tests.support.interrupted import interrupted
from tests.support.published_runs import make_run
from tests.support.small_run import files_of

TALKER = 'tests.support.trial_agents:Talker'


def roster(targets, partners):
    def talkers(names):
        return [{'name': name, 'opt': {'model': TALKER}} for name in names]

    return {'targets': talkers(targets), 'partners': talkers(partners)}


def evaluated(folder, **keys):
    keys = {'num_dialogues': 3, 'roster': roster(('one', 'two'), 'pq'), **keys}
    return make_run(folder / 'run', (), scorer={'name': 'length'}, **keys).root


@pytest.fixture(scope='module')
def fresh(module_folder):
    return evaluated(module_folder)


@pytest.fixture
def root(fresh, tmp_path):
    """
    A copy of the run, for a test that changes it.
    """
    return shutil.copytree(fresh, tmp_path / 'run')


@pytest.fixture(scope='module')
def audited(fresh, module_folder):
    root = shutil.copytree(fresh, module_folder / 'audited')
    return root, audit(root)


def audit(root, **options):
    return AuditRun.main(run_dir=root, **options)


def finding_on(result, canary):
    return next(f for f in result.part('canaries') if canary in f.sentence)


def test_under_a_judge_that_loves_length_a_canary_wins_and_is_reported(audited):
    # every target says five words; a flatterer says twelve or more
    _, result = audited
    summary, *_ = result.part('canaries')
    assert summary.outcome == FAILS and 'can be gamed' in summary.sentence
    flatterer = finding_on(result, 'flatterer')
    assert flatterer.outcome == FAILS
    assert 'would rank 1 of 3' in flatterer.sentence
    assert 'beats 2 of 2 systems' in flatterer.sentence


def test_a_clone_gets_the_score_of_its_original(audited):
    _, result = audited
    clones = result.part('clone as target')
    assert [clone.outcome for clone in clones] == [HOLDS, HOLDS]
    rows = [row for row in result.rows if row.quantity == 'score above']
    assert [row.value for row in rows] == [0, 0]


def test_the_ranking_of_the_run_stays_as_it_was(fresh, audited):
    before, after = files_of(fresh), files_of(audited[0])
    # the page says what the audit found
    page = before.pop('report.html')
    assert b'canaries fool this judge' not in page
    assert b'canaries fool this judge' in after.pop('report.html')
    assert {name: after[name] for name in before} == before
    added = {name.split('/')[0] for name in after.keys() - before.keys()}
    assert added == {'audit', 'audit.json', 'audit.csv'}


def test_interrupted_anywhere_and_audited_again_ends_the_same(root, audited):
    for until in (3, 7):
        with interrupted(RunFolder, 'write_dialogues', until):
            audit(root)
        assert not (root / 'audit.json').exists()
    audit(root)
    assert files_of(root) == files_of(audited[0])


def test_a_partner_that_has_changed_is_left_out_by_name(root):
    data = RunFolder.existing(root).manifest.to_json()
    data['partners']['q']['identity'] = 'another'
    manifest = read_manifest(data)
    save_manifest(root, manifest)
    # the user's own run, or its agents would not be looked at
    note_parts(manifest, [*map(system_part, manifest.systems), SCORER])
    result = audit(root)
    (finding,) = result.part('canaries')
    assert finding.outcome == LEFT_OUT and 'q is not the system' in finding.sentence
    assert result.part('partner families')[0].outcome != LEFT_OUT


def test_with_tables_only_nothing_is_played(root):
    result = audit(root, tables_only=True)
    for part in ('canaries', 'clone as target', 'clone as partner'):
        assert outcome(result, part) == [LEFT_OUT]
    assert not (root / 'audit').exists()


@pytest.mark.parametrize(
    'keys', [{'pairing': 'all_play_all', 'score': 'both'}, {'pairing': 'self_play'}]
)
def test_other_pairings_play_canaries_against_what_targets_meet(keys, tmp_path):
    result = audit(evaluated(tmp_path, **keys))
    flatterer = finding_on(result, 'flatterer')
    assert 'would rank 1 of 3' in flatterer.sentence
    assert outcome(result, 'clone as target') == [HOLDS, HOLDS]
    as_partner = {*outcome(result, 'clone as partner')}
    assert (as_partner == {LEFT_OUT}) == (keys['pairing'] == 'self_play')


def test_names_that_the_run_has_already_are_no_obstacle(tmp_path):
    # and one partner, beside which a clone has nothing to be compared with
    names = roster(('canary-echo', 'clone-of-canary-echo'), 'p')
    result = audit(evaluated(tmp_path, roster=names), clone=('canary-echo',))
    for part in ('canaries', 'clone as target', 'clone as partner'):
        assert LEFT_OUT not in outcome(result, part)
    systems = {row.system for row in result.rows if row.part == 'canaries'}
    assert {'canary-echo', 'canary-echo-audit'} <= systems
