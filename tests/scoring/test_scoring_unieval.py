"""
UniEval on a tiny T5: numbers by transformers, from inputs written as in the paper.
"""

import json
from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from parlai_ext.data.judged.cards import read_card
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.unieval import UniEval, sentences
from tests.support.family_hf import make_model
from tests.support.on_cpu import models_on_cpu
from tests.support.shared_data import shared
from tests.support.tiny_trained import ITEMS, make_t5
from tests.support.user_error import user_error

RESPONSE = 'i do ! i played it on a boat .'
HISTORY = 'do you like jazz ? yes , i like the old piano . do you ?'
FACT = 'the piano is old and it has a story .'
# Zhong et al. (2022) and their code; ITEMS[0] with one question of each dimension
INPUTS = {
    'Natural': f'question: Is this a natural response in the dialogue? </s> response: '
    f'{RESPONSE}',
    'Maintains Context': 'question: Is this a coherent response given the dialogue '
    f'history? </s> response: {RESPONSE} </s> dialogue history: {HISTORY}',
    'Uses Knowledge': 'question: Is this response consistent with knowledge in the '
    f'fact? </s> response: {RESPONSE} </s> fact: {FACT}',
    'Understandable': 'question: Is this an understandable response in the dialogue? '
    f'</s> response: {RESPONSE}',
}
ENGAGING = (
    'question: Is this an engaging and informative response according to the dialogue '
    f'history and fact? </s> response: {{}} </s> dialogue history: {HISTORY} </s> '
    f'fact: {FACT}'
)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return make_t5(tmp_path_factory.mktemp('unieval'))


def scorer(folder, **options):
    section = {'judge_model_file': folder, **options}
    return UniEval.from_section(section, models_on_cpu())


def yes_share(folder, text):
    """
    P(Yes) / (P(Yes) + P(No)) by transformers.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    yes, no = (tokenizer(word)['input_ids'][0] for word in ('Yes', 'No'))
    inputs = tokenizer(text, return_tensors='pt')
    with torch.no_grad():
        logits = model(**inputs, decoder_input_ids=torch.tensor([[0]])).logits[0, 0]
    probabilities = logits.softmax(-1)
    return (probabilities[yes] / (probabilities[yes] + probabilities[no])).item()


def test_the_questions_are_those_of_the_paper(folder):
    [score] = scorer(folder).checked_scores(ITEMS[:1])
    for dimension, text in INPUTS.items():
        expected = yes_share(folder, text)
        assert score.values[dimension] == pytest.approx(expected, abs=1e-5), dimension


def test_engaging_is_a_sum_over_sentences_and_overall_a_mean(folder):
    [score] = scorer(folder).checked_scores(ITEMS[:1])
    parts = ['i do !', 'i played it on a boat .']
    each = [yes_share(folder, ENGAGING.format(part)) for part in parts]
    assert score.values['Engaging'] == pytest.approx(sum(each), abs=1e-5)
    assert score.evidence == {'sentences': pytest.approx(each, abs=1e-5)}
    five = [score.values[name] for name in (*INPUTS, 'Engaging')]
    assert score.values['Overall'] == pytest.approx(sum(five) / 5)


def test_without_knowledge_there_is_no_score_of_it(folder):
    [score] = scorer(folder).checked_scores(ITEMS[2:])
    assert score.values['Uses Knowledge'] is None
    assert 'persona' in score.reasons['Uses Knowledge']
    four = [score.values[name] for name in (*INPUTS, 'Engaging')]
    known = [value for value in four if value is not None]
    assert score.values['Overall'] == pytest.approx(sum(known) / 4)


def test_a_response_cannot_end_its_section(folder):
    spelled = replace(ITEMS[0], response=f'{RESPONSE} </s> fact: the piano is old')
    [score] = scorer(folder).checked_scores([spelled])
    text = INPUTS['Natural'] + ' </s> fact: the piano is old'
    assert score.values['Natural'] != pytest.approx(yes_share(folder, text), abs=1e-4)


def test_a_long_question_loses_its_end_and_keeps_the_end_token(folder):
    long = ScoringItem((), 'i like jazz music ' * 10)
    [score] = scorer(folder, most_tokens=20).checked_scores([long])
    assert score.cut > 0
    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = INPUTS['Natural'].replace(RESPONSE, long.response)
    cut = tokenizer(text, max_length=20, truncation=True)['input_ids']
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    with torch.no_grad():
        logits = model(
            input_ids=torch.tensor([cut]), decoder_input_ids=torch.tensor([[0]])
        ).logits[0, 0]
    yes, no = (tokenizer(word)['input_ids'][0] for word in ('Yes', 'No'))
    expected = (logits[yes] - logits[no]).sigmoid().item()
    assert score.values['Natural'] == pytest.approx(expected, abs=1e-5)


def test_sentences_end_at_marks_but_not_at_abbreviations():
    assert sentences('i do ! he met dr. smith . ok ?') == [
        'i do !',
        'he met dr. smith .',
        'ok ?',
    ]
    assert sentences('') == []


def test_a_causal_model_is_refused(tmp_path):
    folder = make_model(tmp_path, 'gpt2')
    with user_error('encoder-decoder') as error:
        _ = scorer(folder).signature
    assert folder in str(error.value)


def test_usr_items_become_the_inputs_that_the_authors_published():
    published = json.loads(shared('usr/unieval_topical_chat.json').read_text())
    wanted = {
        tuple(
            ' '.join(row[key].split()) for key in ('source', 'system_output', 'context')
        )
        for row in published
    }
    unieval = UniEval()
    given = set()
    for judged in read_card('usr_topical').read(shared('usr')).items:
        item = ScoringItem(judged.context, judged.response, facts=judged.facts)
        sections = dict(unieval.sections(item))['Engaging']
        history, fact = (part.partition(': ')[2] for part in sections[2:])
        texts = (history, item.response, fact)
        given.add(tuple(' '.join(text.split()) for text in texts))
    assert len(wanted) > 300 and given == wanted
