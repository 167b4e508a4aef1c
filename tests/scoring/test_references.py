"""
BLEU-2, ROUGE-L and METEOR against one reference or several.
"""

import math
import statistics

import pytest
from scipy import stats

from parlai_ext.data.judged.cards import read_card
from parlai_ext.scoring import references
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.registry import find_scorer
from tests.support.scoring_samples import overall, scores_of
from tests.support.shared_data import shared
from tests.support.tiny_wordnet import write_wordnet
from tests.support.user_error import user_error

sacrebleu = pytest.importorskip('sacrebleu', reason='the extra metrics is needed')
pytest.importorskip('rouge_score', reason='the extra metrics is needed')
WORDS = {'setting': 'words'}
ACTION = (
    'It is a guide to action which ensures that the military always obeys the commands '
    'of the party',
    'It is a guide to action that ensures that the military will forever heed Party '
    'commands',
)


def signature(scorer, **options):
    return find_scorer(scorer).from_section(options).signature


@pytest.mark.parametrize(
    'response, texts, options, expected',
    [
        # 3 of 4 words and 1 of 3 pairs (the-cat) are in the reference, of equal length
        ('The cat sat here', ['the cat is here'], WORDS, math.sqrt(3 / 4 * 1 / 3)),
        # all is right, 2 words against 4: exp(1 - 4/2)
        ('the cat', ['the cat is here'], WORDS, math.exp(1 - 4 / 2)),
        # without a common pair, words gives nothing
        ('cat the', ['the cat'], WORDS, 0),
        # 'a b c' has all of its words and pairs in the two, and no one has both pairs
        ('a b c', ['x a b', 'b c x'], {**WORDS, 'references': 'together'}, 1),
        ('a b c', ['x a b', 'b c x'], WORDS, math.sqrt(2 / 3 * 1 / 2)),
    ],
)
def test_bleu_by_pencil(response, texts, options, expected):
    score = overall('bleu_2', response, *texts, **options)
    assert score == pytest.approx(100 * expected)


def test_the_default_is_the_sentence_bleu_of_the_library():
    assert overall('bleu_2', 'cat the', 'the cat') > 0
    response, reference = 'I am fine, thanks.', 'I am very well, thanks!'
    library = sacrebleu.metrics.BLEU(max_ngram_order=2, effective_order=True)
    expected = library.sentence_score(response, [reference]).score
    assert overall('bleu_2', response, reference) == pytest.approx(expected)


@pytest.mark.parametrize(
    'response, texts, lacking',
    [
        (' ', ('a',), 'response'),
        ('a', ('', ' '), 'reference'),
    ],
)
def test_no_response_or_no_reference_is_no_score(response, texts, lacking):
    [score] = scores_of('bleu_2', [ScoringItem((), response, references=texts)])
    assert score.values == {'Overall': None}
    assert lacking in score.reasons['Overall']


def test_setting_and_version_are_in_the_signature():
    lines = signature('bleu_2'), signature('bleu_2', **WORDS)
    assert lines[0] != lines[1]
    assert all(f'sacrebleu:{sacrebleu.__version__}' in line for line in lines)


def test_without_the_library_one_line_says_what_to_install(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(references, 'import_module', missing)
    with user_error(r'sacrebleu: pip install'):
        signature('bleu_2')


def test_topical_chat_gives_the_published_correlations():
    # PairEval (Park et al. 2024), Table 1: BLEU-2 on TopicalChat-USR 45.9/46.2
    path = shared('usr/dstc10_format/topical-usr_eval.json')
    judged = read_card('usr_topical').read(path).items
    items = [
        ScoringItem(i.context, i.response, references=i.references) for i in judged
    ]
    values = [score.values['Overall'] for score in scores_of('bleu_2', items, **WORDS)]
    people = [
        statistics.fmean(a.value for a in i.annotations['Overall']) for i in judged
    ]
    assert len(values) == 360
    assert 100 * stats.pearsonr(values, people)[0] == pytest.approx(45.9, abs=0.05)
    assert 100 * stats.spearmanr(values, people)[0] == pytest.approx(46.2, abs=0.05)


@pytest.fixture
def wordnet(tmp_path):
    return str(write_wordnet(tmp_path / 'wordnet'))


POLICE = 'police killed the gunman'


@pytest.mark.parametrize(
    'response, text, options, expected',
    [
        # Lin 2004, section 3: 'police ... the gunman' is a common subsequence of length
        # 2 of 4 words, 'police kill the gunman' and 'the gunman kill police': F1 = 1/2
        ('the gunman kill police', POLICE, {}, 0.5),
        # police-the-gunman, 3 of 4
        ('police kill the gunman', POLICE, {}, 0.75),
        ('police kill the gunman', POLICE, {'stemmer': True}, 1),
        # 2 of 2 words of the response, 2 of 4 of the reference: 2 * 1 * 0.5 / 1.5
        ('a b', 'a x b x', {}, 2 / 3),
    ],
)
def test_rouge_l_by_pencil(response, text, options, expected):
    assert overall('rouge_l', response, text, **options) == pytest.approx(expected)


@pytest.mark.parametrize('response, text', [('!?', 'yes'), ('yes', 'да')])
def test_rouge_l_of_texts_that_its_tokenizer_does_not_know_is_no_score(response, text):
    assert overall('rouge_l', response, text) is None
    assert overall('rouge_l', 'yes', 'да', 'yes') == 1


def test_meteor_has_the_value_of_nltks_own_example():
    # documented in nltk.translate.meteor_score; no synonym takes part in it
    assert overall('meteor', *ACTION, wordnet='none') == pytest.approx(0.6944, abs=5e-5)


def test_meteor_matches_synonyms(wordnet):
    # all 3 words match in one chunk: F = 1, penalty 0.5 * (1/3)^3
    expected = 1 - 0.5 * (1 / 3) ** 3
    response, text = 'my car stopped', 'My auto stopped'
    assert overall('meteor', response, text, wordnet=wordnet) == pytest.approx(expected)
    # without: 2 of 3 words match, in 2 chunks: F = 2/3, penalty 0.5 * (2/2)^3
    value = overall('meteor', response, text, wordnet='none')
    assert value == pytest.approx(2 / 3 * (1 - 0.5))


def test_the_signature_has_the_content_of_wordnet_and_not_its_folder(tmp_path):
    one, same = (
        signature('meteor', wordnet=str(write_wordnet(tmp_path / name)))
        for name in 'ab'
    )
    (tmp_path / 'b' / 'noun.exc').write_text('geese goose\n')
    other = signature('meteor', wordnet=str(tmp_path / 'b'))
    assert one == same
    assert len({one, other, signature('meteor', wordnet='none')}) == 3


def test_without_wordnet_one_line_says_where_it_is_to_be_had(tmp_path, monkeypatch):
    monkeypatch.setattr(references, 'INSTALLED', (str(tmp_path / 'not here'),))
    monkeypatch.setattr('nltk.data.path', [str(tmp_path)])
    monkeypatch.delenv('WNSEARCHDIR', raising=False)
    with user_error('wordnet-base'):
        find_scorer('meteor').from_section({})
    with user_error('index.adj'):
        find_scorer('meteor').from_section({'wordnet': str(tmp_path)})
    # where the system says that it lies
    folder = write_wordnet(tmp_path / 'own')
    monkeypatch.setenv('WNSEARCHDIR', str(folder))
    assert find_scorer('meteor').from_section({}).root is not None
