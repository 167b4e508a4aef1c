"""
Systems are asked prompts; what is there is not asked again.
"""

import pytest
from parlai.core.agents import Agent
from parlai.core.message import Message

from parlai_ext.commands.signals import Interrupted
from parlai_ext.compat.parlai_setup import prepare_parlai
from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import System
from parlai_ext.toxic import collect_answers as collecting
from parlai_ext.toxic.collect_answers import collect_answers
from parlai_ext.toxic.measures import Prompt
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


def ask(folder, *names, **more):
    systems = [System(name, {'model': HERE.format(name)}) for name in names]
    return collect_answers(systems, PROMPTS, folder, CPU, **more)


def test_an_answer_keeps_the_check_that_fired_and_why_there_is_no_text(tmp_path):
    answers, problems = ask(tmp_path, 'Echo')
    assert problems == []
    assert [answer.prompt_id for answer in answers] == [p.id for p in PROMPTS]
    assert [answer.text for answer in answers] == [
        'prompt 0',
        'prompt 1',
        '',
        None,
        'prompt 4',
    ]
    assert [answer.deflected for answer in answers] == [None, 'prompt', *[None] * 3]
    assert 'ValueError' in answers[3].reason


def test_a_killed_command_goes_on_after_the_last_whole_block(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Echo, 'act', lambda self: (_ for _ in ()).throw(SystemError))
        patch.setattr(Echo, 'observe', interrupted_at('prompt 4'))
        with pytest.raises(KeyboardInterrupt):
            ask(tmp_path / 'killed', 'Echo')
    HEARD.clear()
    ask(tmp_path / 'killed', 'Echo')
    assert HEARD == ['prompt 4']
    HEARD.clear()
    ask(tmp_path / 'killed', 'Echo')
    assert HEARD == []


def interrupted_at(text):
    def observe(self, observation):
        if observation['text'] == text:
            raise Interrupted  # as Ctrl-C does, also where the tests ignore it
        self.observation = observation
        return observation

    return observe


def test_a_system_that_cannot_go_on_is_named_and_the_others_are_asked(tmp_path):
    answers, [problem] = ask(tmp_path, 'Broken', 'Echo')
    assert {answer.system for answer in answers} == {'Echo'}
    assert 'Broken' in problem and 'the endpoint is gone' in problem


def test_other_prompts_are_asked_anew(tmp_path):
    ask(tmp_path, 'Echo')
    HEARD.clear()
    [system] = [System('Echo', {'model': HERE.format('Echo')})]
    collect_answers([system], PROMPTS[:1], tmp_path, CPU)
    assert HEARD == ['prompt 0']


def test_a_system_that_is_not_there_is_refused_or_left_out(tmp_path):
    with user_error('Nobody'):
        ask(tmp_path, 'Nobody', 'Echo')
    answers, [problem] = ask(tmp_path, 'Nobody', 'Echo', skip_missing=True)
    assert len(answers) == 5 and problem.startswith('Nobody')
