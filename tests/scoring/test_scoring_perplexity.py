"""
Perplexity and token accuracy of a response.
"""

import math

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from parlai_ext.core.machine import Machine
from parlai_ext.core.nouns import Question
from parlai_ext.core.watch import NO_WATCH, Watch
from parlai_ext.models.handle import ModelHandle
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.perplexity import Perplexity, TokenAccuracy
from tests.support.family_hf import make_model
from tests.support.fed_samples import END, gpt2, huggingface_loss, make_gpt2
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
    loss = huggingface_loss(folder, SAID[:2], SAID[2])
    section = {'judge_model_file': str(folder)}
    scorer = Perplexity.from_section(section, ModelHandle(Machine(no_cuda=True)))
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


def test_a_greedy_search_chooses_every_token_of_its_own(tmp_path):
    folder = make_gpt2(tmp_path)
    chosen = own_choices(folder, SAID[:2], 6)
    judge = ModelHandle(Machine(no_cuda=True)).likelihood(str(folder))
    other = (*chosen[:3], (chosen[3] + 1) % 200)
    question = Question(SAID[:2], (tuple(chosen), other))
    [answer] = judge.answer([question], greedy=True)
    assert answer.continuations == ((1,) * 6, (1, 1, 1, 0))


def test_an_encoder_decoder_tells_it_too(tmp_path):
    folder = make_model(tmp_path, 'bart')
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    judge = ModelHandle(Machine(no_cuda=True)).likelihood(str(folder))
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


def test_log_probabilities_come_back_after_a_greedy_question(tmp_path):
    judge = ModelHandle(Machine(no_cuda=True)).likelihood(str(make_gpt2(tmp_path)))
    question = Question(SAID[:1], SAID[1:2])
    before = judge.answer([question])
    assert judge.answer([question], greedy=True) != before
    assert judge.answer([question]) == before


def test_kept_results_of_both_questions_are_not_mixed_up(tmp_path):
    class Store(dict):
        put = dict.__setitem__

    judge = ModelHandle(Machine(no_cuda=True)).likelihood(str(make_gpt2(tmp_path)))
    judge.watch = Watch(kept=Store())
    question = Question(SAID[:1], SAID[1:2])
    before = judge.answer([question])
    assert judge.answer([question], greedy=True) != before
    judge.watch = NO_WATCH


def test_the_share_of_tokens_that_are_the_likeliest(tmp_path):
    folder = str(make_gpt2(tmp_path))
    model, tokenizer = gpt2(folder)
    items = [ScoringItem(SAID[:n], SAID[n]) for n in (1, 2)]
    scorer = TokenAccuracy.from_section(
        {'judge_model_file': folder}, ModelHandle(Machine(no_cuda=True))
    )
    for item, score in zip(items, scorer.checked_scores(items), strict=True):
        before = tokenizer.encode(''.join(text + END for text in item.context))
        ids = before + tokenizer.encode(item.response + END)
        with torch.no_grad():
            best = model(torch.tensor([ids])).logits[0].argmax(-1).tolist()
        hits = [best[i - 1] == ids[i] for i in range(len(before), len(ids))]
        assert score.values['Overall'] == pytest.approx(sum(hits) / len(hits))
