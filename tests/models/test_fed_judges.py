"""
FED in the bipartite paper's way on both kinds of judges, against one pass a follow-up.
"""

import json
from dataclasses import asdict
from itertools import product

import pytest
import torch
from parlai.scripts.eval_model import EvalModel
from scipy import stats

from parlai_ext.commands import plugin
from parlai_ext.models.parlai_likelihood import load_judge
from parlai_ext.scoring.followups import FollowUps, Sides
from tests.support.fed_samples import by_hand, gpt2
from tests.support.judged_samples import written
from tests.support.scoring_samples import judge_contexts, known_fed
from tests.support.tiny_models import make_generator

OWN = FollowUps(
    {
        'Wit': Sides(('Ha, that was good!', 'I like it.'), ("You're no fun.",)),
        'Sense': Sides((), ('What do you mean?', "That's  nonsense")),
    }
)
SAID = ('Hi!', "Hey, what's up?", 'Not much.')
WAYS = [
    {'polarity': polarity, 'token_reduction': token, 'followup_reduction': over}
    for polarity, token, over in product(
        ('negative', 'positive', 'both'), ('mean', 'sum'), ('sum', 'mean')
    )
]


def put_together(rows, polarity, token_reduction, followup_reduction):
    """
    Return Equation 1 from the log-probabilities of each follow-up's tokens.
    """

    def reduced(numbers, how):
        return sum(numbers) / (len(numbers) if how == 'mean' and numbers else 1)

    found = {}
    for name, sides in OWN.dimensions.items():
        ds = [
            [reduced(rows[text], token_reduction) for text in texts]
            for texts in (sides.positive, sides.negative)
        ]
        positive, negative = (reduced(one, followup_reduction) for one in ds)
        found[name] = {
            'both': positive - negative,
            'positive': positive if sides.positive else None,
            'negative': -negative,
        }[polarity]
    return found


def followups():
    return [t for s in OWN.dimensions.values() for t in (*s.positive, *s.negative)]


@pytest.fixture(scope='module')
def causal(gpt2_folder):
    return load_judge(f'hf:{gpt2_folder}', dtype='float64', no_cuda=True)


def one_pass_each(folder, with_context):
    """
    Return each follow-up's log-probabilities, every turn closed by the end token.

    :param with_context: those of the context's tokens too, but for the first.
    """
    model, tokenizer = gpt2(folder)
    end = [tokenizer.eos_token_id]
    context = [token for text in SAID for token in tokenizer.encode(text) + end]
    found = {}
    for text in followups():
        ids = torch.tensor([context + tokenizer.encode(text) + end])
        with torch.no_grad():
            logprobs = model(ids).logits.log_softmax(-1)[0, :-1]
        rows = logprobs.gather(1, ids[0, 1:, None])[:, 0].tolist()
        found[text] = rows if with_context else rows[len(context) - 1 :]
    return found


@pytest.mark.parametrize('scope', ['followup', 'whole'])
def test_decoder_only_judges_give_these_numbers(gpt2_folder, causal, scope):
    rows = one_pass_each(gpt2_folder, scope == 'whole')
    for way in WAYS:
        [item_score] = judge_contexts(
            known_fed(causal, OWN, **way, scope=scope), [SAID]
        )
        expected = put_together(rows, **way)
        assert item_score.values == pytest.approx(expected, abs=1e-9), way


def test_encoder_decoder_judges_give_these_numbers(tmp_path):
    path = make_generator(tmp_path, label_truncate=64)
    judge = load_judge(path, no_cuda=True, dtype='float64')
    rows = {}
    for text in followups():
        # one context, one follow-up: a batch of one has nothing to share
        alone = FollowUps({'X': Sides((), (text,))})
        fed = known_fed(judge, alone, token_reduction='sum')
        [answer] = fed.judge.answer([fed._question(SAID)])
        rows[text] = list(answer.continuations[0])
    for way in WAYS:
        [item_score] = judge_contexts(known_fed(judge, OWN, **way), [SAID])
        expected = put_together(rows, **way)
        assert item_score.values == pytest.approx(expected, abs=1e-9), way


@pytest.mark.parametrize('batchsize', [1, 3])
def test_eval_model_prints_the_correlations_of_the_originals_numbers(
    tmp_path, gpt2_folder, batchsize, capsys
):
    plugin.register()
    said = [list(SAID[:n]) for n in (1, 2, 3)] + [['No.', 'Why not?'], ['Oh well']]
    human = [2, 0, 1, 2, 1]
    judged = written(
        tmp_path,
        *(
            {
                'context': '\n'.join(f'User: {text}' for text in one),
                'system': 'Meena',
                'annotations': {'Wit': [value, 'N/A']},
            }
            for one, value in zip(said, human, strict=True)
        ),
    )
    followups = tmp_path / 'own.json'
    followups.write_text(json.dumps({'turn': {'wit': asdict(OWN.dimensions['Wit'])}}))
    report = EvalModel.main(
        model='ext:fed',
        task='ext:judged:fed_dialogue',
        judged_file=judged,
        judge_model_file=f'hf:{gpt2_folder}',
        followups=str(followups),
        fed_variant='original',
        batchsize=batchsize,
        no_cuda=True,
    )
    expected = [by_hand(gpt2_folder, one, OWN)['Wit'] for one in said]
    found = {key: report[f'Wit/{key}'].value() for key in ('spearman', 'pearson')}
    assert found == {
        'spearman': pytest.approx(stats.spearmanr(expected, human).statistic, abs=1e-9),
        'pearson': pytest.approx(stats.pearsonr(expected, human).statistic, abs=1e-4),
    }
    counts = [report[f'Wit/{key}'].value() for key in ('n', 'dropped', 'strings')]
    assert counts == [5, 0, 5]
    assert 'spearman_low' in capsys.readouterr().out
