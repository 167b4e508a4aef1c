"""
Deep AM-FM: AM and FM against Hugging Face's own numbers, and their combination against
the arithmetic of the Track's program.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer, BertModel

from parlai_ext.core import Dialogue, Utterance
from parlai_ext.models.encoders import MeanPooling
from parlai_ext.scoring.base import ScoringItem, dialogue_items
from parlai_ext.scoring.relevance import AmFm, measured_scale, spoken_turns
from tests.support.family_hf import make_model
from tests.support.fed_samples import END, gpt2, make_gpt2, string_logprob, string_loss
from tests.support.on_cpu import models_on_cpu
from tests.support.scoring_samples import scores_of
from tests.support.tiny_models import sentences
from tests.support.tiny_trained import make_encoder
from tests.support.user_error import user_error

TEXTS = sentences(9)
ITEMS = [ScoringItem(tuple(TEXTS[:k]), TEXTS[k]) for k in range(1, 9)]


@pytest.fixture(scope='module')
def folders(encoder_folder, gpt2_folder):
    return {'encoder': encoder_folder, 'judge_model_file': gpt2_folder}


@pytest.fixture(scope='module')
def handle():
    return models_on_cpu()


@pytest.fixture
def scored(folders, handle):
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


def test_fm_is_that_of_the_program(scored, folders):
    scores = scored('amfm', ITEMS)
    expected = [
        program_coherence(folders['judge_model_file'], item.context[-1], item.response)
        for item in ITEMS
    ]
    assert column(scores, 'FM') == pytest.approx(expected, rel=1e-4)


def test_fm_of_turns_is_the_likelihood_after_the_last_turn(scored, folders, handle):
    given = {'judge_model_file': folders['judge_model_file'], 'context_turns': 1}
    expected = scores_of('likelihood', ITEMS, handle, **given)
    scores = scored('amfm', ITEMS, fm_format='turns')
    assert column(scores, 'FM') == column(expected, 'Likelihood')


@pytest.mark.parametrize('state', ['mean', 'pooler'])
def test_am_is_the_cosine_to_the_last_turn(scored, folders, state):
    vectors = [embedding(folders['encoder'], text, state) for text in TEXTS]
    expected = [cosine(vectors[k], vectors[k - 1]) for k in range(1, 9)]
    scores = scored('amfm', ITEMS, am_state=state)
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


def test_overall_is_the_programs_when_the_scales_are(scored):
    raw = [column(scored('amfm', ITEMS), name) for name in ('AM', 'FM')]
    am, fm = (float(np.quantile(values, 0.05)) for values in raw)
    fixed = {'am_cutoff': am, 'am_width': abs(am), 'fm_cutoff': fm, 'fm_width': abs(fm)}
    expected = np.mean([normed(values) for values in raw], axis=0)
    for options in (fixed, {'scale': 'quantile'}):
        scores = scored('amfm', ITEMS, **options)
        assert column(scores, 'Overall') == pytest.approx(expected, abs=1e-6)


def test_a_whole_dialogue_is_scaled_as_the_program_does_and_am_counts_against_it(
    scored,
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
        np.mean([column(scored('amfm', part), name) for part in (turns, last)], axis=0)
        for name in ('AM', 'FM')
    )
    whole = scored('amfm', dialogues, scale='quantile', dialogues='whole')
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
def test_what_cannot_be_compared_has_no_score(scored, scorer, options, why):
    [score] = scored(scorer, [ScoringItem((), 'tea')], **options)
    assert set(score.values.values()) == {None}
    assert why in score.reasons['Overall']


def test_strings_longer_than_the_model_lose_their_beginning(scored, tmp_path):
    judge = {'judge_model_file': str(make_gpt2(tmp_path, positions=64))}
    items = [ScoringItem(('tea ' * 90,), 'rain'), ScoringItem(('a',), 'tea ' * 90)]
    long, whole = scored('amfm', items, **judge)
    assert long.cut > 0 and long.values['FM'] < 0
    # of the last 64 tokens of a response all have a probability but the first
    model, tokenizer = gpt2(judge['judge_model_file'])
    ids = [*tokenizer.encode(f'a {items[1].response}'), tokenizer.eos_token_id]
    expected = -string_loss(model, ids[-64:])
    assert whole.values['FM'] == pytest.approx(expected, rel=1e-4)


def test_what_the_encoder_does_not_read_of_a_text_is_counted(scored, folders, handle):
    long = 'tea ' * 90
    [beyond] = handle.embedder(folders['encoder']).cut_tokens([long])
    assert beyond > 0
    turns = [ScoringItem(('a',), long), ScoringItem((long, 'a'), 'b')]
    assert [one.cut for one in scored('amfm', turns)] == [beyond, 0]
    item = ScoringItem((), 'a', references=(long, 'b'))
    assert [one.cut for one in scored('amfm_references', [item])] == [beyond]


def test_a_measured_scale_puts_the_median_at_one():
    # 101 equally spaced numbers: the 5 % quantile is 5, the median 50
    assert measured_scale(range(101)) == (5.0, 45.0)


def test_an_encoder_decoder_reads_no_joined_strings(scored, tmp_path):
    with user_error('judge_model_file'):
        scored('amfm', ITEMS, judge_model_file=make_model(tmp_path, 'bart'))


def test_with_references_the_nearest_counts(scored, folders):
    item = ScoringItem(tuple(TEXTS[:1]), TEXTS[1], references=(TEXTS[2], TEXTS[3]))
    [score] = scored('amfm_references', [item])
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
