"""
The check of a run: kept, resumed after a kill, renewed when the run has grown; and the
systems of the judge's own family.
"""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from parlai_ext.core import System
from parlai_ext.judge_check.check import BLOCK, PARTS, check_run, with_kin
from parlai_ext.judge_check.record import NAME, PromptProbes, read_check, write_check
from parlai_ext.scoring.score_run import score_run
from parlai_ext.store import disk
from parlai_ext.systems.model_origin import family_name, model_origin
from tests.support.check_example import example_check
from tests.support.interrupted import interrupted
from tests.support.planted_judges import SYSTEMS, Sense, planted_run
from tests.support.scoring_samples import small_run
from tests.support.store_samples import sample_run
from tests.support.user_error import user_error
from tests.support.written import written


def scored_run(root, **options):
    run = planted_run(root, **options)
    scorer = Sense()
    score_run(run, scorer)
    return run, scorer


@pytest.fixture
def scored(tmp_path):
    return scored_run(tmp_path / 'run')


def check_file(run, scorer):
    return run.scores(scorer.signature).root / NAME


def test_a_check_that_is_done_is_not_done_again(scored):
    run, scorer = scored
    first = check_run(run, scorer)
    before = scorer.n_scored
    assert check_run(run, scorer) == first
    assert scorer.n_scored == before


def test_a_killed_check_goes_on_and_gives_the_same_bytes(scored, tmp_path):
    run, scorer = scored
    with interrupted(Sense, 'score', 3):
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


def test_a_kill_just_after_the_check_leaves_nothing_behind(scored, monkeypatch):
    run, scorer = scored
    with monkeypatch.context() as killed:
        killed.setattr(disk, 'SAVE_SECONDS', 0)
        killed.setattr(disk.PartialWork, 'remove', lambda kept: None)
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


def test_another_sample_is_another_check(scored):
    run, scorer = scored
    assert check_run(run, scorer, sample=200).n_responses == 40
    assert check_run(run, scorer, sample=12).n_responses == 12
    # no sample is no check
    assert check_run(run, scorer, sample=0) is None
    assert not check_file(run, scorer).exists()


def test_an_empty_run_has_no_check(tmp_path):
    run = sample_run(tmp_path / 'run')
    assert check_run(run, Sense()) is None


# ---- beside its scores, in the ranking that is made of them


def test_a_damaged_check_is_named(tmp_path):
    store = small_run(tmp_path / 'run').scores('s')
    write_check(store, replace(example_check({'D': {}}), n_responses=[]))
    with user_error('judge_check.json is damaged: n_responses'):
        read_check(store)


@pytest.mark.parametrize(
    'name, family',
    [
        ('HuggingFaceTB/SmolLM2-360M-Instruct', 'smollm'),
        ('smollm2-135m-q4', 'smollm'),
        ('meta-llama/Meta-Llama-3-8B', 'llama'),
        ('gpt-4o-2024-08-06', 'gpt'),
        ('microsoft/DialoGPT-medium', 'dialogpt'),
        ('', None),
        (None, None),
    ],
)
def test_the_family_of_a_name(name, family):
    assert family_name(name) == family


def folder_of_type(path, model_type, **config):
    path.mkdir()
    written(path, 'config.json', {'model_type': model_type, **config})
    (path / 'model.safetensors').touch()
    return str(path)


def hf(model):
    return {'model': 'ext:hf', 'hf_model': model}


def remote(model, **opt):
    return {'model': 'ext:remote', 'remote_model': model, **opt}


def judge_of(name, kind='likelihood'):
    models = SimpleNamespace(loaded={(kind, name): None})
    return SimpleNamespace(models=models, signature=f'judge:({name})')


def kin_of(judge, systems, **identities):
    """
    Return the systems that are the judge's own model, and those of its family.
    """
    run = SimpleNamespace(
        targets={n: SimpleNamespace(identity=identities.get(n, n)) for n in systems},
        systems=systems,
    )
    kin = with_kin(PromptProbes(0, 0), judge, run)
    return kin.same_model, kin.same_family


def test_systems_of_the_judges_family_are_named():
    systems = {
        'large': hf('HuggingFaceTB/SmolLM2-1.7B-Instruct'),
        'served': remote('smollm2'),
        'file': {**hf('HuggingFaceTB/SmolLM2-360M'), 'model_file': 'x'},
        'other': hf('Qwen/Qwen2.5-0.5B'),
        'zoo': {'model_file': 'zoo:blender/blender_90M/model'},
    }
    _, family = kin_of(judge_of('smollm2-135m-q4'), systems)
    assert set(family) == {'large', 'served', 'file'}


def test_the_judges_own_model_is_named_as_such_and_not_as_of_its_family():
    systems = dict.fromkeys(('twin', 'cousin'), remote('smollm2'))
    judge = judge_of('smollm2-135m-q4')
    same, family = kin_of(judge, systems, twin='smollm2-135m-q4')
    assert (same, list(family)) == (('twin',), ['cousin'])


def test_an_endpoint_is_of_the_family_that_it_calls_itself():
    judge = judge_of('http://127.0.0.1:1/v1,remote_model=qwen2.5-7b', 'chat')
    systems = {
        'same': hf('Qwen/Qwen2.5-0.5B'),
        'dated': remote('default', remote_dated_model='qwen3'),
        'else': remote('gpt-4o'),
    }
    assert set(kin_of(judge, systems)[1]) == {'same', 'dated'}


def test_a_folder_without_a_name_is_of_its_architecture(tmp_path):
    judge = judge_of(folder_of_type(tmp_path / 'judge', 'llama'))
    systems = {
        'twin': hf(folder_of_type(tmp_path / 'one', 'llama')),
        'gpt2': hf(folder_of_type(tmp_path / 'two', 'gpt2')),
    }
    assert kin_of(judge, systems) == ((), {'twin': 'both are of the type llama'})


def test_a_folder_that_knows_its_name_is_of_that_family(tmp_path):
    path = folder_of_type(tmp_path / 'x', 'llama', _name_or_path='org/Vicuna-7b')
    assert model_origin(System('s', hf(path))).name == 'vicuna'


def test_an_encoder_has_no_family_to_favour():
    judge = judge_of('minilm', 'embedder')
    assert kin_of(judge, {'s': hf('x/minilm')}) == ((), {})
