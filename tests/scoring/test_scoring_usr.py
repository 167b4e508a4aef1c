"""
USR on tiny RoBERTas: each term by transformers, from inputs as in the authors' files.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression
from transformers import RobertaForMaskedLM, RobertaForSequenceClassification

from parlai_ext.scoring.usr import INTERCEPT, NORMS, Usr, overall, split_words
from tests.support.on_cpu import models_on_cpu
from tests.support.tiny_trained import (
    ITEMS,
    make_roberta,
    roberta_tokenizer,
)
from tests.support.user_error import user_error

KINDS = {
    'masked_lm': (RobertaForMaskedLM, {}),
    'context_classifier': (RobertaForSequenceClassification, {'num_labels': 2}),
    'knowledge_classifier': (RobertaForSequenceClassification, {'num_labels': 2}),
}
# ITEMS[0] as the lines of undr/test.lm, both/dev.tsv and fct/dev.tsv are
BEFORE = 'yes , i like the old piano . do you ? _eos'
RESPONSE = '_go i do ! i played it on a boat . _eos'
FACT = 'the piano is old and it has a story . _eos'


@pytest.fixture(scope='module')
def folders(tmp_path_factory):
    home = tmp_path_factory.mktemp('usr')
    return {
        name: make_roberta(home / name, kind, seed, **config)
        for seed, (name, (kind, config)) in enumerate(KINDS.items())
    }


def scores(folders, items, **options):
    usr = Usr.from_section({**folders, **options}, models_on_cpu())
    return usr.checked_scores(items)


def masked_logprobs(folders, ids):
    """
    The log-probability of each token but the first and the last, by transformers.
    """
    model = RobertaForMaskedLM.from_pretrained(folders['masked_lm']).eval()
    logprobs = []
    for place in range(1, len(ids) - 1):
        hidden = torch.tensor([ids])
        hidden[0, place] = roberta_tokenizer().mask_token_id
        with torch.no_grad():
            row = model(hidden).logits[0, place].log_softmax(-1)
        logprobs.append(row[ids[place]].item())
    return logprobs


def right_share(folder, first):
    model = RobertaForSequenceClassification.from_pretrained(folder).eval()
    inputs = roberta_tokenizer()(first, RESPONSE, return_tensors='pt')
    with torch.no_grad():
        return model(**inputs).logits.softmax(-1)[0, 1].item()


def test_the_terms_are_those_of_the_authors_code(folders):
    [score] = scores(folders, ITEMS[:1])
    ids = roberta_tokenizer()(f'{BEFORE} {RESPONSE}')['input_ids']
    logprobs = masked_logprobs(folders, ids)
    expected = [
        sum(logprobs) / len(logprobs),
        right_share(folders['context_classifier'], f'{BEFORE} {FACT}'),
        right_share(folders['knowledge_classifier'], FACT),
    ]
    assert score.evidence == pytest.approx(expected, abs=1e-5)
    assert score.values['Natural'] == pytest.approx(expected[0], abs=1e-5)
    assert score.values['Engaging'] == pytest.approx(expected[1], abs=1e-5)
    assert score.values['Uses Knowledge'] == pytest.approx(expected[2], abs=1e-5)


def test_only_the_response_is_hidden_on_request(folders):
    [score] = scores(folders, ITEMS[:1], hidden='response')
    tokenizer = roberta_tokenizer()
    ids = tokenizer(f'{BEFORE} {RESPONSE}')['input_ids']
    n = len(tokenizer(f' {RESPONSE}', add_special_tokens=False)['input_ids'])
    logprobs = masked_logprobs(folders, ids)[-n:]
    assert score.evidence[0] == pytest.approx(sum(logprobs) / n, abs=1e-5)


def test_the_last_hundred_tokens_are_read(folders):
    item = replace(ITEMS[0], context=('i like jazz music , ' * 20,))
    [score] = scores(folders, [item])
    text = f'{" ".join(item.context[0].split())} _eos {RESPONSE}'
    ids = roberta_tokenizer()(text)['input_ids']
    logprobs = masked_logprobs(folders, ids[-100:])
    assert score.evidence[0] == pytest.approx(sum(logprobs) / 98, abs=1e-5)
    assert score.cut == len(ids) - 101  # the begin token is none of the text's


def test_average_terms_predict_the_intercept():
    terms = {term: mean for term, (mean, _) in NORMS.items()}
    assert overall(terms) == pytest.approx(INTERCEPT)
    # one standard deviation of MLM: the coefficients of the two qualities it predicts
    terms['MLM'] += NORMS['MLM'][1]
    assert overall(terms) == pytest.approx(INTERCEPT + 0.66011 + 0.40353, abs=1e-5)


def test_the_regression_is_that_of_scikit_learn_with_the_authors_coefficients():
    terms = {'MLM': -0.7196698188781738, 'DR-c': 0.9959796667098999, 'DR-x': 0.9}
    model = LinearRegression()
    model.coef_ = np.array([0.66011, 0.40353, 0.51328, 0.96053, 0.35643])
    model.intercept_ = 3.59748
    order = ('MLM', 'MLM', 'DR-c', 'DR-c', 'DR-x')
    row = [(terms[term] - NORMS[term][0]) / NORMS[term][1] for term in order]
    assert overall(terms) == pytest.approx(model.predict([row])[0], abs=1e-4)


def test_without_knowledge_the_models_read_the_word_for_none(folders):
    [score] = scores(folders, ITEMS[2:])
    named = replace(ITEMS[2], facts='_nofact')
    [expected] = scores(folders, [named])
    assert score.values['Uses Knowledge'] is None
    assert 'persona' in score.reasons['Uses Knowledge']
    assert score.values['Overall'] == expected.values['Overall']


def test_a_classifier_of_other_labels_is_refused(tmp_path, folders):
    three = make_roberta(tmp_path, RobertaForSequenceClassification, num_labels=3)
    with user_error('two labels') as error:
        scores({**folders, 'context_classifier': three}, ITEMS)
    assert three in str(error.value)


def test_words_are_split_as_in_the_training_data():
    # a line of the authors' undr/test.lm, put together again
    text = "i wonder if bowling is more popular in the 60's than football. isn't it?"
    assert split_words(text) == (
        "i wonder if bowling is more popular in the 60 's than football . is n't it ?"
    )
