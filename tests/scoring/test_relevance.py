"""
Scorers of one response that ask no judge for a rating, by pencil: the trivial ones
(length, distinct, repetition and overlap), relevance, and the human-centred metrics.

HolisticEval's four metrics, against Hugging Face's own numbers and pencil. Deep AM-FM:
AM and FM against Hugging Face's own numbers, and their combination against the
arithmetic of the Track's program.
"""

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer, BertModel

from parlai_ext.core import Dialogue, Utterance
from parlai_ext.models.encoders import MeanPooling
from parlai_ext.scoring.base import ScoringItem, dialogue_items
from parlai_ext.scoring.relevance import (
    AGREEABLE,
    EMOTIONS,
    EMPATHIC,
    AmFm,
    Holistic,
    diversity,
    measured_scale,
    spoken_turns,
    style_matching,
)
from tests.support.family_hf import make_model
from tests.support.fed_samples import END, gpt2, make_gpt2, string_logprob, string_loss
from tests.support.on_cpu import models_on_cpu
from tests.support.scoring_samples import (
    KnownClassifier,
    KnownEncoder,
    reason_of,
    scores_of,
)
from tests.support.tiny_models import sentences
from tests.support.tiny_trained import make_encoder
from tests.support.user_error import user_error


def scored(scorer, context, response, speakers=None, models=None, **options):
    """
    Return the score of a response, or of what the last of the speakers said.
    """
    extras = {'speakers': speakers[0]} if speakers else {}
    speaker = speakers[1] if speakers else ''
    item = ScoringItem(context, response, speaker, extras=extras)
    return scores_of(scorer, [item], models, **options)[0]


# --- trivial scorers ------------------------------------------------------------------

DOG = ('i like my dog', 'so do i')
HEARD = ('a bear', 'own turn', 'my dog', 'own too', 'your cat')
GAME = ('a b', 'c', 'a b', 'd e f g')
MUSE = ('a b', 'a c', 'c d', 'd')
TWICE = (('you', 'me', 'me', 'you'), 'you')
TWO = ('me', 'you', 'me', 'you')


@pytest.mark.parametrize(
    'scorer, context, response, expected, speakers, options',
    [
        # what blanks part
        ('length', ('hi',), 'a b  c', 3, None, {}),
        # pairs: no-no, no-no, no-way; two of three differ, capitals do not count
        ('distinct', (), 'no No no way', 2 / 3, None, {}),
        # words: no, way of four
        ('distinct', (), 'no no no way', 2 / 4, None, {'n': 1}),
        # pairs: i-like (said), like-my (said), my-cat
        ('repetition', DOG, 'I like my cat', -2 / 3, None, {}),
        # no pair stands across two utterances: dog-so was not said
        ('repetition', DOG, 'dog so', 0, None, {}),
        # my, cat, cat: `a bear` is too long ago, and own turns do not count
        ('overlap', HEARD, 'My cat. Cat bear own too', 3 / 6, None, {}),
        ('overlap', (), 'hello', 0, None, {}),
        # of a whole dialogue the mean over its speaker's utterances
        ('overlap', MUSE, None, (1 / 2 + 1) / 2, (TWO, 'you'), {}),
        # who spoke twice: of `you` the turn before the last two
        ('overlap', tuple('abc'), 'b c a', 2 / 3, TWICE, {}),
        ('length', GAME, None, (1 + 4) / 2, (TWO, 'you'), {}),
        ('distinct', GAME, None, 1 / 2, (TWO, 'me'), {}),
        # 'a b' is new at first and said before at the second time
        ('repetition', GAME, None, -1 / 2, (TWO, 'me'), {}),
        # nobody says who spoke: all utterances
        ('length', GAME, None, (2 + 1 + 2 + 4) / 4, None, {}),
    ],
)
def test_trivial_scores_by_pencil(
    scorer, context, response, expected, speakers, options
):
    score = scored(scorer, context, response, speakers, **options)
    assert score.values == {'Overall': pytest.approx(expected)}


@pytest.mark.parametrize(
    'scorer, response, why',
    [
        ('repetition', 'word', '2 words'),
        ('overlap', '?!', 'there is no word in what is judged'),
    ],
)
def test_too_few_words_have_no_score(scorer, response, why):
    score = scored(scorer, ('one word',), response)
    assert score.values == {'Overall': None} and why in score.reasons['Overall']


# --- relevance ------------------------------------------------------------------------

KNOWN = {
    '': (0, 0),
    'north': (0, 1),
    'east': (1, 0),
    'north east': (1, 1),
    'nowhere': (0, 0),
}


@pytest.mark.parametrize(
    'context, response, against, expected',
    [
        (('east', 'north'), 'north', 'last_turn', 1),
        (('east', 'north'), 'north east', 'last_turn', 0.5**0.5),
        # turns are joined: against 'east' alone the cosine would be 0
        (('north', 'east'), 'north', 'context', 0.5**0.5),
        (('north', 'north east', 'east', 'nowhere'), 'north', 'nearest', 1),
        # the first of five turns is too long ago
        (
            ('north', 'north east', 'east', 'nowhere', 'east'),
            'north',
            'nearest',
            0.5**0.5,
        ),
    ],
)
def test_cosines_by_pencil(context, response, against, expected):
    score = scored(
        'relevance', context, response, models=KnownEncoder(KNOWN.get), against=against
    )
    assert score.values['Relevance'] == pytest.approx(expected, abs=5e-7)


@pytest.mark.parametrize('context, why', [((), 'no context'), (('nowhere',), 'zero')])
def test_no_context_or_a_zero_vector_gives_no_score(context, why):
    score = scored('relevance', context, 'north', models=KnownEncoder(KNOWN.get))
    assert score.values == {'Relevance': None}
    assert why in score.reasons['Relevance']


def test_what_the_encoder_does_not_read_of_the_turns_is_counted_too():
    # of each text two letters are read: the response loses 3, the joined turns 8
    encoder = KnownEncoder(lambda text: (1, 1))
    encoder.cut_tokens = lambda texts: [max(0, len(text) - 2) for text in texts]
    models = {'models': encoder, 'against': 'context'}
    assert scored('relevance', ('north', 'east'), 'north', **models).cut == 3 + 8


# --- human-centred metrics ------------------------------------------------------------


def emotion(text):
    """
    Emotions are axes; kind sentences point along the first, unkind ones against it.
    """
    row = np.zeros(len(EMOTIONS))
    if text in EMOTIONS:
        row[EMOTIONS.index(text)] = 1
    elif text == 'torn':
        row[:] = 1
    elif text:
        row[0] = 1 if text in ('joyful', *AGREEABLE[0], *EMPATHIC[0]) else -1
    return row


def scores(context, response):
    return scored(
        'human_centered', context, response, models=KnownEncoder(emotion)
    ).values


def test_a_text_of_all_emotions_has_the_largest_entropy_and_matches_none():
    values = scores(('joyful',), 'torn')
    assert values['Emotional Entropy'] == pytest.approx(math.log(8))
    # of one constant side, Spearman's rho is not defined
    assert values['Emotion Matching'] is None
    # e^10 beside seven times 1: nearly all is joy
    assert scores(('torn',), 'joyful')['Emotional Entropy'] < 0.01


def test_emotions_that_are_the_same_match():
    values = scores(('joyful',), 'joyful')
    assert values['Emotion Matching'] == pytest.approx(1)
    # cosines with the kind sentences are 1, with the unkind ones -1
    assert values['Agreeableness'] == values['Empathy'] == pytest.approx(2)


def test_without_a_turn_before_nothing_matches():
    values = scores((), 'joyful')
    assert values['Style Matching'] is values['Emotion Matching'] is None
    assert values['Emotional Entropy'] is not None
    assert set(scores(('joyful',), ' ').values()) == {None}


def test_style_matching_by_pencil():
    # "i": 1/2 and 1/4 of the words, 1 - (1/4) / (3/4); "the": 0 and 1/4, 0; the other
    # seven classes are in neither text, 1
    assert style_matching('I sing', 'I saw the moon') == pytest.approx(
        (2 / 3 + 0 + 7) / 9, abs=1e-3
    )


# === HolisticEval =====================================================================

SPOKEN = tuple(sentences(5))
SPOKEN_ITEMS = [ScoringItem(SPOKEN[:k], SPOKEN[k]) for k in range(1, 5)]


LABELS = ('Entailment', 'NEUTRAL', 'Contradiction')


def holistic_scores(folder, items, classifier=None, **options):
    """
    Return the scores by a real judge, and a classifier that is made up.
    """
    models = SimpleNamespace(
        likelihood=models_on_cpu().likelihood, classifier=lambda name: classifier
    )
    options |= {'classifier': 'made up'} if classifier else {}
    return scores_of('holistic', items, models, judge_model_file=folder, **options)


def test_coherence_and_fluency_are_those_of_the_program(gpt2_folder):
    for item, score in zip(
        SPOKEN_ITEMS, holistic_scores(gpt2_folder, SPOKEN_ITEMS), strict=True
    ):
        context = '\n'.join(item.context)
        both, _ = string_logprob(gpt2_folder, f'{context} {item.response}')
        alone, _ = string_logprob(gpt2_folder, context)
        assert score.values['Coherence'] == pytest.approx(both - alone, rel=1e-4)
        total, n = string_logprob(gpt2_folder, item.response)
        assert score.values['Fluency'] == pytest.approx(total / n, rel=1e-4)


@pytest.mark.parametrize('times, share', [(4, 0.75), (0.5, 0)])
def test_a_cutoff_counts_0_and_what_is_certain_1(gpt2_folder, times, share):
    # the program's (max(x, c) - c) / |c| with c = 4 x, and with c = x / 2
    [raw] = holistic_scores(gpt2_folder, SPOKEN_ITEMS[:1])
    names = ('Coherence', 'Fluency')
    given = {f'{name.lower()}_cutoff': times * raw.values[name] for name in names}
    [score] = holistic_scores(gpt2_folder, SPOKEN_ITEMS[:1], **given)
    assert [score.values[name] for name in names] == pytest.approx([share] * 2)


# the entropy of three pairs, of which two are the same
TWO_OF_THREE = -(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3))


@pytest.mark.parametrize(
    'texts, entropy',
    [
        (['a b c'], math.log(2)),  # a b, b c
        (['a b a b'], TWO_OF_THREE),
        (['a', 'a'], 0.0),  # shorter than an n-gram: one n-gram
        (['', ' '], None),
    ],
)
def test_diversity_is_the_entropy_of_word_pairs(texts, entropy):
    expected = None if entropy is None else pytest.approx(entropy)
    assert diversity(texts, 2) == expected
    assert str(diversity(['a'], 2)) == '0.0'  # not -0.0


def test_responses_to_rewordings_of_the_context_count(gpt2_folder):
    item = ScoringItem(SPOKEN[:1], 'a b', extras={'responses': ('c d', 'a b')})
    [score] = holistic_scores(gpt2_folder, [item])
    assert score.values['Diversity'] == pytest.approx(TWO_OF_THREE)


def test_consistency_is_with_the_speakers_last_utterance(gpt2_folder):
    asked = []

    def tell(first, second):
        asked.append((first, second))
        return 0.25

    scores = holistic_scores(
        gpt2_folder, SPOKEN_ITEMS, KnownClassifier(LABELS, 'Contradiction', tell)
    )
    # TEXTS[k] follows the other speaker's TEXTS[k - 1] and its own TEXTS[k - 2]
    assert asked == [(SPOKEN[k - 2], SPOKEN[k]) for k in (2, 3, 4)]
    assert [score.values['Consistency'] for score in scores] == [None, 0.75, 0.75, 0.75]
    assert 'before' in scores[0].reasons['Consistency']


@pytest.mark.parametrize(
    'speakers, speaker, earlier',
    [
        (('a', 'a', 'b', 'b', 'a'), 'a', 'two'),
        (('a', 'a', 'a', 'a', 'a'), 'a', 'three'),  # self-play
    ],
)
def test_who_said_what(gpt2_folder, speakers, speaker, earlier):
    def tell(first, second):
        return first == earlier

    context = ('one', 'two', 'three', 'four')
    item = ScoringItem(context, 'five', speaker, extras={'speakers': speakers})
    classifier = KnownClassifier(LABELS, 'Contradiction', tell)
    [score] = holistic_scores(gpt2_folder, [item], classifier)
    assert score.values['Consistency'] == 0


def test_a_classifier_without_the_label_is_refused(gpt2_folder):
    classifier = KnownClassifier(('LABEL_0', 'LABEL_1'), 'LABEL_1', None)
    with user_error('classifier.*LABEL_0'):
        holistic_scores(gpt2_folder, SPOKEN_ITEMS, classifier)


def test_what_is_missing_has_a_reason(gpt2_folder):
    first, empty = holistic_scores(
        gpt2_folder, [ScoringItem((), 'tea'), ScoringItem(SPOKEN[:1], '')]
    )
    reasons = {'Coherence': 'context', 'Consistency': 'classifier'}
    # the first token is not counted, and there is no other
    for dimension, why in {**reasons, 'Fluency': 'one token'}.items():
        assert why in reason_of(first, dimension)
    assert {empty.values[name] for name in Holistic.dimensions} == {None}


# === Deep AM-FM =======================================================================

TEXTS = sentences(9)
ITEMS = [ScoringItem(tuple(TEXTS[:k]), TEXTS[k]) for k in range(1, 9)]


@pytest.fixture(scope='module')
def folders(encoder_folder, gpt2_folder):
    return {'encoder': encoder_folder, 'judge_model_file': gpt2_folder}


@pytest.fixture(scope='module')
def handle():
    return models_on_cpu()


@pytest.fixture
def scores_by_models(folders, handle):
    """
    A function that scores items.
    """

    def score(scorer, items, **options):
        return scores_of(scorer, items, handle, **{**folders, **options})

    return score


def column(scores, dimension):
    return [score.values[dimension] for score in scores]


def embedding(folder, text, state='mean'):
    inputs = AutoTokenizer.from_pretrained(folder)(text, return_tensors='pt')
    with torch.no_grad():
        output = AutoModel.from_pretrained(folder).eval()(**inputs)
    row = output.pooler_output[0]
    if state == 'mean':
        row = output.last_hidden_state[0].mean(0)
    return row.double().numpy()


def cosine(first, second):
    return first @ second / np.linalg.norm(first) / np.linalg.norm(second)


def program_coherence(folder, turn, response):
    # compute_wor.py: (p_joint - p_q) / (len(joint) - len(q))
    both, n_both = string_logprob(folder, f'{turn} {response}{END}')
    first, n_first = string_logprob(folder, f'{turn}{END}')
    return (both - first) / (n_both - n_first)


def test_fm_is_that_of_the_program(scores_by_models, folders):
    scores = scores_by_models('amfm', ITEMS)
    expected = [
        program_coherence(folders['judge_model_file'], item.context[-1], item.response)
        for item in ITEMS
    ]
    assert column(scores, 'FM') == pytest.approx(expected, rel=1e-4)


def test_fm_of_turns_is_the_likelihood_after_the_last_turn(
    scores_by_models, folders, handle
):
    given = {'judge_model_file': folders['judge_model_file'], 'context_turns': 1}
    expected = scores_of('likelihood', ITEMS, handle, **given)
    scores = scores_by_models('amfm', ITEMS, fm_format='turns')
    assert column(scores, 'FM') == column(expected, 'Likelihood')


@pytest.mark.parametrize('state', ['mean', 'pooler'])
def test_am_is_the_cosine_to_the_last_turn(scores_by_models, folders, state):
    vectors = [embedding(folders['encoder'], text, state) for text in TEXTS]
    expected = [cosine(vectors[k], vectors[k - 1]) for k in range(1, 9)]
    scores = scores_by_models('amfm', ITEMS, am_state=state)
    assert column(scores, 'AM') == pytest.approx(expected, abs=1e-5)


def test_a_pooling_layer_that_is_missing_is_drawn_alike(tmp_path):
    folder = Path(make_encoder(tmp_path / 'bert'))
    config = AutoConfig.from_pretrained(folder)
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    states = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        encoder = MeanPooling(folder, torch.device('cpu'))
        assert torch.equal(torch.get_rng_state(), before)
        states.append(encoder.pooler_states(TEXTS[:2]))
    assert np.array_equal(*states) and not np.array_equal(*states[0])


def normed(values):
    # compute_wor.py: (max(x, cutoff) - cutoff) / |cutoff|
    cutoff = np.quantile(values, 0.05)
    return (np.maximum(values, cutoff) - cutoff) / abs(cutoff)


def test_overall_is_the_programs_when_the_scales_are(scores_by_models):
    raw = [column(scores_by_models('amfm', ITEMS), name) for name in ('AM', 'FM')]
    am, fm = (float(np.quantile(values, 0.05)) for values in raw)
    fixed = {'am_cutoff': am, 'am_width': abs(am), 'fm_cutoff': fm, 'fm_width': abs(fm)}
    expected = np.mean([normed(values) for values in raw], axis=0)
    for options in (fixed, {'scale': 'quantile'}):
        scores = scores_by_models('amfm', ITEMS, **options)
        assert column(scores, 'Overall') == pytest.approx(expected, abs=1e-6)


def test_a_whole_dialogue_is_scaled_as_the_program_does_and_am_counts_against_it(
    scores_by_models,
):
    # the third and fourth utterance are a's after another
    turns = [ScoringItem((TEXTS[k + 1],), TEXTS[k + 2]) for k in range(6)]
    speakers = {'speakers': ('a', 'b', 'a', 'a')}
    dialogues = [
        ScoringItem((*TEXTS[k : k + 3], TEXTS[0]), None, 'a', extras=speakers)
        for k in range(6)
    ]
    last = [ScoringItem((TEXTS[k + 2],), TEXTS[0]) for k in range(6)]
    am, fm = (
        np.mean(
            [column(scores_by_models('amfm', part), name) for part in (turns, last)],
            axis=0,
        )
        for name in ('AM', 'FM')
    )
    whole = scores_by_models('amfm', dialogues, scale='quantile', dialogues='whole')
    assert column(whole, 'AM') == pytest.approx(am, abs=1e-5)
    # compute_dial.py: the mean of -AM and FM
    expected = (normed(fm) - normed(am)) / 2
    assert column(whole, 'Overall') == pytest.approx(expected, abs=1e-4)


def test_what_is_given_is_no_turn_of_a_whole_dialogue():
    said = [Utterance('a', 'x'), Utterance('b', 'y', given=True), Utterance('a', 'z')]
    dialogue = Dialogue('d', 'p', 'o', (*said, Utterance('b', 'w')))
    _, item = dialogue_items(dialogue, [0, 2, 3])
    assert spoken_turns(item) == [ScoringItem(('z',), 'w')]


def test_quantiles_are_of_whole_sets_and_not_of_the_parts_of_a_run(folders, handle):
    scorer = AmFm.from_section({**folders, 'scale': 'quantile'}, handle)
    with user_error('run_bench'):
        scorer.score_dialogues([], [])


@pytest.mark.parametrize(
    'scorer, options, why',
    [
        ('amfm', {'fm_format': 'joined'}, 'context'),
        ('amfm', {'fm_format': 'turns'}, 'context'),
        ('amfm_references', {}, 'reference'),
    ],
)
def test_what_cannot_be_compared_has_no_score(scores_by_models, scorer, options, why):
    [score] = scores_by_models(scorer, [ScoringItem((), 'tea')], **options)
    assert set(score.values.values()) == {None}
    assert why in score.reasons['Overall']


def test_strings_longer_than_the_model_lose_their_beginning(scores_by_models, tmp_path):
    judge = {'judge_model_file': str(make_gpt2(tmp_path, positions=64))}
    items = [ScoringItem(('tea ' * 90,), 'rain'), ScoringItem(('a',), 'tea ' * 90)]
    long, whole = scores_by_models('amfm', items, **judge)
    assert long.cut > 0 and long.values['FM'] < 0
    # of the last 64 tokens of a response all have a probability but the first
    model, tokenizer = gpt2(judge['judge_model_file'])
    ids = [*tokenizer.encode(f'a {items[1].response}'), tokenizer.eos_token_id]
    expected = -string_loss(model, ids[-64:])
    assert whole.values['FM'] == pytest.approx(expected, rel=1e-4)


def test_what_the_encoder_does_not_read_of_a_text_is_counted(
    scores_by_models, folders, handle
):
    long = 'tea ' * 90
    [beyond] = handle.embedder(folders['encoder']).cut_tokens([long])
    assert beyond > 0
    turns = [ScoringItem(('a',), long), ScoringItem((long, 'a'), 'b')]
    assert [one.cut for one in scores_by_models('amfm', turns)] == [beyond, 0]
    item = ScoringItem((), 'a', references=(long, 'b'))
    assert [one.cut for one in scores_by_models('amfm_references', [item])] == [beyond]


def test_a_measured_scale_puts_the_median_at_one():
    # 101 equally spaced numbers: the 5 % quantile is 5, the median 50
    assert measured_scale(range(101)) == (5.0, 45.0)


def test_an_encoder_decoder_reads_no_joined_strings(scores_by_models, tmp_path):
    with user_error('judge_model_file'):
        scores_by_models('amfm', ITEMS, judge_model_file=make_model(tmp_path, 'bart'))


def test_with_references_the_nearest_counts(scores_by_models, folders):
    item = ScoringItem(tuple(TEXTS[:1]), TEXTS[1], references=(TEXTS[2], TEXTS[3]))
    [score] = scores_by_models('amfm_references', [item])
    own, *others = (embedding(folders['encoder'], text) for text in TEXTS[1:4])
    assert score.values['AM'] == pytest.approx(
        max(cosine(own, other) for other in others), abs=1e-5
    )
    totals = (string_logprob(folders['judge_model_file'], t + END) for t in TEXTS[1:4])
    loss, *losses = (total / n for total, n in totals)
    # compute_wr.py: max / min of the negative means
    ratio = max(max(loss, one) / min(loss, one) for one in losses)
    assert score.values['FM'] == pytest.approx(ratio, rel=1e-4)
    mean = (score.values['AM'] + score.values['FM']) / 2
    assert score.values['Overall'] == pytest.approx(mean)
