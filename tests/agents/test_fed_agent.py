"""
`ext:fed` over `ext:dialogues`: ParlAI's own commands give the stage's numbers.
"""

from statistics import mean

import pytest
from parlai.core.message import Message
from parlai.core.metrics import Metric
from parlai.scripts.display_data import DisplayData
from parlai.scripts.eval_model import EvalModel

from parlai_ext.agents.fed.fed import FedAgent
from parlai_ext.commands import plugin
from parlai_ext.scoring.followups import FollowUps, Sides
from parlai_ext.scoring.score_run import build_scorer, choose_scorer, score_run
from parlai_ext.tasks.dialogues.agents import DefaultTeacher
from tests.support.scoring_samples import CuttingJudge, KnownJudge, known_fed, small_run
from tests.support.tiny_models import make_generator, sentences
from tests.support.user_error import user_error

SETS = FollowUps({'Wit': Sides((), ('dull',)), 'Joy': Sides(('nice',), ())})


@pytest.fixture(autouse=True)
def registered():
    plugin.register()


@pytest.fixture(scope='module')
def model_file(tmp_path_factory):
    return make_generator(tmp_path_factory.mktemp('judge'), label_truncate=32)


@pytest.fixture(scope='module')
def followups(tmp_path_factory):
    path = tmp_path_factory.mktemp('followups') / 'own.yaml'
    good, bad, worse = sentences(3, seed=9)
    path.write_text(
        f'dimensions:\n  Wit: {{positive: [{good}], negative: [{bad}, {worse}]}}\n'
        f'  Sense: {{negative: [{bad}]}}\n'
    )
    return str(path)


def fed_agent(judge):
    return FedAgent({}, {'scorer': known_fed(judge, SETS), 'opt': {}})


def message(text, context=()):
    return Message(text=text, context=list(context), episode_done=True)


def numbers(report):
    return {k: v.value() if isinstance(v, Metric) else v for k, v in report.items()}


def stage_means(run, signature):
    found = {}
    for shard in run.dialogue_shards():
        for scored in run.scores(signature).read(shard):
            for score in scored.scores:
                if score.value is not None:
                    found.setdefault(score.dimension, []).append(score.value)
    return {name: mean(values) for name, values in found.items()}


@pytest.mark.parametrize(
    ('score', 'options', 'datatype'),
    [
        ('target', {}, 'valid'),
        ('both', {'fed_polarity': 'both', 'fed_tokens': 'sum'}, 'valid'),
        ('both', {'fed_followups_reduction': 'mean'}, 'train:evalmode'),
    ],
)
def test_eval_model_gives_the_averages_of_the_stage(
    tmp_path, model_file, followups, score, options, datatype
):
    run = small_run(tmp_path / 'run', score=score)
    ours = {'judge_model_file': model_file, 'followups': followups, **options}
    scorer = choose_scorer({'name': 'fed'}, ours).build()
    score_run(run, scorer)
    expected = stage_means(run, scorer.signature)
    report = EvalModel.main(
        model='ext:fed',
        task='ext:dialogues',
        run_dir=run.root,
        batchsize=3,
        datatype=datatype,
        **ours,
    )
    found = numbers(report)
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize('agent', ['ext:fed', 'ext:scorer'])
def test_eval_model_judges_a_run_by_its_own_judge_and_options(
    tmp_path, model_file, followups, agent
):
    own = {
        'judge_model_file': model_file,
        'followups': followups,
        'polarity': 'both',
    }
    run = small_run(tmp_path / 'run', **own)
    scorer = build_scorer({'name': 'fed', **own})
    score_run(run, scorer)
    given = {'model': agent, 'task': 'ext:dialogues', 'run_dir': str(run.root)}
    found = numbers(EvalModel.main(**given))
    expected = stage_means(run, scorer.signature)
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-5)
    if agent == 'ext:fed':  # what the user says comes first
        other = numbers(EvalModel.main(**given, fed_polarity='negative'))
        assert other['Wit'] != pytest.approx(found['Wit'], rel=1e-5)


def test_a_run_names_no_scorer_from_outside_for_eval_model(tmp_path):
    run = small_run(tmp_path / 'run', scorer='strange_module:Mine')
    with user_error('strange_module:Mine'):
        EvalModel.main(model='ext:scorer', task='ext:dialogues', run_dir=run.root)


def test_eval_model_counts_what_has_no_score(tmp_path, model_file, followups):
    run = small_run(tmp_path / 'run')
    report = EvalModel.main(
        model='ext:fed',
        task='ext:dialogues',
        run_dir=run.root,
        judge_model_file=model_file,
        followups=followups,
        fed_polarity='positive',
    )
    found = numbers(report)
    # two whole dialogues with two judged utterances, one broken off after the first
    assert (found['exs'], found['Sense_unscored']) == (5, 5)
    assert 'Sense' not in found


def test_act_has_scores_and_reasons():
    agent = fed_agent(KnownJudge(lambda *_: (-2.0,)))
    act = agent.batch_act([message('hi', ['hello'])])[0]
    assert act['scores'] == {'Wit': 2.0, 'Joy': None}
    assert act['reason'] == 'Joy: no negative follow-ups'


def test_each_context_of_a_batch_is_asked_once():
    judge = KnownJudge(lambda *_: (-1.0,))
    fed_agent(judge).batch_act([message('a'), message('c', ['a', 'b'])])
    contexts = [question.context for question in judge.questions]
    assert contexts == [('a',), ('a', 'b', 'c')]


def test_padding_gets_no_scores():
    agent = fed_agent(KnownJudge(lambda *_: (-1.0,)))
    acts = agent.batch_act([Message.padding_example(), message('a')])
    assert ['scores' in act for act in acts] == [False, True]


def test_contexts_that_the_judge_cut_are_counted():
    agent = fed_agent(CuttingJudge(lambda *_: (-1.0,), 7, 1))
    acts = agent.batch_act([message('a'), message('c', ['a', 'b'])])
    assert [act['num_truncated'] for act in acts] == [0, 7]
    assert [act['metrics']['cut_contexts'].value() for act in acts] == [0, 1]


def test_the_judge_is_loaded_after_the_task_has_read_its_files():
    # a judge of 9 billion weights is not fetched for a file that is not there
    with user_error('--judged-path is needed'):
        EvalModel.main(
            model='ext:fed', task='ext:judged:fed_turn', judge_model_file='not there'
        )


def test_the_log_says_what_signs_the_numbers(monkeypatch, model_file, followups):
    opt = {'judge_model_file': model_file, 'followups': followups}
    told = []
    monkeypatch.setattr('parlai.utils.logging.info', told.append)
    signature = FedAgent(opt).scorer.signature
    assert f'scorer {signature}' in told


def test_clones_have_one_judge():
    agent = fed_agent(KnownJudge(lambda *_: (-1.0,)))
    assert agent.clone().scorer is agent.scorer


def test_display_data_shows_the_judged_utterances(tmp_path, capsys):
    run = small_run(tmp_path / 'run')
    DisplayData.main(
        task='ext:dialogues', run_dir=run.root, num_examples=9, datatype='train'
    )
    shown = capsys.readouterr().out
    first = next(run.iter_dialogues())
    assert first.utterances[2].text in shown
    assert first.utterances[1].text not in shown


def test_task_gives_context_speaker_and_no_label(tmp_path):
    run = small_run(tmp_path / 'run')
    teacher = DefaultTeacher({'datatype': 'valid', 'run_dir': str(run.root)})
    act = teacher.act()
    said = next(run.iter_dialogues())
    assert act['text'] == said.utterances[2].text
    assert act['context'] == [said.utterances[0].text, said.utterances[1].text]
    assert (act['speaker'], act['dialogue_id']) == ('target', 'd0')
    assert not {'labels', 'eval_labels'} & set(act)


def test_task_without_a_run_is_one_line():
    with user_error('--run-dir is needed'):
        DefaultTeacher({'datatype': 'valid'})
