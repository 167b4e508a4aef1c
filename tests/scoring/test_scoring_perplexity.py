"""
Perplexity of a response.
"""

import math

import pytest
import torch

from parlai_ext.core.machine import Machine
from parlai_ext.models.handle import ModelHandle
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.perplexity import Perplexity
from parlai_ext.scoring.registry import find_scorer
from tests.support.fed_samples import END, gpt2, make_gpt2
from tests.support.scoring_samples import KnownJudge, OneModel

SAID = ('Hi!', "Hey, what's up?", 'Not much.')


def known_score(logprobs):
    judge = KnownJudge(lambda context, text: logprobs)
    section = {'judge_model_file': 'known'}
    scorer = Perplexity.from_section(section, OneModel(judge))
    [score] = scorer.checked_scores([ScoringItem(SAID[:2], SAID[2])])
    return score


def test_it_is_the_exponential_of_the_loss_of_transformers(tmp_path):
    folder = make_gpt2(tmp_path)
    model, tokenizer = gpt2(folder)
    before = tokenizer.encode(''.join(text + END for text in SAID[:2]))
    ids = before + tokenizer.encode(SAID[2] + END)
    labels = torch.tensor([[-100] * len(before) + ids[len(before) :]])
    with torch.no_grad():
        loss = float(model(torch.tensor([ids]), labels=labels).loss)
    section = {'judge_model_file': str(folder)}
    scorer = Perplexity.from_section(section, ModelHandle(Machine(no_cuda=True)))
    [score] = scorer.checked_scores([ScoringItem(SAID[:2], SAID[2])])
    assert score.values['Overall'] == pytest.approx(-math.exp(loss), rel=1e-3)


def test_a_word_of_four_equally_likely_ones():
    # log 1/4 for each token: the perplexity is 4
    assert known_score((math.log(1 / 4),) * 3).values == {'Overall': pytest.approx(-4)}


@pytest.mark.parametrize('logprobs', [(), (-math.inf,), (-1e4,)])
def test_what_is_no_number_is_no_score(logprobs):
    score = known_score(logprobs)
    assert score.values == {'Overall': None} and score.reasons['Overall']


def test_it_is_known_by_name():
    assert find_scorer('perplexity') is Perplexity
