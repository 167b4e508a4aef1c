"""
BLEU-2 against one reference or several.
"""

import math
import statistics

import pytest
from scipy import stats

from parlai_ext.data.judged.cards import read_card
from parlai_ext.scoring import references
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.bleu import Bleu2
from tests.support.shared_data import shared
from tests.support.user_error import user_error

sacrebleu = pytest.importorskip('sacrebleu', reason='the extra metrics is needed')
WORDS = {'setting': 'words'}


def item_score(response, texts, **options):
    scorer = Bleu2.from_section(options)
    [score] = scorer.checked_scores([ScoringItem((), response, references=texts)])
    return score


def bleu(response, *texts, **options):
    return item_score(response, texts, **options).values['Overall']


def test_words_by_pencil():
    # 3 of 4 words and 1 of 3 pairs (the-cat) are in the reference, lengths are equal
    score = bleu('The cat sat here', 'the cat is here', **WORDS)
    assert score == pytest.approx(100 * math.sqrt(3 / 4 * 1 / 3))


def test_a_short_response_is_penalised_by_pencil():
    # all is right, 2 words against 4: exp(1 - 4/2)
    score = bleu('the cat', 'the cat is here', **WORDS)
    assert score == pytest.approx(100 * math.exp(1 - 4 / 2))


def test_without_a_common_pair_words_gives_nothing_and_sacrebleu_something():
    assert bleu('cat the', 'the cat', **WORDS) == 0
    assert bleu('cat the', 'the cat') > 0


def test_the_default_is_the_sentence_bleu_of_the_library():
    response, reference = 'I am fine, thanks.', 'I am very well, thanks!'
    library = sacrebleu.metrics.BLEU(max_ngram_order=2, effective_order=True)
    expected = library.sentence_score(response, [reference]).score
    assert bleu(response, reference) == pytest.approx(expected)


def test_several_references_the_best_one_counts_and_is_named():
    score = item_score('so do i', ('not me', 'so do i', 'me too'), **WORDS)
    assert score.values['Overall'] == pytest.approx(100)
    assert score.evidence == {'reference': 1}


def test_references_together_give_their_ngrams_together():
    # 'a b c' has all of its words and pairs in the two, and no one has both pairs
    texts = ('x a b', 'b c x')
    assert bleu('a b c', *texts, references='together', **WORDS) == pytest.approx(100)
    assert bleu('a b c', *texts, **WORDS) == pytest.approx(
        100 * math.sqrt(2 / 3 * 1 / 2)
    )


@pytest.mark.parametrize(
    ('response', 'texts', 'lacking'),
    [
        ('', ('a',), 'response'),
        (' ', ('a',), 'response'),
        ('a', (), 'reference'),
        ('a', ('', ' '), 'reference'),
    ],
)
def test_no_response_or_no_reference_is_no_score(response, texts, lacking):
    score = item_score(response, texts)
    assert score.values == {'Overall': None}
    assert lacking in score.reasons['Overall']


def test_setting_and_version_are_in_the_signature():
    lines = [Bleu2.from_section(section).signature for section in ({}, WORDS)]
    assert lines[0] != lines[1]
    assert all(f'sacrebleu:{sacrebleu.__version__}' in line for line in lines)


def test_without_the_library_one_line_says_what_to_install(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(references, 'import_module', missing)
    with user_error(r'sacrebleu: pip install'):
        Bleu2.from_section({})


def test_topical_chat_gives_the_published_correlations():
    # PairEval (Park et al. 2024), Table 1: BLEU-2 on TopicalChat-USR 45.9/46.2
    path = shared('usr/dstc10_format/topical-usr_eval.json')
    judged = read_card('usr_topical').read(path).items
    scorer = Bleu2.from_section(WORDS)
    scores = scorer.checked_scores(
        [ScoringItem(i.context, i.response, references=i.references) for i in judged]
    )
    values = [score.values['Overall'] for score in scores]
    people = [
        statistics.fmean(a.value for a in i.annotations['Overall']) for i in judged
    ]
    assert len(values) == 360
    assert 100 * stats.pearsonr(values, people)[0] == pytest.approx(45.9, abs=0.05)
    assert 100 * stats.spearmanr(values, people)[0] == pytest.approx(46.2, abs=0.05)
