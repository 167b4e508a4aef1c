"""
Scorers as ParlAI agents: what they are asked of the messages that they observe; that
ParlAI's own commands give the stage's numbers; and scores from elsewhere.
"""

from unittest.mock import Mock

import pytest
from parlai.core.message import Message
from parlai.scripts.eval_model import EvalModel

from parlai_ext.agents.chatmatch.chatmatch import ChatmatchAgent
from parlai_ext.agents.fed.fed import FedAgent
from parlai_ext.agents.scorer.scorer import ScorerAgent
from parlai_ext.agents.stored_scores.stored_scores import StoredScoresAgent
from parlai_ext.scoring.base import ItemScore, Scorer
from parlai_ext.scoring.chatmatch import ChatMatch
from parlai_ext.scoring.score_run import choose_scorer, score_run
from parlai_ext.tasks.dialogues.agents import DefaultTeacher
from tests.support.chatmatch_samples import QUIZ, game
from tests.support.scoring_samples import (
    CuttingJudge,
    KnownJudge,
    followups_of,
    known_fed,
    small_run,
    stage_means,
)
from tests.support.shared_data import shared
from tests.support.tiny_models import make_generator, sentences
from tests.support.user_error import user_error


class Recorder(Scorer):
    """
    Scores nothing, and keeps the items that it was asked about.
    """

    name = 'recorder'
    dimensions = ('n',)

    def score(self, items):
        self.items = items
        return [ItemScore({'n': len(item.utterances)}) for item in items]


class WholeRecorder(Recorder):
    """
    The same for whole dialogues.
    """

    level = 'dialogue'


@pytest.mark.parametrize(
    'kind, context, response',
    [(Recorder, ('a',), 'b'), (WholeRecorder, ('a', 'b', 'c'), None)],
)
def test_a_whole_dialogue_is_an_item_without_a_response(kind, context, response):
    agent = ScorerAgent({}, shared={'opt': {}, 'scorer': kind()})
    seen = Message(text='b', context=['a'], later=['c'], speaker='x', episode_done=True)
    (act,) = agent.batch_act([seen])
    assert [(i.context, i.response) for i in agent.scorer.items] == [
        (context, response)
    ]
    assert act['scores'] == {'n': len(context) + (response is not None)}


@pytest.fixture(scope='module')
def scorer():
    known = KnownJudge(lambda context, text: [-1.0] * len(text.split()))
    return ChatMatch.from_section({'perplexity_unit': 'token'}, known)


@pytest.fixture
def agent(scorer):
    return ChatmatchAgent({}, {'scorer': scorer, 'opt': {}})


def message(i, later=True):
    return Message(
        text=QUIZ[i],
        context=list(QUIZ[:i]),
        later=list(QUIZ[i + 1 :]) if later else [],
        episode_done=True,
    )


def test_with_the_later_turns_the_agent_gives_the_stages_scores(agent, scorer):
    acts = agent.batch_act([message(i) for i in range(10)])
    scored = scorer.score_dialogues([game(QUIZ)], [range(10)])[0]
    expected = [{} for _ in QUIZ]
    for one in scored.scores:
        if one.utterance_index is not None:
            expected[one.utterance_index][one.dimension] = one.value
    assert [act['scores'] for act in acts] == expected


def test_turns_of_one_game_asked_one_by_one_are_one_question(
    agent, scorer, monkeypatch
):
    judged = Mock(wraps=scorer.judged)
    monkeypatch.setattr(scorer, 'judged', judged)
    scorer.remembered.clear()
    for one in (agent, ChatmatchAgent({}, agent.share())):  # clones remember it too
        for i in range(10):
            one.batch_act([message(i)])
    assert sum(len(call.args[0]) for call in judged.call_args_list) == 1


def test_without_later_turns_the_game_ends_with_the_judged_turn(agent):
    # nine turns: an odd number, so that the last one counts
    agent.observe(message(8, later=False))
    assert agent.act()['scores']['consistency'] == -1


def test_a_turn_that_does_not_count_is_counted_as_unscored(agent):
    act = agent.batch_act([message(5)])[0]
    assert act['scores']['proactivity'] is None
    assert 'proactivity: not counted: repeated' in act['reason']
    assert 'proactivity' not in act['metrics']
    assert act['metrics']['proactivity_unscored'].value() == 1
    assert act['metrics']['diversity'].value() == -1


def test_speakers_that_the_task_names_are_taken(agent):
    names = ['ann', 'bob', 'cy', *['ann', 'bob'] * 3, 'ann']
    act = agent.batch_act([Message({**message(3), 'speakers': names})])[0]
    assert '3 speakers (ann, bob, cy)' in act['reason']


pytestmark = pytest.mark.usefixtures('registered')


@pytest.fixture(scope='module')
def model_file(module_folder):
    return make_generator(module_folder, label_truncate=32)


@pytest.fixture(scope='module')
def followups(module_folder):
    path = module_folder / 'own.yaml'
    good, bad, worse = sentences(3, seed=9)
    path.write_text(
        f'dimensions:\n  Wit: {{positive: [{good}], negative: [{bad}, {worse}]}}\n'
        f'  Sense: {{negative: [{bad}]}}\n'
    )
    return str(path)


@pytest.mark.parametrize(
    'agent, score, own, flags, polarity',
    [
        ('ext:fed', 'both', {}, {'fed_polarity': 'both', 'fed_tokens': 'sum'}, 'both'),
        # a run is judged by its own judge and options, but for what the user says
        ('ext:scorer', 'target', {'polarity': 'both'}, {}, 'both'),
        (
            'ext:fed',
            'target',
            {'polarity': 'both'},
            {'fed_polarity': 'negative'},
            'negative',
        ),
    ],
)
def test_eval_model_gives_the_averages_of_the_stage(
    tmp_path, model_file, followups, agent, score, own, flags, polarity
):
    judge = {'judge_model_file': model_file, 'followups': followups}
    in_run = {**judge, **own} if own else {}
    by_user = flags if own else {**judge, **flags}
    run = small_run(tmp_path / 'run', score=score, **in_run)
    recorded = {'name': 'fed', **in_run}
    scorer = choose_scorer(recorded, by_user, named_by_user=True).build()
    score_run(run, scorer)
    expected = stage_means(run, scorer.signature)
    given = {'model': agent, 'task': 'ext:dialogues', 'run_dir': str(run.root)}
    report = EvalModel.main(**given, batchsize=3, **by_user)
    found = {name: report[name].value() for name in expected}
    assert found == pytest.approx(expected, rel=1e-5)
    assert scorer.options.polarity == polarity


def test_a_run_names_no_scorer_from_outside_for_eval_model(tmp_path):
    run = small_run(tmp_path / 'run', scorer='strange_module:Mine')
    with user_error('strange_module:Mine'):
        EvalModel.main(model='ext:scorer', task='ext:dialogues', run_dir=run.root)


def test_contexts_that_the_judge_cut_are_counted_and_padding_is_not_scored():
    followups = followups_of('dimensions: {Wit: {negative: [dull]}}')
    scorer = known_fed(CuttingJudge(lambda *_: (-1.0,), 7, 1), followups)
    agent = FedAgent({}, {'scorer': scorer, 'opt': {}})
    seen = [
        Message(text=text, context=context, episode_done=True)
        for text, context in (('a', []), ('c', ['a', 'b']))
    ]
    *acts, padding = agent.batch_act([*seen, Message.padding_example()])
    assert 'scores' not in padding
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


def test_task_gives_context_speaker_and_no_label(tmp_path):
    run = small_run(tmp_path / 'run')
    teacher = DefaultTeacher({'datatype': 'valid', 'run_dir': str(run.root)})
    act = teacher.act()
    said = next(run.iter_dialogues())
    assert act['text'] == said.utterances[2].text
    assert act['context'] == [said.utterances[0].text, said.utterances[1].text]
    assert (act['speaker'], act['dialogue_id']) == ('target', 'd0')
    assert not {'labels', 'eval_labels'} & set(act)
    with user_error('--run-dir is needed'):
        DefaultTeacher({'datatype': 'valid'})


def test_stored_scores_need_no_model():
    folder = shared('fed/dialogpt_large_fed_scores')
    report = EvalModel.main(
        model='ext:stored_scores',
        task='ext:judged:fed_turn',
        scores_file=str(folder / 'turn_level_FU_scores.jsonl'),
        judged_file=str(shared('fed/fed_data.json')),
        batchsize=8,
    )
    # METHODS: the mean of the 18 scores against Overall
    assert round(report['Overall, mean of all/spearman'].value(), 4) == 0.0933
    # DialEvalMetrics: 0.095 for FED, turn level
    assert round(report['Overall, mean of level/spearman'].value(), 3) == 0.095


@pytest.mark.parametrize(
    'data, problem',
    [
        (b'{', ': not JSON'),
        (b'\n\xe9', ':2: not UTF-8'),
        (b'[{"scoers": {}}]', ': object 1: key scores: a mapping expected'),
        (b'{"score": {}} {"score": {"Wit": "x"}}', ': object 2: key scores.Wit: a num'),
    ],
)
def test_stored_scores_of_another_shape_are_one_line(tmp_path, data, problem):
    path = tmp_path / 'scores.json'
    path.write_bytes(data)
    with user_error(f'--scores-file: {path}{problem}'):
        StoredScoresAgent({'scores_file': str(path)})


def test_scores_of_other_items_are_one_line(tmp_path):
    # scores of 375 turns held against 125 dialogues would be numbers of nothing
    path = tmp_path / 'scores.json'
    path.write_text('[{"scores": {"Wit": 1}}, {"scores": {"Wit": 2}}]')
    agent = StoredScoresAgent({'scores_file': str(path)})
    agent.observe(Message(text='a', item=0, num_items=3))
    with user_error('it has 2 objects, and the task has 3 items'):
        agent.act()
