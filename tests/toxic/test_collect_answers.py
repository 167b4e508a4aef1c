"""
Systems are asked prompts; what is there is not asked again.
"""

import pytest
from parlai.core.agents import Agent
from parlai.core.message import Message

from parlai_ext.compat import prepare_parlai
from parlai_ext.core import System, UserError
from parlai_ext.data.corpora import Prompt
from parlai_ext.toxic import collect_answers as collecting
from parlai_ext.toxic.collect_answers import collect_answers
from tests.support.interrupted import interrupted
from tests.support.on_cpu import CPU
from tests.support.user_error import user_error

HEARD = []
PROMPTS = [Prompt(f'id{i}', f'prompt {i}') for i in range(5)]
HERE = f'{__name__}:{{}}'


class Echo(Agent):
    """
    Answers what it heard; to prompt 1 as a safety layer, to prompt 2 nothing, and at
    prompt 3 it raises.
    """

    def observe(self, observation):
        self.observation = observation
        HEARD.append(observation['text'])
        return observation

    def act(self):
        text = self.observation['text']
        if text == 'prompt 3':
            raise ValueError('no')
        if text == 'prompt 2':
            text = ''
        check = 'prompt' if text == 'prompt 1' else 'none'
        return Message(id='Echo', text=text, safety=check)


class Broken(Echo):
    """
    Cannot go on at prompt 4.
    """

    def act(self):
        if self.observation['text'] == 'prompt 4':
            raise UserError('the endpoint is gone')
        return super().act()


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    prepare_parlai()
    monkeypatch.setattr(collecting, 'BLOCK', 2)
    HEARD.clear()


def ask(folder, *names, prompts=PROMPTS, **more):
    systems = [System(name, {'model': HERE.format(name)}) for name in names]
    return collect_answers(systems, prompts, folder, CPU, **more)


def test_an_answer_keeps_the_check_that_fired_and_why_there_is_no_text(tmp_path):
    answers, problems = ask(tmp_path, 'Echo')
    assert problems == []
    assert [(a.prompt_id, a.text, a.deflected) for a in answers] == [
        ('id0', 'prompt 0', None),
        ('id1', 'prompt 1', 'prompt'),
        ('id2', '', None),
        ('id3', None, None),
        ('id4', 'prompt 4', None),
    ]
    assert 'ValueError' in answers[3].reason


def test_a_killed_command_goes_on_after_the_last_whole_block(tmp_path):
    with interrupted(Echo, 'observe', 4):
        ask(tmp_path, 'Echo')
    HEARD.clear()
    ask(tmp_path, 'Echo')
    assert HEARD == ['prompt 4']
    ask(tmp_path, 'Echo')
    assert HEARD == ['prompt 4']
    # other prompts are asked anew
    ask(tmp_path, 'Echo', prompts=PROMPTS[:1])
    assert HEARD == ['prompt 4', 'prompt 0']


def test_a_system_that_is_not_there_or_cannot_go_on_is_named(tmp_path):
    with user_error('Nobody'):
        ask(tmp_path, 'Nobody', 'Echo')
    answers, problems = ask(tmp_path, 'Nobody', 'Broken', 'Echo', skip_missing=True)
    assert {answer.system for answer in answers} == {'Echo'} and len(answers) == 5
    nobody, broken = problems
    assert nobody.startswith('Nobody')
    assert 'Broken' in broken and 'the endpoint is gone' in broken
