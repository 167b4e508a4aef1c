"""
FED in a judge's chat template, against transformers' own loss of the conversation.
"""

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.fed import Fed, FedOptions
from parlai_ext.scoring.followups import FollowUps, Sides
from tests.support.on_cpu import models_on_cpu
from tests.support.tiny_models import WORDS

HOW, SO, BAD = (' '.join(WORDS[k : k + 3]) for k in (0, 3, 6))


def loss(folder, *texts):
    """
    Return transformers' loss of the last message of a conversation, its end included.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    roles = ('user', 'assistant')
    parts = [{'role': roles[i % 2], 'content': t} for i, t in enumerate(texts)]
    ids = tokenizer.encode(
        tokenizer.apply_chat_template(parts, tokenize=False), add_special_tokens=False
    )
    last = len(tokenizer.encode(texts[-1], add_special_tokens=False)) + 1
    labels = torch.tensor([[-100] * (len(ids) - last) + ids[-last:]])
    with torch.no_grad():
        return float(model(torch.tensor([ids]), labels=labels).loss)


@pytest.mark.parametrize('less', ['nothing', 'no_response'])
def test_a_complaint_is_the_users_next_message(chat_folder, less):
    fed = Fed(
        FedOptions(judge_model_file=chat_folder, judge_format='chat', less=less),
        models_on_cpu(),
        followups=FollowUps({'X': Sides((), (BAD,))}),
    )
    [score] = fed.checked_scores([ScoringItem((HOW,), SO)])
    expected = loss(chat_folder, HOW, SO, BAD)
    if less == 'no_response':
        expected -= loss(chat_folder, HOW, '', BAD)
    assert score.values['X'] == pytest.approx(expected, abs=1e-4)
