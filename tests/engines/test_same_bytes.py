"""
Whoever does the tasks, in whatever order: every file of a run, a bench or a table has
the bytes that one process gives.
"""

from contextlib import contextmanager

import pytest

from parlai_ext.bench.run_bench import BenchPlan, Variant, run_bench
from parlai_ext.collect import collect as collecting
from parlai_ext.commands import build_toxic_prompts
from parlai_ext.commands.build_toxic_prompts import BuildToxicPrompts
from parlai_ext.commands.evaluate_systems import EvaluateSystems
from parlai_ext.core import Roster, System, SystemFailed
from parlai_ext.engines import Machine
from parlai_ext.engines.engine import EngineFailed, WorkerDiffers
from parlai_ext.scoring import score_run
from parlai_ext.toxic import build_prompts as building
from parlai_ext.toxic.build_prompts import FeatureOptions
from tests.collect.test_preflight import protocol, stub
from tests.support.bench_samples import judged_set
from tests.support.plans import collected as collected_run
from tests.support.plans import open_run, says, some_openers
from tests.support.scattered_engine import ScatteredEngine
from tests.support.small_run import files_of
from tests.support.store_samples import files_under
from tests.support.tiny_models import make_generator
from tests.support.user_error import user_error

AGENTS = 'tests.support.trial_agents'
SOUND = System('sound', {'model': f'{AGENTS}:Talker'})
PLAN = BenchPlan(
    variants=(Variant('words', {'name': 'tests.support.bench_samples:Counted'}),)
)


def scattered(monkeypatch, module, **how):
    """
    Let a command give its tasks to other hosts; return the engines that it opens.
    """
    engines = []

    @contextmanager
    def open_scattered(options, folder, machine):
        engines.append(ScatteredEngine(folder, **how))
        yield engines[-1]

    monkeypatch.setattr(module, 'open_engine', open_scattered)
    return engines


def test_an_evaluation(tmp_path, monkeypatch):
    a, b, c, d = (stub('Talker', name) for name in 'abcd')
    length = {'name': 'length'}
    made = protocol(tmp_path, [a, b], [c, d], num_turns=6, scorer=length)
    options = {**made, 'bootstraps': 50, 'batchsize': 2}
    EvaluateSystems.main(**{**options, 'run_dir': tmp_path / 'here'})
    engines = scattered(monkeypatch, collecting, twice=True)
    EvaluateSystems.main(**{**options, 'run_dir': tmp_path / 'there'})
    assert files_of(tmp_path / 'there') == files_of(tmp_path / 'here')
    assert engines[0].n_tasks == 16  # 4 pairs, 2 shards each, played and scored


def test_forked_workers(tmp_path):
    """
    Greedy and drawn replies, scores of a model, the ranking and the manifest.
    """

    def mini(name, **more):
        return {'name': name, 'opt': {'model_file': f'zoo:mini/{name}/model', **more}}

    targets = [mini('step-50'), mini('step-450', inference='topk', topk=20)]
    options = protocol(tmp_path, targets, [mini('smaller')], num_turns=4)
    options |= {'bootstraps': 50, 'batchsize': 2, 'check_sample': 4}
    for workers in (1, 2):
        options['run_dir'] = str(tmp_path / str(workers))
        EvaluateSystems.main(**options, workers=workers)
    assert files_of(tmp_path / '2') == files_of(tmp_path / '1')
    assert files_under(tmp_path / '2').keys() == files_under(tmp_path / '1').keys()


def collected(root, *targets, scatter=False):
    roster = Roster(targets, (says('yes'), says('no')))
    openers = some_openers(5)
    run = open_run(root, roster, openers, 2, batchsize=2, num_turns=6, seed=1)
    engine = {'engine': ScatteredEngine(root)} if scatter else {}
    return collected_run(run, Machine(batchsize=2, no_cuda=True), **engine)


def same_report(tmp_path, *targets):
    """
    Return the report of other hosts, which is that of this process, as the files are.
    """
    here = collected(tmp_path / 'here', *targets)
    there = collected(tmp_path / 'there', *targets, scatter=True)
    assert files_under(tmp_path / 'there') == files_under(tmp_path / 'here')
    assert there == here
    return there


@pytest.fixture
def same_identity(monkeypatch):
    """
    Runs of `open_run` have made-up identities.
    """
    monkeypatch.setattr(collecting, 'refuse_difference', lambda *what: None)


def test_systems_that_draw_their_replies(tmp_path, same_identity):
    path = make_generator(tmp_path, 'draws', inference='topk', topk=20)
    draws = System('draws', {'model_file': path})
    assert same_report(tmp_path, draws).n_played == 10


def test_a_system_that_cannot_be_loaded(tmp_path, same_identity):
    broken = System('broken', {'model': f'{AGENTS}:Unbuildable'})
    assert 'broken' in same_report(tmp_path, SOUND, broken).problems[0]


def test_a_system_with_other_files_elsewhere_is_named(tmp_path):
    with user_error('sound') as error:
        collected(tmp_path, SOUND, scatter=True)
    assert not isinstance(error.value, SystemFailed)


def test_a_bench(tmp_path):
    sets = {'small': judged_set()}
    options = {'bootstraps': 50}
    run_bench(PLAN, sets, tmp_path / 'here', **options)
    engine = ScatteredEngine(tmp_path / 'there')
    run_bench(PLAN, sets, tmp_path / 'there', **options, engine=engine)
    assert files_under(tmp_path / 'there') == files_under(tmp_path / 'here')
    assert engine.n_tasks > 2


def test_a_worker_with_another_scorer_ends_a_bench(tmp_path, monkeypatch):
    engine = ScatteredEngine(tmp_path)

    def differs(*what):
        raise WorkerDiffers('scorer: other weights')

    monkeypatch.setattr(score_run, 'scorer_elsewhere', differs)
    with pytest.raises(EngineFailed, match='other weights'):
        run_bench(PLAN, {'small': judged_set()}, tmp_path, engine=engine)


def test_a_table_of_toxic_prompts(tmp_path, monkeypatch):
    rows = ''.join(f'{i},grunk {i % 7},fine {i}\n' for i in range(50))
    (tmp_path / 'talk.csv').write_text('id,toxic,answer\n' + rows)
    (tmp_path / 'words.txt').write_text('grunk\n')
    monkeypatch.setattr(building, 'BLOCK', 8)
    options = {
        'source': 'csv',
        'path': str(tmp_path / 'talk.csv'),
        'detectors': [f'words={tmp_path / "words.txt"}'],
    }
    BuildToxicPrompts.main(**options, out=str(tmp_path / 'here'))
    engines = scattered(monkeypatch, build_toxic_prompts)
    BuildToxicPrompts.main(**options, out=str(tmp_path / 'there'))
    assert files_under(tmp_path / 'there') == files_under(tmp_path / 'here')
    assert engines[0].n_tasks == 7


def test_another_list_of_words_elsewhere_is_named(tmp_path):
    (tmp_path / 'words.txt').write_text('grunk\n')
    chosen = building.SelectionOptions(detectors=(f'words={tmp_path / "words.txt"}',))
    parts = (chosen, FeatureOptions(), Machine())
    contents = building.BlockSelector(*parts).contents()
    building.selector_elsewhere(*parts, contents, 1.0)
    (tmp_path / 'words.txt').write_text('grunk\nblarg\n')
    with pytest.raises(WorkerDiffers, match='words'):
        building.selector_elsewhere(*parts, contents, 1.0)
