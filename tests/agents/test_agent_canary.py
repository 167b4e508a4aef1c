"""
Canaries say what their kind says, from what they heard.
"""

from dataclasses import replace

import pytest
from parlai.core.message import Message
from parlai.core.opt import Opt

from parlai_ext.agents.canary.canary import CANARIES, CanaryAgent
from parlai_ext.audit.gaming import KINDS
from parlai_ext.judge_check.perturbations import PARROTS, ResponseInDialogue, parrot
from tests.support.talk import answers


def replies(kind, heard, own=None):
    agent = CanaryAgent(Opt({'canary_kind': kind}))
    if own is not None:
        agent.self_observe(Message(text=own))
    return answers(agent, heard)


def test_every_kind_is_played():
    assert list(KINDS) == list(CANARIES)


@pytest.mark.parametrize(
    'kind, own, said',
    [('echo', None, ['Oh?', 'Why?']), ('opener_parrot', 'No.', ['No.'] * 2)],
)
def test_an_echo_repeats_what_it_hears_and_a_parrot_its_opener(kind, own, said):
    assert replies(kind, ['Oh?', 'Why?'], own) == said


@pytest.mark.parametrize('kind', [*PARROTS, 'instruction_injector'])
def test_wordings_are_said_in_turn(kind):
    n = 6 if kind == 'instruction_injector' else 8
    said = replies(kind, ['I like tea a lot.'] * (n + 1))
    assert len(set(said[:n])) == n and all(said)
    # after all wordings the first again; an earlier turn needs a turn more
    assert said[n] == said[0] or kind == 'earlier_echo'


@pytest.mark.parametrize('kind', PARROTS)
def test_a_parrot_says_what_the_judge_check_says(kind):
    assert CanaryAgent(Opt({'canary_kind': kind})).act()['text']  # it heard nothing
    said = replies(kind, ['I like tea.', 'We grow roses.'])[-1]
    response = ResponseInDialogue('x', ['I like tea.', 'We grow roses.'])
    checks = {parrot(kind)(replace(response, text=str(i))) for i in range(200)}
    assert said in checks
