"""
Likelihood: the mean log-probability of a response, from a judge.
"""

import math

import pytest

from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.likelihood import Likelihood
from tests.support.fed_samples import huggingface_loss
from tests.support.on_cpu import models_on_cpu
from tests.support.scoring_samples import KnownJudge, OneModel

SAID = ('Hi!', "Hey, what's up?", 'Not much.')


def scored(judge, items, **options):
    options = {'judge_model_file': 'known', **options}
    return Likelihood.from_section(options, OneModel(judge)).checked_scores(items)


def known_scores(tell, **options):
    return scored(KnownJudge(tell), [ScoringItem(SAID[:2], SAID[2])], **options)


@pytest.mark.parametrize('n', [0, 1, 2])
def test_the_score_is_the_loss_of_transformers_with_its_sign_turned(gpt2_folder, n):
    section = {'judge_model_file': gpt2_folder}
    handle = models_on_cpu()
    scorer = Likelihood.from_section(section, handle)
    [score] = scorer.checked_scores([ScoringItem(SAID[:n], SAID[n])])
    expected = -huggingface_loss(gpt2_folder, SAID[:n], SAID[n])
    assert score.values['Likelihood'] == pytest.approx(expected, rel=1e-4)


def test_mean_over_tokens():
    # (-1 - 2 - 6) / 3
    [score] = known_scores(lambda context, text: (-1.0, -2.0, -6.0))
    assert score.values == {'Likelihood': pytest.approx(-3)}
    assert score.evidence == {'tokens': 3}


def test_what_the_context_adds():
    # -1 after the context, -4 without one
    [score] = known_scores(
        lambda context, text: (-1.0 if context else -4.0,), less='no_context'
    )
    assert score.values == {'Likelihood': pytest.approx(3)}


@pytest.mark.parametrize(('turns', 'read'), [(0, 2), (1, 1), (2, 2), (9, 2)])
def test_turns_of_the_context_that_are_read(turns, read):
    [score] = known_scores(
        lambda context, text: (-float(len(context)),), context_turns=turns
    )
    assert score.values == {'Likelihood': -read}


@pytest.mark.parametrize('logprobs', [(), (-1.0, -math.inf)])
def test_no_finite_probability_is_no_score(logprobs):
    [score] = known_scores(lambda context, text: logprobs)
    assert score.values == {'Likelihood': None}
    assert 'probability' in score.reasons['Likelihood']
