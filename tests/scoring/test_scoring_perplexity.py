"""
Perplexity and token accuracy of a response.
"""

import math

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from parlai_ext.core.nouns import Question
from parlai_ext.core.watch import NO_WATCH, Watch
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.perplexity import Perplexity, TokenAccuracy
from tests.support.family_hf import make_model
from tests.support.fed_samples import END, gpt2, huggingface_loss
from tests.support.on_cpu import models_on_cpu
from tests.support.scoring_samples import KnownJudge, OneModel

SAID = ('Hi!', "Hey, what's up?", 'Not much.')


def known_score(logprobs):
    judge = KnownJudge(lambda context, text: logprobs)
    section = {'judge_model_file': 'known'}
    scorer = Perplexity.from_section(section, OneModel(judge))
    [score] = scorer.checked_scores([ScoringItem(SAID[:2], SAID[2])])
    return score


def test_it_is_the_exponential_of_the_loss_of_transformers(gpt2_folder):
    loss = huggingface_loss(gpt2_folder, SAID[:2], SAID[2])
    section = {'judge_model_file': gpt2_folder}
    scorer = Perplexity.from_section(section, models_on_cpu())
    [score] = scorer.checked_scores([ScoringItem(SAID[:2], SAID[2])])
    assert score.values['Overall'] == pytest.approx(-math.exp(loss), rel=1e-3)


def test_a_word_of_four_equally_likely_ones():
    # log 1/4 for each token: the perplexity is 4
    assert known_score((math.log(1 / 4),) * 3).values == {'Overall': pytest.approx(-4)}


@pytest.mark.parametrize(
    ('logprobs', 'why'),
    [((), 'probability'), ((-math.inf,), 'probability'), ((-1e4,), 'too large')],
)
def test_what_is_no_number_is_no_score(logprobs, why):
    score = known_score(logprobs)
    assert score.values == {'Overall': None} and why in score.reasons['Overall']


def own_choices(folder, context, n):
    """
    Return the n tokens that transformers' greedy search puts after a context.
    """
    model, tokenizer = gpt2(folder)
    ids = torch.tensor([tokenizer.encode(''.join(text + END for text in context))])
    given = {'do_sample': False, 'max_new_tokens': n, 'min_new_tokens': n}
    given['attention_mask'] = torch.ones_like(ids)
    return model.generate(ids, pad_token_id=0, **given)[0, ids.shape[1] :].tolist()


def test_a_greedy_search_chooses_every_token_of_its_own(gpt2_folder):
    chosen = own_choices(gpt2_folder, SAID[:2], 6)
    judge = models_on_cpu().likelihood(gpt2_folder)
    other = (*chosen[:3], (chosen[3] + 1) % 200)
    question = Question(SAID[:2], (tuple(chosen), other))
    [answer] = judge.answer([question], greedy=True)
    assert answer.continuations == ((1,) * 6, (1, 1, 1, 0))


def test_an_encoder_decoder_tells_it_too(tmp_path):
    folder = make_model(tmp_path, 'bart')
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    judge = models_on_cpu().likelihood(str(folder))
    context, response = 'tea rain', 'book song hill'
    inputs = tokenizer(context, return_tensors='pt')['input_ids']
    labels = tokenizer(response, return_tensors='pt')['input_ids']
    with torch.no_grad():
        logits = model(input_ids=inputs, labels=labels).logits
    [best] = logits.argmax(-1).tolist()
    texts = [*zip(best, labels[0].tolist(), strict=True)]
    [answer] = judge.answer([Question((context,), (response,))], greedy=True)
    assert answer.continuations[0] == tuple(float(a == b) for a, b in texts)
    # put the model's own choice first: that token is now a hit
    own = (best[0], *labels[0, 1:].tolist())
    [answer] = judge.answer([Question((context,), (own,))], greedy=True)
    assert answer.continuations[0][0] == 1


class Store(dict):
    put = dict.__setitem__


@pytest.mark.parametrize('watch', [NO_WATCH, Watch(kept=Store())])
def test_log_probabilities_come_back_after_a_greedy_question(gpt2_folder, watch):
    judge = models_on_cpu().likelihood(gpt2_folder)
    judge.watch = watch  # results that are kept are not mixed up either
    question = Question(SAID[:1], SAID[1:2])
    before = judge.answer([question])
    assert judge.answer([question], greedy=True) != before
    assert judge.answer([question]) == before


def test_the_share_of_tokens_that_are_the_likeliest(gpt2_folder):
    model, tokenizer = gpt2(gpt2_folder)
    items = [ScoringItem(SAID[:n], SAID[n]) for n in (1, 2)]
    scorer = TokenAccuracy.from_section(
        {'judge_model_file': gpt2_folder}, models_on_cpu()
    )
    for item, score in zip(items, scorer.checked_scores(items), strict=True):
        before = tokenizer.encode(''.join(text + END for text in item.context))
        ids = before + tokenizer.encode(item.response + END)
        with torch.no_grad():
            best = model(torch.tensor([ids])).logits[0].argmax(-1).tolist()
        hits = [best[i - 1] == ids[i] for i in range(len(before), len(ids))]
        assert score.values['Overall'] == pytest.approx(sum(hits) / len(hits))
