"""
A prompted judge: the probability of "Yes", as transformers computes it.
"""

import math
from types import SimpleNamespace

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from parlai_ext.core.nouns import Answer
from parlai_ext.judge_check.check import perturbations_for
from parlai_ext.scoring import prompted
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.directeval import DirectEval
from parlai_ext.scoring.fed import Fed
from parlai_ext.scoring.llm.judges import LlmJudge
from parlai_ext.scoring.prompted import Prompted
from tests.support.family_hf import make_model
from tests.support.fed_samples import string_loss
from tests.support.on_cpu import models_on_cpu
from tests.support.tiny_models import WORDS
from tests.support.user_error import user_error

HOW, SO = (' '.join(WORDS[k : k + 3]) for k in (0, 3))
ASK = WORDS[9]


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
    return -string_loss(model, ids + reply, len(ids)) * len(reply)


def test_the_share_of_the_first_answer(chat_folder, monkeypatch):
    # the tiny tokenizer knows no Yes and No
    monkeypatch.setattr(prompted, 'ANSWERS', WORDS[:2])
    section = {'judge_model_file': chat_folder, 'question': ASK}
    scorer = Prompted.from_section(section, models_on_cpu())
    [score] = scorer.checked_scores([ScoringItem((HOW, SO), HOW)])
    prompt = f'Dialogue:\nB: {HOW}\nA: {SO}\n\nResponse:\nB: {HOW}\n\n{ASK}'
    yes, no = (math.exp(answer_logprob(chat_folder, prompt, a)) for a in WORDS[:2])
    assert yes != pytest.approx(no, rel=1e-3)
    assert score.values['Overall'] == pytest.approx(yes / (yes + no), abs=1e-5)


def test_no_probability_of_either_answer_is_no_score(chat_folder):
    class Silent:
        signature = 'silent'
        vectorizer = SimpleNamespace(
            tokenizer=AutoTokenizer.from_pretrained(chat_folder)
        )

        def likelihood(self, name):
            return self

        def answer(self, questions):
            return [Answer(((-math.inf,), (-math.inf,))) for _ in questions]

    [score] = Prompted.from_section({}, Silent()).checked_scores([ScoringItem((), SO)])
    assert score.values['Overall'] is None


@pytest.mark.parametrize(
    ('scorer', 'has_format'),
    [(Prompted, False), (LlmJudge, False), (Fed, True), (DirectEval, True)],
)
def test_a_judge_without_a_template_is_refused_by_an_option_of_the_scorer(
    tmp_path, scorer, has_format
):
    section = {'judge_model_file': make_model(tmp_path, 'gpt2')}
    if has_format:
        section['judge_format'] = 'chat'
    models = models_on_cpu()
    with user_error('chat template') as error:
        scorer.from_section(section, models).load_models()
    assert ('judge_format' in str(error.value)) == has_format
    assert ('judge_model_file' in str(error.value)) != has_format


def test_an_empty_question_is_refused(chat_folder):
    with user_error('question'):
        Prompted.from_section({'question': ' '})


def test_its_check_tries_instructions_to_the_judge(chat_folder):
    section = {'judge_model_file': chat_folder}
    scorer = Prompted.from_section(section, models_on_cpu())
    assert 'injected' in perturbations_for(scorer)
