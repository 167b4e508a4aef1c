"""
Runs that lack some of their systems: what they are called, what their manifest says.
A run that grows to more dialogues keeps the bytes that it has.
"""

import json
import shutil

import pytest

from parlai_ext.commands.collect_dialogues import CollectDialogues
from parlai_ext.commands.evaluate_systems import EvaluateSystems
from parlai_ext.core import PLAYED, SCHEMES, PairingScheme
from parlai_ext.store import RunFolder
from tests.collect.test_preflight import protocol
from tests.collect.test_preflight import says as fixed
from tests.support.plans import collected, make_plan, prepare
from tests.support.small_run import files_of
from tests.support.user_error import error_line, user_error
from tests.support.written import written


def says(name, **more):
    return {**fixed(name, name), **more}


def retriever(name, candidates):
    opt = {'model_file': 'zoo:mini/retrieval/model', 'model': 'transformer/polyencoder'}
    return {'name': name, 'opt': {**opt, 'fixed_candidates_path': candidates}}


def absent(name, **more):
    return {'name': name, 'opt': {'model_file': f'nowhere/{name}'}, **more}


@pytest.fixture
def config(tmp_path, monkeypatch):
    """
    Return a writer of the options of a run with these targets and partners.
    """
    monkeypatch.delenv('PARLAI_DATAPATH', raising=False)
    data = {'datapath': str(tmp_path / 'data')}
    return lambda *sides, **keys: protocol(tmp_path, *sides, **keys) | data


def plan_without(opt):
    """
    Return the plan without the systems that cannot be had.
    """
    return make_plan({**opt, 'skip_missing': True})


def alone(opt):
    """
    Return the options of a run that goes on as it is.
    """
    return {k: v for k, v in opt.items() if k != 'config'}


@pytest.fixture
def replies(tmp_path):
    path = tmp_path / 'replies.txt'
    path.write_text('yes\nno\n')
    return path


def test_without_a_partner_the_protocol_has_another_name(config):
    plan = plan_without(config([says('t')], [says('p'), absent('q'), absent('r')]))
    name = 'protocol-without-2-of-3-partners'
    assert plan.manifest.signature.startswith(f'protocol:{name}|')
    # what ranking.json and the page show as the protocol's name
    assert plan.manifest.protocol.name == plan.protocol.name == name
    assert list(plan.manifest.partners) == ['p']


def test_a_whole_run_and_one_without_a_target_have_the_protocols_name(config):
    whole = make_plan(config([says('t')], [says('p')]))
    plan = plan_without(config([says('t'), absent('u')], [says('p')]))
    assert plan.manifest.signature == whole.manifest.signature
    assert whole.manifest.signature.startswith('protocol:protocol|')
    [problem] = plan.left_out
    assert problem == 'u: model_file: there is no file nowhere/u: no folder nowhere'


def test_a_target_that_would_part_a_pair_is_refused(config, monkeypatch):
    def ring(targets, partners):
        return zip(targets, [*targets[1:], targets[0]], strict=True)

    for schemes in (PLAYED, SCHEMES):
        monkeypatch.setitem(schemes, 'ring', PairingScheme('', ring))
    opt = config([says('t'), says('u')], [], pairing='ring')
    prepare(opt)
    prepare(opt)
    with user_error("'u' would no longer talk with 't'"):
        prepare({**opt, 'add_target': ['v=agent:fixed_response,fixed_response=v']})


def test_the_run_goes_on_under_that_name_and_without_a_partner_that_turns_up(config):
    opt = config([says('t')], [says('p'), absent('q')])
    opt['skip_missing'] = True
    first, _ = prepare(opt)
    again, _ = prepare(opt)
    without, _ = prepare(alone(opt))
    assert first.manifest == again.manifest == without.manifest
    # a partner that turns up later is refused
    config([says('t')], [says('p'), says('q')])
    with user_error(r'partners\.q'):
        prepare(opt)
    assert RunFolder.existing(opt['run_dir']).manifest == first.manifest


@pytest.mark.parametrize('side', ['targets', 'partners'])
def test_nobody_left_on_a_side_is_refused(config, side):
    sides = {'targets': [says('t')], 'partners': [says('p')], side: [absent('gone')]}
    words = f'none of the {side} can be had; gone: model_file: there is no file'
    with user_error(words):
        plan_without(config(*sides.values()))


@pytest.mark.parametrize(
    'entry, words',
    [
        (absent('q'), 'model_file: there is no file nowhere/q'),
        (
            {'name': 'q', 'opt': {'model': 'fixed_response', 'fixed_respose': 'a'}},
            "fixed_respose: unknown; did you mean 'fixed_response'?",
        ),
        (
            {'name': 'q', 'opt': {'model': 'seq2seq', 'beam_size': 'q'}},
            "beam_size: invalid int value: 'q'",
        ),
    ],
)
def test_a_mistake_names_the_roster_entry_and_the_key(config, entry, words):
    line = error_line(make_plan, config([says('t')], [entry]))
    assert line.startswith(f"system 'q': {words}")


def test_guesses_are_in_the_manifest_whatever_side_they_are_on(config):
    partners = [says('p', guess=True), absent('q', guess=True)]
    plan = plan_without(config([says('t', guess=True), says('u')], partners))
    assert plan.manifest.guessed == ('t', 'p')


def test_a_guess_that_is_added_later_is_one(config, tmp_path):
    opt = config([says('t')], [says('p')])
    prepare(opt)
    later = written(tmp_path, 'later.yaml', says('u', guess=True))
    run, _ = prepare({'run_dir': opt['run_dir'], 'add_target': [str(later)]})
    assert run.manifest.guessed == ('u',)


def test_replies_that_changed_are_refused_by_name(config, replies):
    opt = config([says('t')], [retriever('p', str(replies))])
    prepare(opt)
    replies.write_text('no\n')
    with user_error(r'partners\.p\.candidates'):
        prepare(opt)


def test_a_target_whose_replies_are_gone_does_not_stop_its_run(config, replies):
    opt = config([retriever('t', str(replies))], [says('p')])
    before = prepare(opt)[0].manifest.targets
    replies.unlink()
    again, _ = prepare(alone(opt))
    assert again.manifest.targets == before


def test_a_target_that_changed_is_not_played_on_under_its_name(config, replies):
    opt = config([retriever('t', str(replies))], [says('p'), says('q')])
    run, _ = prepare(opt)
    collected(run)
    replies.write_text('maybe\n')
    prepare(alone(opt))  # nothing of it is left to play
    shutil.rmtree(run.root / 'dialogues' / run.pairings[0].id)
    with user_error(r'targets\.t\.identity'):
        prepare(alone(opt))


def test_a_target_that_could_not_be_played_is_corrected_under_its_name(config):
    opt = config([says('t')], [says('p')])
    prepare(opt)
    for reply in ('tpyo', 'typo'):
        more = {
            **opt,
            'add_target': [f'u=agent:fixed_response,fixed_response={reply}'],
        }
        run, _ = prepare(more)
    assert run.manifest.asked['add_target'] == more['add_target']
    assert [pair.first for pair in run.pairings] == ['t', 'u']


PROTOCOL = """\
name: own
openers_file: mine.csv
num_dialogues: 2
num_turns: 4
roster:
  targets: [{name: one, opt: {model: repeat_query}}]
  partners: [{name: two, opt: {model: fixed_response}}]
"""
ROWS = 'conv_id,utterance_idx,utterance\na,1,Hi!\na,2,Hello.\nb,1,Tea?\nb,2,Please.\n'


def planned(folder, rows):
    folder.mkdir()
    written(folder, 'own.yaml', PROTOCOL)
    written(folder, 'mine.csv', rows)
    return make_plan({'config': str(folder / 'own.yaml')})


def test_a_run_is_told_by_what_the_file_of_its_openers_holds(tmp_path):
    one, other = planned(tmp_path / 'a', ROWS), planned(tmp_path / 'b', ROWS)
    said = {opener.utterances for opener in one.openers}
    assert said == {('Hi!', 'Hello.'), ('Tea?', 'Please.')}
    assert one.manifest.signature == other.manifest.signature
    assert 'mine.csv' not in json.dumps(one.manifest.to_json())
    changed = planned(tmp_path / 'c', ROWS.replace('Tea', 'Coffee'))
    assert changed.manifest.signature != one.manifest.signature


# Runs that grow

# three openers, then seven; two dialogues go through a model together
BATCH = {'batchsize': 2}
FEW, MORE = 3, 7
GREEDY = {'model_file': 'zoo:mini/step-450/model'}
SYSTEMS = [
    {'name': 'greedy', 'opt': GREEDY},
    {'name': 'draws', 'opt': {**GREEDY, 'inference': 'topk', 'topk': 20}},
]
PARTNER = [{'name': 'partner', 'opt': {'model_file': 'zoo:mini/smaller/model'}}]


def collected_files(folder, num_dialogues, **more):
    folder.mkdir(exist_ok=True)
    opt = protocol(folder, SYSTEMS, PARTNER, num_dialogues=FEW, num_turns=4)
    CollectDialogues.main(**opt, **BATCH, num_dialogues=num_dialogues, **more)
    return {n: b for n, b in files_of(folder / 'run').items() if n != 'manifest.json'}


@pytest.fixture(scope='module')
def few(module_folder):
    folder = module_folder / 'few'
    return folder, collected_files(folder, FEW)


@pytest.fixture(scope='module')
def grown(module_folder, few):
    folder = module_folder / 'grown'
    assert collected_files(folder, FEW) == few[1]
    return folder, collected_files(folder, MORE)


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
    assert collected_files(tmp_path, MORE) == grown[1]


def test_a_grown_run_goes_on_as_it_is(tmp_path, grown):
    files = copied(grown, tmp_path)
    lost = sorted(name for name in files if name.endswith('.jsonl'))[::3]
    for name in lost:
        (tmp_path / 'run' / name).unlink()
    CollectDialogues.main(run_dir=tmp_path / 'run')
    assert collected_files(tmp_path, MORE) == files


def test_a_signature_tells_where_a_sampling_partner_was_cut(tmp_path, grown):
    manifest = RunFolder.existing(grown[0] / 'run').manifest
    assert manifest.targets['draws'].grown_from == (FEW,)
    assert manifest.targets['greedy'].grown_from is None
    assert f'num_dialogues:{MORE}' in manifest.signature


def test_a_run_cannot_grow_into_another_one(tmp_path, few):
    copied(few, tmp_path)
    before = files_of(tmp_path / 'run')
    with user_error('num_turns: '):
        collected_files(tmp_path, MORE, num_turns=6)
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
