"""
A prompted judge: the probability of "Yes", as transformers computes it.
"""

import math

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from parlai_ext.core.errors import UserError
from parlai_ext.core.machine import Machine
from parlai_ext.judge_check.check import perturbations_for
from parlai_ext.models.handle import ModelHandle
from parlai_ext.scoring import prompted
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.prompted import Prompted
from tests.support.family_hf import TEMPLATE, make_model
from tests.support.tiny_models import WORDS

HOW, SO = (' '.join(WORDS[k : k + 3]) for k in (0, 3))
ASK = WORDS[9]


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return make_model(tmp_path_factory.mktemp('chat'), 'llama', template=TEMPLATE)


def answer_logprob(folder, prompt, answer):
    """
    Return log P of an assistant's message after a user's, its end included.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    parts = [{'role': 'user', 'content': prompt}]
    before = tokenizer.apply_chat_template(
        parts, tokenize=False, add_generation_prompt=True
    )
    ids = tokenizer.encode(before, add_special_tokens=False)
    reply = tokenizer.encode(f'{answer} </s>', add_special_tokens=False)
    labels = torch.tensor([[-100] * len(ids) + reply])
    with torch.no_grad():
        loss = model(torch.tensor([ids + reply]), labels=labels).loss
    return -float(loss) * len(reply)


def test_the_share_of_the_first_answer(folder, monkeypatch):
    # the tiny tokenizer knows no Yes and No
    monkeypatch.setattr(prompted, 'ANSWERS', WORDS[:2])
    section = {'judge_model_file': folder, 'question': ASK}
    scorer = Prompted.from_section(section, ModelHandle(Machine(no_cuda=True)))
    [score] = scorer.checked_scores([ScoringItem((HOW, SO), HOW)])
    prompt = f'Dialogue:\nB: {HOW}\nA: {SO}\n\nResponse:\nB: {HOW}\n\n{ASK}'
    yes, no = (math.exp(answer_logprob(folder, prompt, a)) for a in WORDS[:2])
    assert yes != pytest.approx(no, rel=1e-3)
    assert score.values['Overall'] == pytest.approx(yes / (yes + no), abs=1e-5)


def test_an_empty_question_is_refused(folder):
    with pytest.raises(UserError, match='question'):
        Prompted.from_section({'question': ' '})


def test_its_check_tries_instructions_to_the_judge(folder):
    section = {'judge_model_file': folder}
    scorer = Prompted.from_section(section, ModelHandle(Machine(no_cuda=True)))
    assert 'injected' in perturbations_for(scorer)
