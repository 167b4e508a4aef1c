"""
Likelihood, perplexity, token accuracy and FULL of a response: against transformers, by
pencil, and against FULL's released program on a small Blenderbot.
"""

import math

import pytest
import torch
from tokenizers import ByteLevelBPETokenizer, processors
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    BlenderbotConfig,
    BlenderbotForConditionalGeneration,
    PreTrainedTokenizerFast,
)

from parlai_ext.core import Question
from parlai_ext.models.handle import judge_system
from parlai_ext.models.watch import NO_WATCH, Watch
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.likelihood import FULL_JUDGE, Full, load_followups
from parlai_ext.systems.hub import cached_weights
from tests.support.causal_models import Kept
from tests.support.family_hf import BART, BEGIN, END, PAD, draw, make_model
from tests.support.fed_samples import huggingface_loss
from tests.support.on_cpu import models_on_cpu
from tests.support.scoring_samples import KnownJudge, overall, scores_of
from tests.support.tiny_models import sentences
from tests.support.user_error import user_error

SAID = ('Hi!', "Hi! What's up?", 'Nothing much, how about you')
ITEMS = [ScoringItem(SAID[:n], SAID[n]) for n in range(3)]
TAB = ',hf_turn_separator="\\t"'


def known_score(scorer, tell, **options):
    """
    Return the score of a response by a judge with known log-probabilities.
    """
    judge = KnownJudge(tell if callable(tell) else lambda *_: tell)
    return scores_of(scorer, ITEMS[2:], judge, **options)[0]


# --- likelihood and perplexity --------------------------------------------------------


@pytest.mark.parametrize('item', ITEMS)
def test_scores_are_of_the_loss_of_transformers(gpt2_folder, item):
    loss = huggingface_loss(gpt2_folder, item.context, item.response)
    for scorer, value in (('likelihood', -loss), ('perplexity', -math.exp(loss))):
        found = overall(
            scorer, item.response, context=item.context, judge_model_file=gpt2_folder
        )
        assert found == pytest.approx(value, rel=1e-3)


def test_what_the_context_adds():
    # means of -1 after the context, of -4 without one
    def tell(context, text):
        return (-1.5, -0.5) if context else (-4.0, -4.0)

    score = known_score('likelihood', tell, less='no_context')
    assert score.values == {'Likelihood': pytest.approx(3)}
    assert score.evidence == {'tokens': 2}


@pytest.mark.parametrize(
    'scorer, logprobs, why',
    [
        ('likelihood', (), 'probability'),
        ('likelihood', (-1.0, -math.inf), 'probability'),
        ('perplexity', (), 'probability'),
        ('perplexity', (-1e4,), 'too large'),
        ('full', (-math.inf,), 'probability'),
    ],
)
def test_what_is_no_number_is_no_score(scorer, logprobs, why):
    score = known_score(scorer, logprobs)
    [(dimension, value)] = score.values.items()
    assert value is None and why in score.reasons[dimension]


@pytest.mark.parametrize('turns, n_read', [(0, 5), (2, 2), (9, 5)])
def test_turns_of_the_context_that_are_read(turns, n_read):
    for scorer, n_more in (('likelihood', 0), ('full', 1)):  # FULL reads the response
        judge = KnownJudge(lambda *_: (-1.0,))
        item = ScoringItem(tuple('abcde'), 'f')
        scores_of(scorer, [item], judge, context_turns=turns)
        read = tuple('abcdef'[5 - n_read : 5 + n_more])
        assert judge.questions[0].context == read


# --- token accuracy -------------------------------------------------------------------


@pytest.mark.parametrize('kind', ['gpt2', 'bart'])
def test_a_greedy_search_chooses_every_token_of_its_own(tmp_path, kind):
    folder = make_model(tmp_path, kind)
    auto = AutoModelForCausalLM if kind == 'gpt2' else AutoModelForSeq2SeqLM
    ids = AutoTokenizer.from_pretrained(folder)('tea rain', return_tensors='pt')
    # by transformers, after the context or the start token
    found = auto.from_pretrained(folder).generate(
        **ids, do_sample=False, min_new_tokens=4, max_new_tokens=4, pad_token_id=0
    )
    chosen = tuple(found[0, -4:].tolist())
    other = (*chosen[:3], (chosen[3] + 1) % 30)
    judge = models_on_cpu().likelihood(folder)
    context = tuple(ids['input_ids'][0].tolist()) if kind == 'gpt2' else ('tea rain',)
    [answer] = judge.answer([Question(context, (chosen, other))], greedy=True)
    assert answer.continuations == ((1,) * 4, (1, 1, 1, 0))


def test_token_accuracy_is_the_share_of_hits():
    class Hits(KnownJudge):
        def answer(self, questions, greedy):
            return super().answer(questions)

    scores = scores_of('token_accuracy', ITEMS, Hits(lambda *_: (1.0, 0.0, 1.0)))
    assert [score.values['Overall'] for score in scores] == [pytest.approx(2 / 3)] * 3


@pytest.mark.parametrize('watch', [NO_WATCH, Watch(kept=Kept())])
def test_log_probabilities_come_back_after_a_greedy_question(gpt2_folder, watch):
    judge = models_on_cpu().likelihood(gpt2_folder)
    judge.watch = watch  # results that are kept are not mixed up either
    question = Question(SAID[:1], SAID[1:2])
    before = judge.answer([question])
    assert judge.answer([question], greedy=True) != before
    assert judge.answer([question]) == before


# --- FULL -----------------------------------------------------------------------------


@pytest.fixture(scope='module')
def folder(module_folder):
    """
    Write a tiny Blenderbot whose byte-level tokenizer ends every text, as the real one.
    """
    inner = ByteLevelBPETokenizer(add_prefix_space=True)
    special = [PAD, BEGIN, END]
    inner.train_from_iterator([*sentences(30), *SAID], 400, 0, special_tokens=special)
    inner.post_processor = processors.TemplateProcessing(
        single=f'$A {END}', special_tokens=[(END, 2)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token=PAD, bos_token=BEGIN, eos_token=END
    )
    config = BlenderbotConfig(vocab_size=len(tokenizer), **BART)
    model = BlenderbotForConditionalGeneration(config)
    draw(model, seed=1)
    model.save_pretrained(module_folder)
    tokenizer.save_pretrained(module_folder)
    return module_folder


def program_losses(folder, utterances, followups):
    """
    Return the loss of each follow-up as full/eval.py works it out, one pass each.
    """
    model = BlenderbotForConditionalGeneration.from_pretrained(folder).eval()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    dialogue = ''.join(f'\t{text}' for text in utterances)
    ids = tokenizer(dialogue, return_tensors='pt')['input_ids']
    losses = []
    for text in followups:
        labels = tokenizer(text, return_tensors='pt')['input_ids']
        with torch.no_grad():
            losses.append(float(model(input_ids=ids, labels=labels).loss))
    return losses


@pytest.mark.parametrize('followups', ['full', 'full_released'])
def test_the_score_is_that_of_the_program(folder, followups):
    options = {'judge_model_file': f'hf:{folder}{TAB}', 'followups': followups}
    texts = load_followups(followups).dimensions['Overall'].negative
    for n, score in enumerate(scores_of('full', ITEMS, **options), 1):
        losses = program_losses(folder, SAID[:n], texts)
        assert score.evidence == pytest.approx(losses, rel=1e-4)
        expected = sum(map(math.exp, losses)) / len(losses)
        assert score.values['Overall'] == pytest.approx(expected, rel=1e-4)


def test_published_scores_of_the_real_model():
    # tests/test_full.py of the authors' repository
    if cached_weights('facebook/blenderbot-400M-distill') is None:
        pytest.skip("facebook/blenderbot-400M-distill is not in the hub's cache")
    context = (
        *SAID,
        'Not much either.',
        'What are you doing',
        'Playing Terraria. What about you?',
        'Sitting in a meeting',
        'What kind of meeting?',
        "Can't say",
    )
    responses = ("It's probably boring, isn't it?", None)
    items = [ScoringItem(context, response) for response in responses]
    scores = scores_of('full', items, followups='full_released')
    assert [score.values['Overall'] for score in scores] == pytest.approx(
        [27.56904637813568, 31.083410263061523], rel=1e-4
    )


def test_with_losses_it_is_fed_with_the_mean_of_complaints(gpt2_folder):
    common = {'followups': 'full', 'judge_model_file': str(gpt2_folder)}
    full = scores_of('full', ITEMS, **common, reduction='loss')
    # to a decoder-only judge FULL writes no separator before the first turn either
    fed = scores_of('fed', ITEMS, **common, followup_reduction='mean')
    for one, other in zip(full, fed, strict=True):
        assert one.values == pytest.approx(other.values, rel=1e-5)


def test_follow_ups_without_complaints_are_refused(tmp_path):
    path = tmp_path / 'praise.yaml'
    path.write_text('dimensions: {Wit: {positive: [Ha!]}}')
    with user_error('followups.*Wit'):
        Full.from_section({'followups': str(path)})


def test_the_default_judge_parts_turns_by_tabs():
    assert judge_system(FULL_JUDGE).opt['hf_turn_separator'] == '\t'
