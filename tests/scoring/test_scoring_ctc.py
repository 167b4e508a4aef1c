"""
CTC on a tiny RoBERTa: the aligner computed from hidden states, word by word.
"""

import numpy as np
import pytest
import torch
from transformers import RobertaConfig, RobertaForTokenClassification

from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.ctc import Ctc, clean_text
from tests.support.on_cpu import models_on_cpu
from tests.support.tiny_trained import (
    ITEMS,
    make_roberta,
    roberta_tokenizer,
)
from tests.support.user_error import user_error

RESPONSE = 'i do ! i played it on a boat .'
HISTORY = 'do you like jazz ?\nyes , i like the old piano . do you ?'
FACT = 'the piano is old and it has a story .'
COUNTED = {'!', 'played', 'boat', '.'}  # the words of it that are no stop words


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    home = tmp_path_factory.mktemp('ctc')
    return make_roberta(home, RobertaForTokenClassification, num_labels=2)


def scores(items, **options):
    return Ctc.from_section(options, models_on_cpu()).checked_scores(items)


def supported(folder, context):
    """
    P(supported) of each word: the tokens' last hidden states are added, then classified
    (Deng et al. 2021, DiscriminativeAligner).
    """
    model = RobertaForTokenClassification.from_pretrained(folder).eval()
    tokenizer = roberta_tokenizer()
    inputs = tokenizer(RESPONSE, context, return_tensors='pt')
    tokens = tokenizer.convert_ids_to_tokens(tokenizer(RESPONSE)['input_ids'])[1:-1]
    begins = [i == 0 or token.startswith('Ġ') for i, token in enumerate(tokens)]
    word_of_token = np.cumsum(begins) - 1
    with torch.no_grad():
        states = model.roberta(**inputs).last_hidden_state[0, 1:]
        sums = torch.zeros(word_of_token[-1] + 1, states.shape[1])
        for state, word in zip(states, word_of_token, strict=False):
            sums[word] += state
        return model.classifier(sums).softmax(-1)[:, 0].tolist()


def test_the_score_adds_the_words_that_are_no_stop_words(folder):
    [score] = scores(ITEMS[:1], engaging_model=folder, knowledge_model=folder)
    for dimension, context in (
        ('Engaging', f'{FACT}\n\n\n{HISTORY}'),
        ('Uses Knowledge', FACT),
    ):
        words = supported(folder, context)
        assert score.evidence[dimension] == pytest.approx(words, abs=1e-5)
        pairs = zip(RESPONSE.split(), words, strict=True)
        expected = sum(value for word, value in pairs if word in COUNTED)
        assert score.values[dimension] == pytest.approx(expected, abs=1e-5)


def test_stop_words_count_on_request(folder):
    [score] = scores(ITEMS[:1], knowledge_model=folder, stop_words='counted')
    expected = sum(supported(folder, FACT))
    assert score.values['Uses Knowledge'] == pytest.approx(expected, abs=1e-5)


def test_a_checkpoint_of_the_authors_has_the_same_scores(folder, tmp_path):
    model = RobertaForTokenClassification.from_pretrained(folder)
    weights = {f'_{name}': weight for name, weight in model.state_dict().items()}
    torch.save(weights, tmp_path / 'pytorch_model.bin')
    RobertaConfig.from_pretrained(folder, architectures=None).save_pretrained(tmp_path)
    roberta_tokenizer().save_pretrained(tmp_path)
    [score] = scores(ITEMS[:1], knowledge_model=str(tmp_path))
    [expected] = scores(ITEMS[:1], knowledge_model=folder)
    assert score.values == expected.values


def test_a_dimension_without_a_model_or_knowledge_has_a_reason(folder):
    [score] = scores(ITEMS[2:], knowledge_model=folder)
    assert score.values == {'Engaging': None, 'Uses Knowledge': None}
    assert score.reasons['Engaging'] != score.reasons['Uses Knowledge']


def test_a_response_without_words_has_no_score(folder):
    [score] = scores([ScoringItem(('hi',), ' ')], engaging_model=folder)
    assert score.values['Engaging'] is None and 'word' in score.reasons['Engaging']


def test_a_long_response_loses_its_end(folder, monkeypatch):
    monkeypatch.setattr('parlai_ext.scoring.ctc.MOST_TOKENS', 6)
    [score] = scores(ITEMS[:1], knowledge_model=folder)
    assert score.cut > 0
    assert len(score.evidence['Uses Knowledge']) < len(RESPONSE.split())


def test_neither_order_nor_company_changes_a_score(folder):
    together = scores(ITEMS, engaging_model=folder)
    alone = [scores([item], engaging_model=folder)[0] for item in ITEMS[::-1]]
    for one, other in zip(together[::-1], alone, strict=True):
        value = other.values['Engaging']
        assert one.values['Engaging'] == pytest.approx(value, abs=1e-5)


def test_no_model_is_one_line():
    with user_error('engaging_model'):
        scores(ITEMS)


def test_texts_are_cleaned_as_for_the_training():
    assert clean_text(' It’s  “Jazz” \n Yes ') == 'it\'s "jazz" \n yes'
