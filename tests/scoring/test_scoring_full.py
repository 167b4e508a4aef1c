"""
FULL: the formula of its released program on a small Blenderbot, and its two lists.
"""

import math

import pytest
import torch
from tokenizers import processors
from transformers import (
    BlenderbotConfig,
    BlenderbotForConditionalGeneration,
    PreTrainedTokenizerFast,
)

from parlai_ext.models.judge_names import judge_system
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.fed import Fed
from parlai_ext.scoring.followups import load_followups
from parlai_ext.scoring.full import JUDGE, Full
from parlai_ext.systems.hub import cached_weights
from tests.support.family_hf import draw
from tests.support.on_cpu import models_on_cpu
from tests.support.scoring_samples import KnownJudge, OneModel
from tests.support.tiny_models import sentences
from tests.support.tiny_trained import byte_tokenizer
from tests.support.user_error import user_error

SAID = ('Hi!', "Hi! What's up?", 'Nothing much, how about you')
TAB = ',hf_turn_separator="\\t"'


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """
    Write a tiny Blenderbot whose byte-level tokenizer ends every text, as the real one.
    """
    special = ['<s>', '<pad>', '</s>', '<unk>']
    inner = byte_tokenizer([*sentences(30), *SAID], special, 400, blank_before=True)
    inner.post_processor = processors.TemplateProcessing(
        single='$A </s>', special_tokens=[('</s>', 2)]
    )
    names = ('bos_token', 'pad_token', 'eos_token', 'unk_token')
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, **dict(zip(names, special, strict=True))
    )
    sizes = {
        f'{side}_{key}': value
        for side in ('encoder', 'decoder')
        for key, value in (('layers', 2), ('attention_heads', 2), ('ffn_dim', 32))
    }
    config = BlenderbotConfig(
        vocab_size=len(tokenizer),
        d_model=32,
        max_position_embeddings=128,
        bos_token_id=0,
        pad_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=0,
        **sizes,
    )
    model = BlenderbotForConditionalGeneration(config)
    draw(model, seed=1)
    path = tmp_path_factory.mktemp('blenderbot')
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def program_score(folder, utterances, followups):
    """
    Return the mean of exp(loss) as full/eval.py works it out, one pass a follow-up.
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
    return sum(map(math.exp, losses)) / len(losses)


def scored(judge, items, **options):
    section = {'judge_model_file': 'known', **options}
    return Full.from_section(section, OneModel(judge)).checked_scores(items)


@pytest.mark.parametrize('followups', ['full', 'full_released'])
def test_the_score_is_that_of_the_program(folder, followups):
    judge = f'hf:{folder}{TAB}'
    section = {'judge_model_file': judge, 'followups': followups}
    scorer = Full.from_section(section, models_on_cpu())
    texts = load_followups(followups).dimensions['Overall'].negative
    items = [ScoringItem(SAID[:n], SAID[n]) for n in range(3)]
    for n, score in enumerate(scorer.checked_scores(items)):
        expected = program_score(folder, SAID[: n + 1], texts)
        assert score.values['Overall'] == pytest.approx(expected, rel=1e-4)


def test_published_scores_of_the_real_model():
    # tests/test_full.py of the authors' repository
    if cached_weights('facebook/blenderbot-400M-distill') is None:
        pytest.skip("facebook/blenderbot-400M-distill is not in the hub's cache")
    more = (
        'Not much either.',
        'What are you doing',
        'Playing Terraria. What about you?',
    )
    more += ('Sitting in a meeting', 'What kind of meeting?', "Can't say")
    scorer = Full.from_section({'followups': 'full_released'}, models_on_cpu())
    context = (*SAID, *more)
    turn, dialogue = scorer.checked_scores(
        [
            ScoringItem(context, "It's probably boring, isn't it?"),
            ScoringItem(context, None),
        ]
    )
    assert turn.values['Overall'] == pytest.approx(27.56904637813568, rel=1e-4)
    assert dialogue.values['Overall'] == pytest.approx(31.083410263061523, rel=1e-4)


def test_perplexities_are_averaged():
    # losses 1, 1, 1, 1 and 3: (4 e + e^3) / 5
    def tell(context, text):
        return (-3.0, -3.0) if 'boring' in text else (-1.0,)

    [score] = scored(KnownJudge(tell), [ScoringItem(SAID[:1], SAID[1])])
    assert score.values['Overall'] == pytest.approx((4 * math.e + math.exp(3)) / 5)
    assert sorted(score.evidence) == [1, 1, 1, 1, 3]


def test_with_losses_it_is_fed_with_the_mean_of_complaints(folder):
    handle = models_on_cpu()
    items = [ScoringItem(SAID[:n], SAID[n]) for n in range(3)]
    common = {'followups': 'full', 'judge_model_file': f'hf:{folder}{TAB}'}
    full = Full.from_section({**common, 'reduction': 'loss'}, handle)
    fed = Fed.from_section({**common, 'followup_reduction': 'mean'}, handle)
    # FULL writes a separator before the first turn, FED does not
    empty = [ScoringItem(('', *item.context), item.response) for item in items]
    for one, other in zip(
        full.checked_scores(items), fed.checked_scores(empty), strict=True
    ):
        assert one.values == pytest.approx(other.values, rel=1e-5)


@pytest.mark.parametrize(('turns', 'n_read'), [(0, 6), (2, 3), (9, 6)])
def test_the_last_turns_before_the_response_are_read(turns, n_read):
    judge = KnownJudge(lambda context, text: (-1.0,))
    scored(judge, [ScoringItem(tuple('abcde'), 'f')], context_turns=turns)
    assert judge.questions[0].context == tuple('abcdef')[-n_read:]


def test_no_finite_probability_is_no_score():
    judge = KnownJudge(lambda context, text: (-math.inf,))
    [score] = scored(judge, [ScoringItem(SAID[:1], SAID[1])])
    assert (
        score.values == {'Overall': None} and 'probability' in score.reasons['Overall']
    )


def test_follow_ups_without_complaints_are_refused(tmp_path):
    path = tmp_path / 'praise.yaml'
    path.write_text('dimensions: {Wit: {positive: [Ha!]}}')
    with user_error('followups.*Wit'):
        Full.from_section({'followups': str(path)})


def test_the_default_judge_parts_turns_by_tabs():
    assert judge_system(JUDGE).opt['hf_turn_separator'] == '\t'
