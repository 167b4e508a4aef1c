"""
ROUGE-L and METEOR against references.
"""

import pytest

from parlai_ext.scoring import meteor
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.registry import find_scorer
from tests.support.tiny_wordnet import write_wordnet
from tests.support.user_error import user_error

pytest.importorskip('rouge_score', reason='the extra metrics is needed')
ACTION = (
    'It is a guide to action which ensures that the military always obeys the commands '
    'of the party',
    'It is a guide to action that ensures that the military will forever heed Party '
    'commands',
)


def overall(scorer, response, *texts, **options):
    item = ScoringItem((), response, references=texts)
    [score] = find_scorer(scorer).from_section(options).checked_scores([item])
    return score.values['Overall']


@pytest.fixture
def wordnet(tmp_path):
    return str(write_wordnet(tmp_path / 'wordnet'))


def test_rouge_l_by_pencil():
    # Lin 2004, section 3: 'police ... the gunman' is a common subsequence of length 2
    # of 4 words, 'police kill the gunman' and 'the gunman kill police': F1 = 1/2
    assert overall(
        'rouge_l', 'the gunman kill police', 'police killed the gunman'
    ) == pytest.approx(0.5)
    # police-the-gunman, 3 of 4
    response = 'police kill the gunman'
    assert overall('rouge_l', response, 'police killed the gunman') == 0.75
    assert overall('rouge_l', response, 'police killed the gunman', stemmer=True) == 1


def test_rouge_l_precision_and_recall_are_balanced():
    # 2 of 2 words of the response, 2 of 4 of the reference: 2 * 1 * 0.5 / 1.5
    assert overall('rouge_l', 'a b', 'a x b x') == pytest.approx(2 / 3)


@pytest.mark.parametrize(('response', 'text'), [('!?', 'yes'), ('yes', 'да')])
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


def test_several_references_the_best_one_counts(wordnet):
    texts = ('no match', 'a dog', 'dog dog dog')
    best = max(overall('meteor', 'a dog', text, wordnet=wordnet) for text in texts)
    assert overall('meteor', 'a dog', *texts, wordnet=wordnet) == best


def test_the_signature_has_the_content_of_wordnet_and_not_its_folder(tmp_path):
    signatures = []
    for name in 'ab':
        folder = write_wordnet(tmp_path / name)
        cls = find_scorer('meteor')
        signatures.append(cls.from_section({'wordnet': str(folder)}).signature)
    (folder / 'noun.exc').write_text('geese goose\n')
    other = cls.from_section({'wordnet': str(folder)}).signature
    without = cls.from_section({'wordnet': 'none'}).signature
    assert signatures[0] == signatures[1]
    assert len({signatures[0], other, without}) == 3


def test_without_wordnet_one_line_says_where_it_is_to_be_had(tmp_path, monkeypatch):
    monkeypatch.setattr(meteor, 'INSTALLED', (str(tmp_path / 'not here'),))
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
