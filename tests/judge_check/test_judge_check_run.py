"""
The check of a run: kept, resumed after a kill, renewed when the run has grown.
"""

import pytest

from parlai_ext.judge_check.check import BLOCK
from parlai_ext.judge_check.check_run import PARTS, check_run
from parlai_ext.judge_check.marks import dimension_check
from parlai_ext.judge_check.record import NAME, JudgeCheck, read_check, write_check
from parlai_ext.scoring.score_run import score_run
from parlai_ext.store import partial
from tests.support.planted_judges import SYSTEMS, Sense, planted_run
from tests.support.scoring_samples import small_run
from tests.support.store_samples import sample_run
from tests.support.user_error import user_error


def scored_run(root, **options):
    run = planted_run(root, **options)
    scorer = Sense()
    score_run(run, scorer)
    return run, scorer


def check_file(run, scorer):
    return run.scores(scorer.signature).root / NAME


def test_a_check_that_is_done_is_not_done_again(tmp_path):
    run, scorer = scored_run(tmp_path / 'run')
    first = check_run(run, scorer)
    before = scorer.n_scored
    assert check_run(run, scorer) == first
    assert scorer.n_scored == before


def test_a_killed_check_goes_on_and_gives_the_same_bytes(tmp_path):
    run, scorer = scored_run(tmp_path / 'run')
    scorer.fails_after = scorer.n_scored + 3 * BLOCK
    with pytest.raises(KeyboardInterrupt):
        check_run(run, scorer)
    assert not check_file(run, scorer).exists()
    scorer = Sense()
    check = check_run(run, scorer)
    assert scorer.n_scored == check.n_scored - 3 * BLOCK
    whole, other = scored_run(tmp_path / 'whole')
    check_run(whole, other)
    there = check_file(whole, other).read_bytes()
    assert check_file(run, scorer).read_bytes() == there
    assert not (check_file(run, scorer).parent / PARTS).exists()


def test_a_kill_just_after_the_check_leaves_nothing_behind(tmp_path, monkeypatch):
    run, scorer = scored_run(tmp_path / 'run')
    with monkeypatch.context() as killed:
        killed.setattr(partial, 'SAVE_SECONDS', 0)
        killed.setattr(partial.PartialWork, 'remove', lambda kept: None)
        check_run(run, scorer)
    parts = check_file(run, scorer).parent / PARTS
    assert parts.exists()
    check_run(run, scorer)
    assert not parts.exists()


def test_a_run_that_has_grown_is_checked_anew(tmp_path):
    run, scorer = scored_run(tmp_path / 'run', systems=SYSTEMS[:1])
    first = check_run(run, scorer)
    grown, scorer = scored_run(tmp_path / 'run')
    second = check_run(grown, scorer)
    # one system has 24 responses, two have 48, of which a small run has 40 checked
    assert (first.n_responses, second.n_responses) == (24, 40)


def test_another_sample_is_another_check(tmp_path):
    run, scorer = scored_run(tmp_path / 'run')
    assert check_run(run, scorer, sample=200).n_responses == 40
    assert check_run(run, scorer, sample=12).n_responses == 12


def test_no_sample_is_no_check_and_removes_an_old_one(tmp_path):
    run, scorer = scored_run(tmp_path / 'run')
    check_run(run, scorer)
    assert check_run(run, scorer, sample=0) is None
    assert not check_file(run, scorer).exists()


def test_an_empty_run_has_no_check(tmp_path):
    run = sample_run(tmp_path / 'run')
    assert check_run(run, Sense()) is None


# -------------------- A check beside its scores, in the ranking that is made of th


CHECK = JudgeCheck('s', 40, 0, None, 120, 0.25, {'D': dimension_check('D', [])})


@pytest.fixture
def store(tmp_path):
    return small_run(tmp_path / 'run').scores('s')


def test_a_check_lies_beside_its_scores(store):
    write_check(store, CHECK)
    assert read_check(store) == CHECK
    assert read_check(store.run.scores('other')) is None


def test_a_damaged_check_is_named(store):
    write_check(store, CHECK)
    path = f'scores/{store.root.name}/judge_check.json'
    store.run.write_json(path, {**store.run.read_json(path), 'n_responses': []})
    with user_error('judge_check.json is damaged: n_responses'):
        read_check(store)
