"""
DEnsity on a tiny BERT: features by transformers, distances by scikit-learn.
"""

from functools import cache

import numpy as np
import pytest
import torch
from sklearn.covariance import EmpiricalCovariance
from transformers import BertModel

from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.trained_metrics import (
    Density,
    read_statistics,
    squared_distances,
    write_statistics,
)
from tests.support.on_cpu import models_on_cpu
from tests.support.scoring_samples import scores_of
from tests.support.tiny_trained import (
    TEXTS,
    bert_tokenizer,
    make_bert,
)
from tests.support.user_error import user_error
from tests.support.written import written

WORDS = [word for text in TEXTS for word in text.split() if not word.startswith('_')]
DRAW = np.random.default_rng(0)
PEOPLE = [
    [' '.join(DRAW.choice(WORDS, DRAW.integers(2, 7))) for _ in range(4)]
    for _ in range(20)
]
TURN = ScoringItem(tuple(PEOPLE[0][:3]), 'i like music')


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return make_bert(tmp_path_factory.mktemp('density'))


@pytest.fixture
def options(folder, tmp_path):
    rows = [
        {'dialog': [[{'id': 'ab'[i % 2], 'text': t} for i, t in enumerate(texts)]]}
        for texts in PEOPLE
    ]
    return {
        'encoder': folder,
        'statistics': str(tmp_path / 'statistics.npz'),
        'human_dialogues': str(written(tmp_path, 'people.jsonl', rows)),
        'most_tokens': 60,
    }


def scores(options, *items):
    return scores_of('density', items, **options)


@cache
def bert(folder):
    return BertModel.from_pretrained(folder).eval(), bert_tokenizer()


def feature(folder, context, response):
    """
    The last hidden state of [CLS], all tokens in one segment, by transformers.
    """
    model, tokenizer = bert(folder)
    inputs = tokenizer('[SEPT]'.join(context), response, return_tensors='pt')
    with torch.no_grad():
        states = model(inputs['input_ids'], inputs['attention_mask'])
    return states.last_hidden_state[0, 0].numpy().astype(float)


def squared(row, mean, precision):
    return float((row - mean) @ precision @ (row - mean))


def test_distances_are_those_of_scikit_learn(tmp_path):
    rows = DRAW.normal(size=(40, 5)) @ DRAW.normal(size=(5, 5)) + 3
    write_statistics(tmp_path / 's.npz', rows)
    mean, precision = read_statistics(tmp_path / 's.npz')
    expected = EmpiricalCovariance().fit(rows).mahalanobis(rows)
    assert squared_distances(rows, mean, precision) == pytest.approx(list(expected))


def test_a_direction_in_which_people_do_not_differ_is_ignored(tmp_path):
    rows = DRAW.normal(size=(40, 3))
    rows[:, 2] = 1 + DRAW.normal(size=40) * 1e-7  # what rounding leaves
    write_statistics(tmp_path / 's.npz', rows)
    mean, precision = read_statistics(tmp_path / 's.npz')
    same = EmpiricalCovariance().fit(rows[:, :2]).mahalanobis(rows[:, :2])
    moved = rows + [0, 0, 5]
    assert squared_distances(moved, mean, precision) == pytest.approx(list(same))


def test_the_score_is_minus_the_distance_from_people(folder, options):
    whole = ScoringItem(tuple(PEOPLE[1]), None)
    score, mean_score = (one.values['Overall'] for one in scores(options, TURN, whole))
    pairs = [(texts[:i], texts[i]) for texts in PEOPLE for i in (1, 2, 3)]
    rows = np.array([feature(folder, *pair) for pair in pairs])
    mean, precision = read_statistics(options['statistics'])
    assert mean == pytest.approx(rows.mean(0), abs=1e-5)
    row = feature(folder, TURN.context, TURN.response)
    assert score == pytest.approx(-(squared(row, mean, precision) ** 0.5), rel=1e-3)
    # a dialogue has the mean of squared distances, here of the second of people's
    each = [squared(row, mean, precision) for row in rows[3:6]]
    assert mean_score == pytest.approx(-(np.mean(each) ** 0.5), rel=1e-3)


def test_a_persona_stands_before_the_context(folder, options):
    given = ScoringItem(('i like jazz',), 'do you ?', persona=('i have a boat',))
    plain = ScoringItem(('i have a boat', 'i like jazz'), 'do you ?')
    one, other = scores(options, given, plain)
    assert one.values == other.values


def test_a_long_context_loses_its_beginning(options):
    long = ScoringItem((*['i like music'] * 40, 'do you ?'), 'yes')
    short = ScoringItem((*['i like music'] * 30, 'do you ?'), 'yes')
    one, other = scores(options, long, short)
    assert one.values == other.values
    assert one.cut - other.cut == 10 * 4  # three words and a token between turns


def test_without_context_there_is_no_score(options):
    [score] = scores(options, ScoringItem((), 'yes'))
    assert score.values['Overall'] is None and 'context' in score.reasons['Overall']


def test_statistics_are_made_once_and_signed(folder, options, tmp_path):
    first = Density.from_section(options, models_on_cpu()).signature
    without = {key: options[key] for key in ('encoder', 'statistics', 'most_tokens')}
    assert Density.from_section(without, models_on_cpu()).signature == first
    rows = DRAW.normal(size=(40, 16))
    write_statistics(tmp_path / 'statistics.npz', rows)
    assert Density.from_section(without, models_on_cpu()).signature != first


@pytest.mark.parametrize('missing', ['encoder', 'statistics'])
def test_what_is_missing_is_one_line(options, missing):
    given = {key: value for key, value in options.items() if key != missing}
    with user_error(f'{missing}: '):
        scores(given, TURN)


def test_a_file_that_holds_no_statistics_is_named(options, tmp_path):
    (tmp_path / 'statistics.npz').write_text('mean')
    with user_error(r'statistics\.npz'):
        scores(options, TURN)


def test_an_encoder_without_the_token_between_turns_is_refused(options, encoder_folder):
    with user_error(r'\[SEPT\]'):
        scores({**options, 'encoder': encoder_folder}, TURN)
