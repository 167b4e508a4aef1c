"""
BLEU-2, ROUGE-L and METEOR against one reference or several.

Embedding average, extrema and greedy, and BERTScore: by pencil, on vectors of two
numbers, and against BERTScore's library on a tiny encoder; ties of all similarities.
"""

import math
from functools import partial

import numpy as np
import pytest
from scipy import stats

from parlai_ext.data.judged import read_card
from parlai_ext.models.encoders import TokenVectors
from parlai_ext.scoring import references
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.references import token_f1
from parlai_ext.scoring.registry import find_scorer
from tests.support.scoring_samples import overall, scores_of
from tests.support.shared_data import shared
from tests.support.tiny_models import WORDS, sentences
from tests.support.tiny_trained import make_encoder
from tests.support.user_error import user_error

sacrebleu = pytest.importorskip('sacrebleu', reason='the extra metrics is needed')
pytest.importorskip('rouge_score', reason='the extra metrics is needed')
BY_WORDS = {'setting': 'words'}
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
        ('The cat sat here', ['the cat is here'], BY_WORDS, math.sqrt(3 / 4 * 1 / 3)),
        # all is right, 2 words against 4: exp(1 - 4/2)
        ('the cat', ['the cat is here'], BY_WORDS, math.exp(1 - 4 / 2)),
        # without a common pair, words gives nothing
        ('cat the', ['the cat'], BY_WORDS, 0),
        # 'a b c' has all of its words and pairs in the two, and no one has both pairs
        ('a b c', ['x a b', 'b c x'], {**BY_WORDS, 'references': 'together'}, 1),
        ('a b c', ['x a b', 'b c x'], BY_WORDS, math.sqrt(2 / 3 * 1 / 2)),
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
    lines = signature('bleu_2'), signature('bleu_2', **BY_WORDS)
    assert lines[0] != lines[1]
    assert all(f'sacrebleu:{sacrebleu.__version__}' in line for line in lines)


def test_without_the_library_one_line_says_what_to_install(uninstalled):
    uninstalled('sacrebleu.metrics')
    with user_error(r'sacrebleu: pip install'):
        signature('bleu_2')


def test_topical_chat_gives_the_published_correlations():
    # PairEval (Park et al. 2024), Table 1: BLEU-2 on TopicalChat-USR 45.9/46.2
    path = shared('usr/dstc10_format/topical-usr_eval.json')
    judged = read_card('usr_topical').read(path).items
    items = [
        ScoringItem(i.context, i.response, references=i.references) for i in judged
    ]
    values = [
        score.values['Overall'] for score in scores_of('bleu_2', items, **BY_WORDS)
    ]
    people = [item.human('Overall') for item in judged]
    assert len(values) == 360
    assert 100 * stats.pearsonr(values, people)[0] == pytest.approx(45.9, abs=0.05)
    assert 100 * stats.spearmanr(values, people)[0] == pytest.approx(46.2, abs=0.05)


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


# a WordNet of one synset in Princeton's file format, written by hand (wndb(5WN)); the
# synset begins at byte 30
NOUNS = '  1 a licence would be here  \n00000030 03 n 02 car 0 auto 0 000 | a gloss  \n'
NOUN_INDEX = 'auto n 1 0 1 0 00000030  \ncar n 1 0 1 0 00000030  \n'


def write_wordnet(folder):
    """
    Write the files of a WordNet in which 'car' and 'auto' are synonyms.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for part in ('noun', 'verb', 'adj', 'adv'):
        is_noun = part == 'noun'
        (folder / f'data.{part}').write_text(NOUNS if is_noun else '')
        (folder / f'index.{part}').write_text(NOUN_INDEX if is_noun else '')
        (folder / f'{part}.exc').write_text('')
    return folder


def test_meteor_matches_synonyms(tmp_path):
    wordnet = str(write_wordnet(tmp_path / 'wordnet'))
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


# --- vectors of words and of tokens ---------------------------------------------------


VECTORS = """
east 1 0
north 0 1
south 0 -2
west -1 0
nothing 0 0
""".lstrip()
HALF = 0.5**0.5  # the cosine of 45 degrees


@pytest.fixture
def by_vectors(tmp_path):
    """
    Return a function that scores a response by these vectors.
    """
    path = tmp_path / 'vectors.txt'
    path.write_text(VECTORS)
    return partial(overall, vectors=str(path))


AVERAGE, EXTREMA, GREEDY = 'embedding_average', 'embedding_extrema', 'embedding_greedy'


@pytest.mark.parametrize(
    'scorer, expected',
    [
        # means (1/2, 1/2) and (1, 0)
        (AVERAGE, HALF),
        # extrema (1, 1) and (1, 0)
        (EXTREMA, HALF),
        # east 1, north 0: 1/2; and back east 1: (1/2 + 1) / 2
        (GREEDY, 3 / 4),
    ],
)
def test_two_words_against_one_of_them(by_vectors, scorer, expected):
    assert by_vectors(scorer, 'East North', 'east') == pytest.approx(expected)
    assert by_vectors(scorer, 'east', 'East North') == pytest.approx(expected)


def test_extrema_takes_what_is_farthest_from_zero(by_vectors):
    # north 1 and south -2: -2, that of south
    assert by_vectors(EXTREMA, 'north south', 'south') == pytest.approx(1)
    # the means are (0, -1/2) and (0, -2)
    assert by_vectors(AVERAGE, 'north south', 'south') == pytest.approx(1)
    # of 1 and -1 the positive one
    assert by_vectors(EXTREMA, 'east west', 'east') == pytest.approx(1)
    # whose mean is zero, which has no direction
    assert by_vectors(AVERAGE, 'east west', 'east') is None


@pytest.mark.parametrize('scorer', [AVERAGE, EXTREMA, GREEDY])
def test_words_without_a_vector_are_left_out(by_vectors, scorer):
    assert by_vectors(scorer, 'xyzzy east!', 'east') == pytest.approx(1)
    assert by_vectors(scorer, 'xyzzy', 'east') is None
    assert by_vectors(scorer, 'east', 'xyzzy') is None
    assert by_vectors(scorer, 'nothing', 'east') is None
    assert by_vectors(scorer, 'east', 'xyzzy', 'north', 'east') == (pytest.approx(1))


EAST, NORTH, WEST = (1, 0), (0, 1), (-1, 0)
LONG = 'a ' * 30  # more tokens than the encoder has positions


def tokens(*rows, ends=0):
    """
    Return the vectors of a text whose first tokens do not count.
    """
    of_text = np.arange(len(rows)) >= ends
    return TokenVectors(np.array(rows, np.float32), of_text)


def test_f1_by_pencil():
    # precision: east 1, north 0; recall: east 1: F1 = 2 * (1/2) * 1 / (3/2)
    score = token_f1(tokens(EAST, NORTH), tokens(EAST))
    assert score == pytest.approx(2 / 3)
    # lengths of vectors do not count
    assert token_f1(tokens((5, 0)), tokens((0.1, 0))) == pytest.approx(1)


def test_ends_may_be_matched_and_count_nothing():
    # north finds the end of the reference, which is north; east counts for nobody
    response, reference = tokens(EAST, NORTH, ends=1), tokens(NORTH, EAST, ends=1)
    assert token_f1(response, reference) == pytest.approx(1)
    assert token_f1(tokens(EAST, ends=1), reference) is None


def test_texts_that_are_nowhere_alike_have_no_f1():
    # precision 0 and recall -1/2, for which 2PR / (P + R) means nothing
    assert token_f1(tokens(EAST), tokens(NORTH, WEST)) is None


@pytest.fixture(scope='module')
def encoder(module_folder):
    return make_encoder(module_folder, n_layers=3)


def scores(encoder, pairs, **options):
    items = [ScoringItem((), response, references=(text,)) for response, text in pairs]
    return scores_of('bertscore', items, encoder=encoder, **options)


@pytest.mark.parametrize('layer', [1, 3])
def test_the_scores_are_those_of_the_library(encoder, layer):
    bert_score = pytest.importorskip('bert_score', reason='the library to compare with')
    texts = [*sentences(12), 'one', LONG]
    pairs = list(zip(texts, [*texts[1:], texts[0]], strict=True))
    library = bert_score.BERTScorer(
        model_type=encoder, num_layers=layer, idf=False, device='cpu'
    )
    library._tokenizer.model_max_length = 24  # which this tokenizer does not know
    _, _, expected = library.score(*map(list, zip(*pairs, strict=True)))
    values = [s.values['Overall'] for s in scores(encoder, pairs, layer=layer)]
    assert values == pytest.approx(expected.tolist(), abs=1e-5)


def test_layer_0_is_the_last_one(encoder):
    pairs = [tuple(sentences(2))]
    [last], [third], [first] = (scores(encoder, pairs, layer=n) for n in (0, 3, 1))
    assert last.values == third.values != first.values
    with user_error('layer 4: .*3 layers'):
        scores(encoder, pairs, layer=4)


def test_tokens_that_are_not_read_are_counted(encoder):
    [score] = scores(encoder, [(LONG, 'a')])
    assert score.cut == 6
    assert math.isfinite(score.values['Overall'])


@pytest.mark.parametrize(
    'scorer',
    [AVERAGE, EXTREMA, GREEDY, 'bertscore', 'relevance', 'amfm_references'],
)
def test_texts_that_are_all_the_same_as_theirs_tie(
    scorer, encoder, gpt2_folder, tmp_path
):
    # a test set of DSTC10 has judged people's replies, each its own reference
    table = tmp_path / 'vectors.txt'
    rng = np.random.default_rng(0)
    rows = (f'{word} {" ".join(map(str, rng.normal(size=30)))}\n' for word in WORDS)
    table.write_text(''.join(rows))
    named = {'encoder': encoder, 'vectors': str(table), 'judge_model_file': gpt2_folder}
    known = vars(find_scorer(scorer).options_class())
    options = {key: value for key, value in named.items() if key in known}
    items = [ScoringItem((text,), text, references=(text,)) for text in sentences(40)]
    values = [score.values for score in scores_of(scorer, items, **options)]
    dimension = find_scorer(scorer).dimensions[0]
    assert {value[dimension] for value in values} == {1}
