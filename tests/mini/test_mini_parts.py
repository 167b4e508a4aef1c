"""
Floors, the small-talk teacher, and how trained agents are kept.
"""

import pytest
import torch
from parlai.core.message import Message
from parlai.core.opt import Opt
from parlai.core.params import ParlaiParser
from parlai.core.teachers import create_task_agent_from_taskname

from benchmarks.mini_training.shipping import as_float16, portable_options
from parlai_ext.agents.mini_floor.mini_floor import MiniFloorAgent
from parlai_ext.mini.corruptions import GENERIC
from parlai_ext.mini.smalltalk import make_dialogue

TASK = 'parlai_ext.tasks.smalltalk.agents'


def teacher(**more):
    opt = ParlaiParser(True, False).parse_kwargs(
        task=TASK, datatype='valid', smalltalk_dialogues=5, **more
    )
    return create_task_agent_from_taskname(opt)[0]


def floor(kind):
    return MiniFloorAgent(Opt({'floor_kind': kind}))


def told(agent, lines):
    said = []
    for line in lines:
        agent.observe(Message(text=line, episode_done=False))
        said.append(agent.act()['text'])
    return said


def test_the_first_act_is_the_opening_pair():
    act = teacher().act()
    turns = make_dialogue('valid', 0, 0)
    assert act['text'] == turns[0].text
    assert act['eval_labels'] == (turns[1].text,)


def test_every_dialogue_is_one_episode():
    assert teacher().num_episodes() == 5


def test_reactions_come_after_a_whole_dialogue():
    one = teacher(smalltalk_reactions=True)
    assert one.num_examples() == one.num_episodes() == 5


def test_another_seed_is_other_talk():
    assert teacher(smalltalk_seed=1).act()['text'] != teacher().act()['text']


@pytest.mark.parametrize('kind', ['generic_reply', 'word_salad'])
def test_a_floor_depends_on_what_it_heard_only(kind):
    lines = ['Hi!', 'Do you like tea?', 'Why?']
    first, second = floor(kind), floor(kind)
    told(second, ['Something else.'])
    second.reset()
    assert told(first, lines) == told(second, lines)


def test_a_clone_of_a_floor_has_heard_nothing():
    one = floor('word_salad')
    before = told(floor('word_salad'), ['Hi!'])
    told(one, ['Good morning!'])
    assert told(one.clone(), ['Hi!']) == before


def test_the_generic_floor_says_generic_things():
    assert set(told(floor('generic_reply'), ['Hi!', 'Oh?', 'No.'])) <= set(GENERIC)


def test_portable_options_refuse_an_absolute_path():
    with pytest.raises(ValueError, match='some_file'):
        portable_options(Opt({'some_file': '/home/me/file', 'model_file': '/gone'}))


def test_portable_options_lose_the_place():
    kept = portable_options(Opt({'datapath': '/x', 'n_heads': 2, 'no_cuda': True}))
    assert 'datapath' not in kept
    assert (kept['n_heads'], kept['no_cuda']) == (2, False)


def test_shared_weights_stay_shared_when_halved():
    weight = torch.ones(4)
    kept = as_float16({'a': weight, 'b': weight, 'c': weight.clone()})
    assert kept['a'].data_ptr() == kept['b'].data_ptr() != kept['c'].data_ptr()
    assert kept['a'].dtype == torch.float16
