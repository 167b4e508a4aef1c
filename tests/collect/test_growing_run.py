"""
A run grows to more dialogues: what it has keeps its bytes, wherever it was interrupted.
"""

import shutil

import pytest

from parlai_ext.commands.collect_dialogues import CollectDialogues
from parlai_ext.commands.evaluate_systems import EvaluateSystems
from parlai_ext.store import RunFolder
from tests.collect.test_preflight import protocol
from tests.support.small_run import files_of
from tests.support.user_error import user_error

# three openers, then seven; two dialogues go through a model together
BATCH = {'batchsize': 2}
FEW, MORE = 3, 7
GREEDY = {'model_file': 'zoo:mini/step-450/model'}
SYSTEMS = [
    {'name': 'greedy', 'opt': GREEDY},
    {'name': 'draws', 'opt': {**GREEDY, 'inference': 'topk', 'topk': 20}},
]
PARTNER = [{'name': 'partner', 'opt': {'model_file': 'zoo:mini/smaller/model'}}]


def collected(folder, num_dialogues, **more):
    folder.mkdir(exist_ok=True)
    opt = protocol(folder, SYSTEMS, PARTNER, num_dialogues=FEW, num_turns=4)
    CollectDialogues.main(**opt, **BATCH, num_dialogues=num_dialogues, **more)
    return {n: b for n, b in files_of(folder / 'run').items() if n != 'manifest.json'}


@pytest.fixture(scope='module')
def few(module_folder):
    folder = module_folder / 'few'
    return folder, collected(folder, FEW)


@pytest.fixture(scope='module')
def grown(module_folder, few):
    folder = module_folder / 'grown'
    assert collected(folder, FEW) == few[1]
    return folder, collected(folder, MORE)


def copied(made, folder):
    shutil.copytree(made[0] / 'run', folder / 'run')
    return made[1]


def test_dialogues_that_are_there_keep_their_bytes(grown, few):
    folder, files = grown
    assert len(few[1]) > 2 and few[1].items() <= files.items()
    run = RunFolder.existing(folder / 'run')
    for pairing in run.pairings:
        shards = [s for s in run.dialogue_shards() if s.pairing_id == pairing.id]
        assert [(s.start, s.stop) for s in shards] == [(0, 2), (2, 3), (3, 5), (5, 7)]
    openers = [d.opener_id for d in run.iter_dialogues()]
    assert openers == [opener.id for opener in run.openers] * len(run.pairings)


def test_a_run_that_grows_before_it_is_finished_becomes_the_same(tmp_path, grown, few):
    copied(few, tmp_path)
    for path in sorted(tmp_path.glob('run/dialogues/*/*.jsonl'))[1::2]:
        path.unlink()
    assert collected(tmp_path, MORE) == grown[1]


def test_a_grown_run_goes_on_as_it_is(tmp_path, grown):
    files = copied(grown, tmp_path)
    lost = sorted(name for name in files if name.endswith('.jsonl'))[::3]
    for name in lost:
        (tmp_path / 'run' / name).unlink()
    CollectDialogues.main(run_dir=tmp_path / 'run')
    assert collected(tmp_path, MORE) == files


def test_a_signature_tells_where_a_sampling_partner_was_cut(tmp_path, grown):
    manifest = RunFolder.existing(grown[0] / 'run').manifest
    assert manifest.targets['draws'].grown_from == (FEW,)
    assert manifest.targets['greedy'].grown_from is None
    assert f'num_dialogues:{MORE}' in manifest.signature


def test_a_run_cannot_grow_into_another_one(tmp_path, few):
    copied(few, tmp_path)
    before = files_of(tmp_path / 'run')
    with user_error('num_turns: '):
        collected(tmp_path, MORE, num_turns=6)
    assert files_of(tmp_path / 'run') == before


def test_scores_of_the_dialogues_that_were_there_are_kept(tmp_path):
    scorer = {'name': 'length'}
    opt = protocol(tmp_path, SYSTEMS[:1], PARTNER, num_turns=4, scorer=scorer)
    options = {**opt, **BATCH, 'bootstraps': 20, 'check_sample': 4}
    EvaluateSystems.main(**options, num_dialogues=FEW)
    before = files_of(tmp_path / 'run')
    ranking = EvaluateSystems.main(**options, num_dialogues=MORE)
    kept = {n: b for n, b in before.items() if n.endswith('.jsonl')}
    # dialogues and scores of two pairs of shards
    assert len(kept) == 4 and kept.items() <= files_of(tmp_path / 'run').items()
    assert {row.n_dialogues for row in ranking.standings['Overall']} == {MORE}
