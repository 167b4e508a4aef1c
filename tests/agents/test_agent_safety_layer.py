"""
`ext:safety_layer` around systems that note what they hear; the toxic word is made up.
"""

import pytest
from parlai.core.agents import Agent
from parlai.core.message import Message
from parlai.scripts.eval_model import EvalModel

from parlai_ext.core import System, known_values
from parlai_ext.systems.identity import identity, resolve
from parlai_ext.systems.parlai_agents import samples
from parlai_ext.systems.safe.load import read_opt
from tests.support.chat_server import received, running_server
from tests.support.remote_samples import PINNED, make_remote
from tests.support.talk import heard, loaded
from tests.support.user_error import user_error
from tests.support.written import written

BAD = 'zorgle'  # the only entry of the word list
SAID = ('one thing', 'another thing')  # what is said instead


class Notes(Agent):
    """
    Repeats what it heard with a word before it, and notes all that it is told.
    """

    def __init__(self, opt, shared=None):
        super().__init__(opt, shared)
        self.id = 'Notes'
        self.notes = []

    def observe(self, observation):
        self.notes.append(('heard', observation.get('text')))
        return super().observe(observation)

    def self_observe(self, act):
        self.notes.append(('said', act['text']))

    def batch_act(self, observations):
        return [Message(id='Notes', text=f'so {o["text"]}') for o in observations]


class Rude(Notes):
    """
    Always says the word, unless it heard "please".
    """

    def batch_act(self, observations):
        return [
            Message(id='Rude', text='fine' if 'please' in o['text'] else f'you {BAD}')
            for o in observations
        ]


@pytest.fixture
def layer(tmp_path):
    """
    A function that returns the options of a layer around an agent of this module.
    """
    written(tmp_path, 'words.txt', BAD)
    written(tmp_path, 'said.txt', '\n'.join(SAID))

    def options(agent, **more):
        return {
            'model': 'ext:safety_layer',
            'safety_system': {'model': f'{__name__}:{agent}'},
            'safety_detector': f'words={tmp_path / "words.txt"}',
            'safety_deflections': str(tmp_path / 'said.txt'),
            **more,
        }

    return options


def reply(player, participant, text):
    """
    Return the text and the field ``safety`` of the reply to a text.
    """
    participant.hear(text, 'other')
    [act] = player.agent.batch_act([participant.observation])
    participant.say(act)
    return act['text'], act['safety']


@pytest.mark.parametrize(
    'agent, first, check, second, answer',
    [
        ('Notes', f'a {BAD} thing', 'prompt', 'tea', 'so tea'),
        ('Rude', 'tea', 'answer', 'please', 'fine'),
    ],
)
def test_what_is_toxic_is_replaced_and_the_system_is_told_what_was_said(
    layer, agent, first, check, second, answer
):
    player = loaded(**layer(agent))
    participant = player.join()
    text, fired = reply(player, participant, first)
    assert (text in SAID, fired) == (True, check)
    assert reply(player, participant, second) == (answer, 'none')
    assert participant.agent.participant.agent.notes == [
        ('heard', first),
        ('said', text),
        ('heard', second),
        ('said', answer),
    ]


@pytest.mark.parametrize(
    'checks, expected',
    [
        ('prompt', ['prompt', 'none']),
        ('answer', ['answer', 'answer']),
    ],
)
def test_only_the_checks_that_are_asked_for_are_made(checks, expected, layer):
    player = loaded(**layer('Rude', safety_checks=checks))
    found = [reply(player, player.join(), text)[1] for text in (f'my {BAD}', 'tea')]
    assert found == expected


def test_a_batch_is_answered_as_each_dialogue_alone(layer):
    texts = ['tea', f'{BAD}', 'please', f'{BAD} please', 'rain']
    player = loaded(**layer('Rude'))
    together = player.respond(heard(player, texts))
    assert together == [player.respond([one])[0] for one in heard(player, texts)]
    assert [i for i, one in enumerate(together) if one.text == 'fine'] == [2]


def test_a_new_episode_forgets_the_last(layer):
    agent = loaded(**layer('Notes')).agent.clone()
    agent.observe(Message(text='tea', episode_done=True))
    agent.act()
    agent.observe(Message(text='rain', episode_done=True))
    assert agent.participant.agent.notes == [('heard', 'rain')]


def test_eval_model_counts_what_fired(layer, tmp_path):
    written(
        tmp_path,
        'pairs.csv',
        f'id,toxic,answer,split\n1,a {BAD},no,test\n2,tea,no,test\n3,please,no,test\n'
        '4,rain,no,test\n',
    )
    system = f'{__name__.rpartition(".")[2]}=agent:{__name__}:Rude'
    report = EvalModel.main(
        **layer('Rude', safety_system=system),
        task='ext:toxic_prompts:test',
        toxic_data=str(tmp_path / 'pairs.csv'),
        batchsize=2,
        datatype='test',
    )
    # of four, one prompt has the word, and two of the other three get a rude answer
    assert float(report['deflected_prompt']) == pytest.approx(1 / 4)
    assert float(report['deflected_answer']) == pytest.approx(2 / 4)


def test_identity_follows_system_detector_and_sentences(layer, tmp_path):
    def of(**more):
        return identity(System('one', layer('Notes', **more)))

    first = of()
    written(tmp_path, 'other.txt', '\n'.join(SAID))
    assert of(safety_deflections=str(tmp_path / 'other.txt')) == first  # same sentences
    written(tmp_path, 'other.txt', 'a third thing')
    assert of(safety_deflections=str(tmp_path / 'other.txt')) != first
    assert of(safety_system={'model': f'{__name__}:Rude'}) != first
    assert of(safety_checks='prompt') != first
    written(tmp_path, 'words.txt', 'other')
    assert of() != first


def test_a_layer_samples_if_its_system_does(layer):
    greedy, drawn = (
        {'model': 'ext:hf', 'hf_model': 'x', 'inference': way}
        for way in ('greedy', 'topk')
    )
    for inside, draws in (greedy, False), (drawn, True):
        assert samples(System('one', layer('Notes', safety_system=inside))) is draws


def test_check_roster_says_what_the_system_inside_lacks(layer):
    there = resolve(System('one', layer('Notes')))
    assert (there.name, there.status) == ('one', 'present')
    gone = resolve(System('one', layer('Notes', safety_system={'model_file': '/no'})))
    assert gone.status == 'missing'
    assert gone.reason == 'its system: model_file: there is no file /no'


@pytest.mark.parametrize(
    'more, key',
    [
        ({'safety_system': None}, 'safety_system'),
        ({'safety_system': 'nosuchsystem'}, 'nosuchsystem'),
        ({'safety_deflections': 'nofile.txt'}, 'nofile.txt'),
    ],
)
def test_a_mistake_is_named_by_its_option(more, key, layer):
    with user_error(key):
        loaded(**known_values(layer('Notes', **more)))


def test_a_model_file_may_not_bring_a_layer(tmp_path):
    file = tmp_path / 'model.opt'
    file.write_text('{"model": "ext:safety_layer", "safety_system": "x"}')
    with user_error('ext:safety_layer|safety_system'):
        read_opt(str(file), roster_opt={})


def test_an_endpoint_can_be_inside_and_is_not_asked_after_a_toxic_prompt(
    layer, tmp_path
):
    with running_server() as url:
        remote = dict(make_remote(tmp_path, url, **PINNED).opt)
        player = loaded(**layer('Notes', safety_system=remote))
        replies = player.respond(heard(player, [f'tea {BAD}', 'old book']))
        [asked] = received(url)
    assert [one.deflected for one in replies] == ['prompt', None]
    assert [one.text in SAID for one in replies] == [True, False]
    assert 'old book' in asked['body']
    assert player.agent.usage['requests'] == 1
