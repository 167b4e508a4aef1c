"""
The same run goes on, targets are added, anything else is refused; one at a time.
"""

import os
import socket
import subprocess
import sys
from dataclasses import replace
from functools import partial

import pytest

from parlai_ext.store import RunFolder
from tests.support.store_samples import (
    files_under,
    play,
    sample_manifest,
    sample_run,
    save,
    whole_run,
)
from tests.support.user_error import error_line, user_error
from tests.support.written import changed_json


def refused(root, manifest):
    before = files_under(root)
    line = error_line(RunFolder.open, root, manifest)
    assert files_under(root) == before
    return line


# -- going on


def test_an_extended_run_keeps_the_old_order_and_appends(tmp_path):
    sample_run(tmp_path, ['b', 'a'])
    run = sample_run(tmp_path, ['c', 'a'])
    assert list(run.manifest.targets) == ['b', 'a', 'c']
    assert [pair.first for pair in run.pairings] == ['b', 'b', 'a', 'a', 'c', 'c']
    assert RunFolder.existing(tmp_path).manifest == run.manifest


def test_shards_are_listed_in_the_order_of_the_manifest(tmp_path):
    run = sample_run(tmp_path, ['b', 'a'])
    play(run)
    keys = [(key.pairing_id[:5], key.start, key.stop) for key in run.dialogue_shards()]
    pairs = ('b--p1', 'b--p2', 'a--p1', 'a--p2')
    assert keys == [(pair, *ends) for pair in pairs for ends in ((0, 2), (2, 3))]


def test_other_versions_are_told_and_those_of_the_start_are_kept(tmp_path, caplog):
    sample_run(tmp_path)
    run = RunFolder.open(
        tmp_path, sample_manifest().changed(versions={'parlai_ext': '0.2.0'})
    )
    assert run.manifest.versions == {'parlai_ext': '0.1.0'}
    assert '0.2.0' in caplog.text


# -- refusing


def test_every_differing_key_is_named_with_both_values(tmp_path):
    sample_run(tmp_path, beam=1)
    other = sample_manifest(seed=7, nucleus=0.9, scorer={'name': 'fed'})
    kept = [pair for pair in other.pairings if pair.second == 'p1']
    changes = {
        'partners': {'p1': other.partners['p1'], 'p3': {'identity': 'x'}},
        'systems': {**other.systems, 'p3': {}},
        'pairings': kept,
        'openers': other.openers[:2],
        'shard_size': 5,
    }
    message = refused(tmp_path, other.changed(**changes))
    named = (
        *('partners.p1.beam: 1 → (absent)', 'partners.p1.nucleus: (absent) → 0.9'),
        *('partners.p2: ', 'partners.p3: (absent)', 'openers.content: ', '2 → 5'),
        *('seed: 0 → 7', 'scorer.name: "length" → "fed"'),
    )
    assert all(words in message for words in named)
    assert 'num_turns' not in message


def test_a_target_that_is_something_else_now_is_refused_with_its_options(tmp_path):
    first, other = sample_manifest(), sample_manifest()
    first.systems['a'].update(beam_size=1, model='m')
    play(RunFolder.open(tmp_path, first))
    other.systems['a'].update(beam_size=10, model='m')
    targets = {**other.targets, 'a': {'identity': 'other'}}
    message = refused(tmp_path, other.changed(targets=targets))
    assert 'targets.a.beam_size: 1 → 10' in message
    assert 'targets.a.identity: ' in message
    assert 'targets.a.model' not in message
    assert 'under another name' in message


def test_a_pair_with_another_id_is_refused(tmp_path):
    play(sample_run(tmp_path))
    other = sample_manifest()
    first = replace(other.pairings[0], id='a--p1-0123456789ab')
    other = other.changed(pairings=[first, *other.pairings[1:]])
    assert 'pairings.bipartite.a--p1' in refused(tmp_path, other)


def test_long_values_are_shortened_and_still_differ(tmp_path):
    sample_run(tmp_path, prompt='x' * 5000)
    message = refused(tmp_path, sample_manifest(prompt='x' * 4999 + '\ny'))
    old, new = message.split('partners.p1.prompt: ')[1].split('. Set')[0].split(' → ')
    assert old != new
    assert len(message) < 400 + len(str(tmp_path))


def test_a_folder_that_is_no_run_and_a_file_in_its_place_are_refused(tmp_path):
    (tmp_path / 'file').write_text('')
    for path in (tmp_path, tmp_path / 'absent', tmp_path / 'file'):
        with user_error('not a run folder'):
            RunFolder.existing(path)
    with user_error('is a file'):
        sample_run(tmp_path / 'file' / 'run')
    assert [path.name for path in tmp_path.iterdir()] == ['file']
    (tmp_path / 'link').symlink_to('absent')
    with user_error('link to nothing'):
        sample_run(tmp_path / 'link')


def test_results_that_lost_their_manifest_are_not_taken_over(tmp_path):
    whole_run(tmp_path)
    (tmp_path / 'manifest.json').unlink()
    assert 'no manifest.json' in refused(tmp_path, sample_manifest())


def test_a_newer_schema_names_the_version_it_needs(tmp_path):
    sample_run(tmp_path)
    newer = {'schema': 2, 'versions': {'parlai_ext': '3.1'}}
    changed_json(tmp_path / 'manifest.json', **newer)
    with user_error(r'schema 2.*schema 1.*parlai_ext 3\.1'):
        RunFolder.existing(tmp_path)


def test_a_run_under_a_scheme_of_other_code_is_not_called_damaged(tmp_path):
    content = sample_run(tmp_path).manifest.to_json()
    content['protocol']['pairing'] = 'ring'
    content['versions'] = {'parlai_ext': '3.1'}
    save(tmp_path, content)
    line = error_line(RunFolder.existing, tmp_path)
    for words in ("scheme 'ring'", 'it has bipartite', 'parlai_ext 3.1', 'PLAYED'):
        assert words in line
    assert 'damaged' not in line


# -- one at a time


HOLD = """
import sys, time
from parlai_ext.store import RunFolder
with RunFolder.existing(sys.argv[1]).lock():
    print('held', flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    """
    Another process that holds the lock of a run.
    """
    sample_run(tmp_path)
    process = subprocess.Popen(
        [sys.executable, '-c', HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == 'held\n'
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_process_is_refused_and_told_who_holds_the_run(tmp_path, holder):
    run = RunFolder.existing(tmp_path)
    message = refused(tmp_path, sample_manifest())
    assert f'process {holder.pid} on {socket.gethostname()}' in message
    with user_error('in use by'), run.lock():
        pass


def test_a_lock_may_be_entered_again_within_itself(tmp_path):
    run = sample_run(tmp_path)
    with run.lock():
        with run.lock():
            pass
        assert 'in use by' in refused(tmp_path, sample_manifest())
    assert sample_run(tmp_path).pairings == run.pairings


def test_leftovers_of_killed_runs_are_cleared_and_nothing_else(tmp_path):
    run = sample_run(tmp_path)
    play(run)
    before = files_under(tmp_path)
    (tmp_path / 'dialogues' / '.00000.jsonl.unfinished').write_text('half')
    (tmp_path / '.manifest.json.unfinished').write_text('half')
    (tmp_path / 'my notes.txt').write_text('keep')
    (tmp_path / '.joined.unfinished').mkdir()  # of a command that writes there
    sample_run(tmp_path)
    assert files_under(tmp_path) == {**before, 'my notes.txt': b'keep'}


@pytest.mark.parametrize(
    'make', [os.mkfifo, partial(os.symlink, '/'), partial(os.symlink, 'scores')]
)
def test_pipes_and_links_to_folders_are_no_part_of_a_run(tmp_path, make):
    sample_run(tmp_path)
    make(tmp_path / 'scores')
    for use in (RunFolder.existing, sample_run):
        with user_error('scores is a link to a folder'):
            use(tmp_path)


def test_a_lock_that_is_a_link_empties_no_file(tmp_path):
    (tmp_path / 'mine').write_text('mine')
    (tmp_path / '.lock').symlink_to('mine')
    with pytest.raises(OSError):
        sample_run(tmp_path)
    assert (tmp_path / 'mine').read_text() == 'mine'
