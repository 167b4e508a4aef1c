"""
Scorers with weights that were learned from annotations.

The learned judge: its numbers by pencil, its weights, what it scores, and how near
responses are to the corpora on which it was tried. The adapter with which its encoder
reads a response: what it changes for a while, which tokens it reads, and that a
response's number is its own. Composite: terms by pencil, bounds as properties, and
planted responses that must lose; and Correlation Re-Scaling: weights by pencil. A
scorer that was fitted on human scores says so.
"""

import hashlib
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save
from torch import nn

from parlai_ext import zoo_configs
from parlai_ext.core import Question
from parlai_ext.core.records import WrongType, read_record
from parlai_ext.data.judged import card_names
from parlai_ext.files import read_file
from parlai_ext.judge_check.perturbations import PARROTS, parrot_text
from parlai_ext.models.encoders import (
    MOST_TOKENS,
    MeanPooling,
    ResponseReader,
    changed_layers,
    pair_ids,
    response_tokens,
)
from parlai_ext.models.likelihood import Causal
from parlai_ext.scoring.base import ItemScore, ScoringItem
from parlai_ext.scoring.judged_corpora import (
    CORPORA,
    THRESHOLD,
    JudgedCorpora,
    vector_in_dialogue,
)
from parlai_ext.scoring.learned import (
    ADAPTED,
    ADAPTER,
    BLOCKS,
    CARD,
    HIGHEST,
    LOWEST,
    METRICS,
    NUMBERS,
    TERMS,
    BlockWeights,
    Composite,
    CompositeWeights,
    CrsCorrelations,
    JudgeWeights,
    Learned,
    LearnedOptions,
    Reading,
    Term,
    adapter_reader,
    joined_score,
    new_words,
    overall_score,
    read_responses,
    read_weights,
    repeated_words_share,
    rescaled_weights,
    stacked_inputs,
    words_of,
)
from parlai_ext.scoring.registry import find_scorer, load_protocol_file
from parlai_ext.scoring.score_run import ChosenScorer
from parlai_ext.training.fit_judge import write_judge
from tests.support.causal_models import GPT2, make
from tests.support.scoring_samples import KnownEncoder, KnownJudge
from tests.support.user_error import user_error
from tests.support.written import written

EAST, NORTH = np.eye(2, dtype=np.float32)
CONTEXT = ('do you like dogs ?', 'yes , i have two', 'what are your dogs called ?')


@pytest.mark.parametrize(
    'context, response, expected',
    [
        (
            CONTEXT,
            'my dogs are called rex and max',
            {
                'likelihood': -2,
                'gain': 2,
                'least_likely': -3,
                'total_gain': 0.4,
                # 3 of 7 words stand in the last turn
                'in_last': 3 / 7,
                # of its 6 pairs of neighbours none does
                'pairs_in_last': 0,
                # "dogs", "called" are no stop words; both are said
                'last_content_said': 1,
                'words': np.log(8),
                'words_to_20': 0.7,
                'first_person': 1 / 7,
                'answers_question': 1,
                'no_end': 1,
                'small_letters': 1,
                'turns_before': 3,
            },
        ),
        # an echo
        (
            CONTEXT,
            'What are your dogs called?',
            {'in_last': 1, 'pairs_in_last': 1, 'last_said': 1, 'copied': 1},
        ),
        # the response is the first turn's vector, at a right angle to the second's
        (
            CONTEXT[:2],
            'well',
            {'near_last': 0, 'near_own': 1, 'nearest': 1, 'near_mean': 0.5},
        ),
        ((), 'hello there', {'nearest': 0, 'in_last': 0, 'copied': 0}),
    ],
)
def test_numbers_by_pencil(context, response, expected):
    turns = np.stack([EAST, NORTH][: len(context)]) if context else np.zeros((0, 1))
    reading = Reading((-1.0, -3.0), (-2.0, -6.0), np.zeros(3), EAST, turns)
    [row] = stacked_inputs([ScoringItem(context, response)], [reading])['numbers']
    found = dict(zip(NUMBERS, row, strict=True))
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-6)


def weights():
    """
    Return weights of which only the number of words counts: twice its value.
    """
    blocks = {
        name: BlockWeights(np.zeros(size), np.ones(size), np.zeros(size))
        for name, size in zip(BLOCKS, (len(NUMBERS), 3, 4), strict=True)
    }
    blocks['numbers'].weight[NUMBERS.index('words_to_20')] = 2
    return JudgeWeights(blocks, 0.5, '', {}, ('some set',))


def write(folder: Path, judge: JudgeWeights, **changed):
    write_judge(judge, folder, {})
    card = yaml.safe_load((folder / CARD).read_text())
    (folder / CARD).write_text(yaml.safe_dump(card | changed))
    return str(folder)


def with_adapter(folder: Path, data: bytes = b'') -> str:
    """
    Write weights with an adapter that counts 3 times what it says.
    """
    judge = weights()
    judge.blocks[ADAPTED] = BlockWeights(np.zeros(1), np.ones(1), np.full(1, 3.0))
    adapter = save(HEAD)
    write_judge(
        replace(judge, models={'embedder': 'mpnet'}, adapter=adapter), folder, {}
    )
    if data:
        (folder / ADAPTER).write_bytes(data)
    return str(folder)


HEAD = {
    'hid.weight': np.ones((2, 4), np.float32),
    'hid.bias': np.zeros(2, np.float32),
    'top.weight': np.ones((1, 2), np.float32),
    'top.bias': np.zeros(1, np.float32),
}


def test_an_adapter_is_written_signed_and_read_with_the_weights(tmp_path):
    folder = with_adapter(tmp_path / 'mine')
    scorer = Learned(LearnedOptions(weights=folder))
    assert scorer.evidence_labels == (*BLOCKS, ADAPTED)
    whole = hashlib.sha256(save(HEAD)).hexdigest()
    assert scorer.signed['adapter'] == whole[:16]
    assert scorer.weights.fitted_on == ('some set',)
    numbers = np.zeros((1, len(NUMBERS)))
    numbers[0, NUMBERS.index('words_to_20')] = 0.7
    inputs = {'numbers': numbers, ADAPTED: np.array([[0.5]])}
    inputs |= {'states': np.zeros((1, 3)), 'products': np.zeros((1, 4))}
    [parts] = scorer.weights.parts(inputs)
    # 2 * 0.7 of the numbers, 3 * 0.5 of the adapter, nothing of the others
    assert parts.tolist() == pytest.approx([1.4, 0, 0, 1.5])


def test_another_adapter_or_another_encoder_is_refused(tmp_path):
    folder = with_adapter(tmp_path / 'mine')
    with user_error("encoder: 'minilm'.*learned with mpnet"):
        Learned(LearnedOptions(weights=folder, encoder='minilm'))
    other = with_adapter(tmp_path / 'other', save({**HEAD, 'top.bias': np.ones(1)}))
    with user_error(f'adapter_sha256.*{ADAPTER}'):
        read_weights(other)


def test_a_judge_that_is_no_causal_language_model_is_refused():
    with user_error('judge_model_file: a causal language model'):
        read_responses(object(), None, [ScoringItem((), 'hello')])


def test_what_the_encoder_does_not_read_is_counted(monkeypatch):
    judge = KnownJudge(lambda context, ids: [-1.0])
    encoder = KnownEncoder(lambda text: [1.0, 0.0])
    # an encoder of three words
    monkeypatch.setattr(
        encoder, 'cut_tokens', lambda texts: [max(0, len(t.split()) - 3) for t in texts]
    )
    judge.answer_with_states = lambda questions, layers: (
        judge.answer(questions),
        np.zeros((len(questions), 1)),
    )
    turns = ('it reads the last three', 'a', 'b', 'one two three four five')
    items = [ScoringItem(turns, 'six seven eight nine'), ScoringItem(turns, 'ten')]
    assert [one.cut for one in read_responses(judge, encoder, items)] == [2 + 1, 2]


def test_an_input_far_from_the_mean_is_cut():
    block = BlockWeights(np.array([1.0]), np.array([2.0]), np.array([3.0]))
    # (100 - 1) / 2 is cut to 4 spreads
    assert block.scaled(np.array([[100.0]])) @ block.weight == pytest.approx([12])


@pytest.mark.parametrize(
    'changed, says',
    [({'sha256': '0'}, 'sha256'), ({'inputs': ['words']}, 'inputs')],
)
def test_a_card_that_does_not_fit_is_refused(tmp_path, changed, says):
    with user_error(f'judge.yaml.*{says}'):
        read_weights(write(tmp_path / 'mine', weights(), **changed))


def test_an_unknown_judge_is_refused_by_name():
    with user_error('shiped.*shipped'):
        read_weights('shiped')


def test_the_shipped_judge_is_whole():
    judge = read_weights('shipped')
    # layer 20 of smollm2-135m has 576 features, mpnet 768
    sizes = [len(block.weight) for block in judge.blocks.values()]
    assert sizes == [len(NUMBERS), 576, 2 * 768, 1]
    # the six linear layers of each of mpnet's twelve
    assert len(adapter_reader(judge.adapter).changes) == 72


@pytest.fixture(scope='module')
def judge():
    return Causal(make('GPT2', GPT2), None, '', start=1, positions=256)


def test_a_protocol_that_names_no_scorer_gets_it(tmp_path):
    path = tmp_path / 'mine.yaml'
    path.write_text('roster: mini\nscorer: {encoder: minilm}\n')
    scorer = load_protocol_file(str(path)).protocol.scorer
    assert scorer == {'name': 'learned', 'encoder': 'minilm'}


def test_states_are_those_of_a_plain_pass(judge):
    asked = [Question((5, 6, 7), ((8, 9, 2), (8, 3, 2))), Question((5, 6), ((11, 2),))]
    answers, states = judge.answer_with_states(asked, 1)
    assert answers == judge.answer(asked)
    for question, found in zip(asked, states, strict=True):
        ids = [*question.context, *question.continuations[0]]
        with torch.inference_mode():
            plain = judge.model(
                input_ids=torch.tensor([ids]), output_hidden_states=True
            )
        # of all tokens but the last
        expected = plain.hidden_states[1][0, len(question.context) : -1].mean(0)
        assert found == pytest.approx(expected.numpy(), abs=1e-5)


def test_a_layer_that_is_not_there_is_refused(judge):
    with user_error('layer 99'):
        judge.answer_with_states([Question((5,), ((6, 2),))], 99)


@pytest.mark.parametrize(
    'judge, alike, value',
    [
        # one spread above BERTScore's mean: (0.5 + 1) / 2
        (0.5, 0.43, 0.75),
        # the reference itself is five spreads above, which are cut to four
        (0.0, 1.0, 2.0),
    ],
)
def test_the_mean_with_references_by_pencil(judge, alike, value):
    judged = ItemScore({'Overall': judge}, evidence=[0.1, 0.2, 0.3], cut=2)
    joined = joined_score(judged, ItemScore({'Overall': alike}))
    assert joined.values['Overall'] == pytest.approx(value)
    assert joined.evidence == [0.1, 0.2, 0.3, alike]
    assert joined.cut == 2


def test_without_a_bertscore_there_is_no_score_with_references():
    silent = ItemScore({'Overall': None}, {'Overall': 'empty'})
    joined = joined_score(ItemScore({'Overall': 0.5}, evidence=[0.5, 0, 0]), silent)
    assert joined.values['Overall'] is None
    assert joined.reasons['Overall'] == 'empty'


def test_every_number_of_the_evidence_has_its_label():
    scorer = find_scorer('learned_references').from_section({}, None)
    east = np.eye(768, dtype=np.float32)[0]
    reading = Reading([-1.0], [-1.0], np.zeros(576), east, np.stack([east]))
    evidence = scorer.evidence(np.zeros(len(scorer.weights.blocks)), reading)
    judged = ItemScore({'Overall': 0.5}, evidence=evidence)
    joined = joined_score(judged, ItemScore({'Overall': 0.43}))
    found = dict(zip(scorer.evidence_labels, joined.evidence, strict=True))
    assert -1 <= found['nearness'] <= 1
    assert found['bertscore'] == 0.43


TENSORS = {
    'north': np.stack([NORTH, -NORTH]).astype(np.float16),
    'east': EAST[None].astype(np.float16),
    THRESHOLD: np.array([0.3], np.float32),
}


def test_the_vector_of_a_response_lies_between_it_and_its_last_turn():
    # 45 degrees between east and north; turns before the last do not count
    turns = np.stack([-EAST, NORTH])
    assert vector_in_dialogue(EAST, turns) == pytest.approx([0.5**0.5] * 2)
    assert vector_in_dialogue(EAST, np.zeros((0, 1))) == pytest.approx(EAST)


@pytest.mark.parametrize(
    'vector, nearness, corpus',
    [((0.8, -0.6), 0.8, 'east'), ((0, -1), 1, 'north')],
)
def test_the_nearest_corpus_has_the_highest_cosine(vector, nearness, corpus):
    corpora = JudgedCorpora.from_tensors(TENSORS)
    value, place = corpora.nearest(np.array(vector, np.float32))
    assert value == pytest.approx(nearness)
    assert corpora.names[place] == corpus
    assert corpora.threshold == 0.3


def test_corpora_lie_beside_the_card_and_are_not_signed(tmp_path):
    folder = write(tmp_path / 'mine', weights(), models={'embedder': 'mpnet'})
    assert read_weights(folder).corpora is None
    before = Learned(LearnedOptions(weights=folder))
    (tmp_path / 'mine' / CORPORA).write_bytes(save(TENSORS))
    after = Learned(LearnedOptions(weights=folder))
    assert before.signed == after.signed
    assert before.evidence_record == {}
    record = after.evidence_record['corpora']
    assert record == {'names': ['east', 'north'], 'threshold': 0.3}
    # another encoder's vectors cannot be compared
    other = Learned(LearnedOptions(weights=folder, encoder='minilm'))
    assert other.evidence_record == {}


@pytest.mark.parametrize(
    'tensors', [{}, {'north': TENSORS['north']}, {THRESHOLD: EAST}]
)
def test_a_file_without_corpora_is_refused(tmp_path, tensors):
    folder = write(tmp_path / 'mine', weights())
    (tmp_path / 'mine' / CORPORA).write_bytes(save(tensors))
    with user_error(CORPORA):
        read_weights(folder)


# === Composite and Correlation Re-Scaling =============================================

SAID = ('I bought a red car today.', 'Which one did you buy?', 'The small one.')
GOOD = 'A Fiat, it was cheap and it drives well.'


class KnownModels(KnownJudge):
    """
    Models that like every text: probability 1 after a context, cosine 1.
    """

    def __init__(self, tell=lambda context, text: (0.0,)):
        super().__init__(tell)

    def embedder(self, name):
        return self

    def encode(self, texts):
        return np.ones((len(texts), 2))


def overall(response, context=SAID, models=None, **options):
    options = {'judge_model_file': 'known', 'encoder': 'known', **options}
    scorer = Composite.from_section(options, models or KnownModels())
    [score] = scorer.checked_scores([ScoringItem(context, response)])
    return score.values['Overall']


# --- what is repeated -----------------------------------------------------------------


@pytest.mark.parametrize(
    'response, earlier, expected',
    [
        # pairs: a-b b-c c-d, all of them said before: 2 * 1 - 1
        ('a b c d', ['x', 'a b c d'], 1),
        # three of four pairs: 2 * 3/4 - 1
        ('a b c d e', ['a b c d'], 0.5),
        # half of the pairs is no repetition, and utterances do not add up
        ('a b c d e', ['a b c', 'c d e'], 0),
        # a-b is there twice among a-b b-a a-b
        ('a b a b', [], 2 / 3),
        ('Ok!', ['ok'], 1),
        ('ok', ['ok, let us go'], 0),
    ],
)
def test_repeated_words_share_by_pencil(response, earlier, expected):
    share = repeated_words_share(words_of(response), [*map(words_of, earlier)])
    assert share == pytest.approx(expected)


# --- what is new ----------------------------------------------------------------------


@pytest.mark.parametrize(
    'context, response, expected',
    [
        (('I like my dog.',), 'You say I like my dog, and I agree.', 'say and agree'),
        # persons do not count: a mirror has no word of its own
        (('I like my dog.',), 'You like your dog!', ''),
        (("I'm sad",), "You’re sad? I'm sorry.", 'sorry'),
        # the partner's last two turns count, neither own turns nor older ones
        (('a bear', 'own', 'a cat', 'own', 'a dog'), 'bear, own, cat, dog', 'bear own'),
        ((), 'Hello there', 'hello there'),
    ],
)
def test_new_words_by_pencil(context, response, expected):
    assert new_words(ScoringItem(context, response)) == expected.split()


class TopicModels(KnownModels):
    """
    Finds every text equally likely, and texts alike by their share of words about dogs.
    """

    def encode(self, texts):
        about = [
            sum(word in ('dog', 'puppy', 'leash', 'bark') for word in words_of(text))
            for text in texts
        ]
        rest = [0.1 * len(words_of(text)) for text in texts]
        return np.array([about, rest]).T + 1e-9


ABOUT_A_DOG = ('A dog can bark.', 'I have a dog.')


@pytest.mark.parametrize('kind', PARROTS)
def test_what_says_something_is_above_every_parrot(kind):
    heard = (ABOUT_A_DOG[1], ABOUT_A_DOG[1])
    models = TopicModels()
    reply = 'Is it still a puppy, and does it bark when it is on a leash?'
    own = overall(reply, ABOUT_A_DOG, models)
    for number in range(len(PARROTS[kind].wordings())):
        text = parrot_text(kind, heard, number)
        assert overall(text, ABOUT_A_DOG, models) < own, text


# --- the score ------------------------------------------------------------------------


def test_overall_by_pencil():
    terms = {
        'likelihood': Term(centre=-3, spread=2, weight=0.75),
        'relevance': Term(centre=8, spread=4, weight=0.25),
    }
    # (-2 - -3) / 2 = 0.5 and (12 - 8) / 4 = 1
    values = {'likelihood': -2.0, 'relevance': 12.0}
    assert overall_score(terms, values, 0) == pytest.approx(0.75 * 0.5 + 0.25 * 1)
    # half of it repeated: half of the way to -2
    assert overall_score(terms, values, 0.5) == pytest.approx((0.625 - 2) / 2)
    # a term without a value counts as its centre
    values['relevance'] = None
    assert overall_score(terms, values, 0) == pytest.approx(0.75 * 0.5)


numbers = st.floats(-1e9, 1e9)
SHIPPED = Composite.from_section({}).terms


@given(numbers, numbers, numbers, st.floats(0, 1))
def test_no_term_can_run_away(likelihood, cosine, length, repeated):
    values = dict(zip(TERMS, (likelihood, cosine, length), strict=True))
    score = overall_score(SHIPPED, values, repeated)
    assert LOWEST - 1e-9 <= score <= HIGHEST + 1e-9


@pytest.mark.parametrize(
    'response', [SAID[-1], SAID[1], SAID[0], '. . . .', '', 'no no no no']
)
def test_nothing_helps_a_response_that_repeats_or_has_no_word(response):
    # although the models find every text likely and relevant
    assert overall(response) == LOWEST
    assert LOWEST < overall(GOOD) <= HIGHEST and overall(GOOD, context=()) > LOWEST


def test_a_response_without_a_probability_has_no_score():
    assert overall(GOOD, models=KnownModels(lambda *_: (-math.inf,))) is None


# --- weights --------------------------------------------------------------------------


def test_the_name_of_the_weights_is_not_signed_but_their_numbers_are(tmp_path):
    def signature(weights):
        section = {'judge_model_file': 'x', 'encoder': 'x', 'weights': weights}
        return Composite.from_section(section, KnownModels()).signature

    text = 'terms: {likelihood: {centre: -3, spread: 1, weight: 1}}\n'
    texts = {'one': text, 'same': text, 'other': text.replace('-3', '-4')}
    one, same, other = (
        signature(str(written(tmp_path, f'{name}.yaml', data)))
        for name, data in texts.items()
    )
    assert one == same != other


@pytest.mark.parametrize(
    'term, key',
    [
        ('likelyhood: {centre: 0, spread: 1, weight: 1}', 'likelyhood'),
        ('likelihood: {centre: 0, spread: 1}', 'weight'),
        ('likelihood: {centre: 0, spread: 0, weight: 1}', 'spread'),
        ('likelihood: {centre: 0, spread: 1, weight: 0.5}', 'sum to 1'),
    ],
)
def test_mistakes_in_a_file_of_weights_are_named(tmp_path, term, key):
    path = written(tmp_path, 'mine.yaml', f'terms:\n  {term}\n')
    doc = read_file(path)
    with user_error(f'mine.yaml:[12].*{key}'):
        doc.record(CompositeWeights)


def test_the_protocols_of_papers_and_demos_keep_theirs():
    folder = zoo_configs.HOME / 'protocols'
    papers = [path.stem for path in folder.glob('*_2022.yaml')]
    names = [*papers, 'demo', 'chatmatch_demo', 'fed_table1_demo']
    scorers = {load_protocol_file(n).protocol.scorer['name'] for n in names}
    assert scorers <= {'fed', 'chatmatch'}


def test_where_its_models_are_absent_one_line_names_another_scorer():
    chosen = ChosenScorer({'name': 'composite', 'judge_model_file': '/no/such/model'})
    for build in (chosen.check, chosen.build):
        with user_error('/no/such/model.*--scorer fed'):
            build()


SCALE = {name: {'centre': 0.0, 'spread': 1.0} for name in METRICS}


@pytest.mark.parametrize(
    'correlations, weights',
    [
        # below zero nothing; 0.3 : 0.1, and the larger is 3/4 of the sum: the first
        # power is enough
        ({'a': 0.3, 'b': 0.1, 'c': -0.4}, {'a': 0.75, 'b': 0.25, 'c': 0}),
        # what is alike is raised to a power: 0.4 / 1.3 < 1/3, 0.16 / 0.43 > 1/3
        (
            {'a': 0.4, **dict.fromkeys('bcd', 0.3)},
            {'a': 16 / 43, **dict.fromkeys('bcd', 9 / 43)},
        ),
        # equal ones weigh the same, and none nothing
        (dict.fromkeys('abcd', 0.2), dict.fromkeys('abcd', 0.25)),
        ({'a': -0.1, 'b': 0.0}, {'a': 0, 'b': 0}),
    ],
)
def test_rescaled_weights_by_pencil(correlations, weights):
    assert rescaled_weights(correlations) == pytest.approx(weights)


def test_weights_of_a_quality_are_the_mean_over_its_sets():
    one = dict(zip(METRICS, (0.2, 0.2, 0.0, 0.0), strict=True))  # 1/2, 1/2
    other = dict(zip(METRICS, (0.0, 0.5, 0.0, -1.0), strict=True))  # 0, 1
    data = {'metrics': SCALE, 'correlations': {'Wit': {'x': one, 'y': other}}}
    terms = read_record(CrsCorrelations, data).terms()
    weights = {name: term.weight for name, term in terms['Wit'].items()}
    assert weights == pytest.approx(dict(zip(METRICS, (0.25, 0.75, 0, 0), strict=True)))
    assert terms['Wit']['length'] == Term(centre=0.0, spread=1.0, weight=0.0)


@pytest.mark.parametrize(
    'data, place',
    [
        ({'metrics': SCALE, 'correlations': {}}, 'correlations'),
        ({'metrics': SCALE, 'correlations': {'Wit': {}}}, 'correlations.Wit'),
        ({'metrics': SCALE, 'correlations': {'Wit': {'x': {}}}}, 'correlations.Wit.x'),
        ({'metrics': {}, 'correlations': {}}, 'metrics.likelihood'),
    ],
)
def test_a_mistake_in_the_file_is_named(data, place):
    with pytest.raises(WrongType, match=place):
        read_record(CrsCorrelations, data)


# === Fitted on human scores ===========================================================


@pytest.mark.parametrize(
    'name, data',
    [
        ('learned', 'dstc9_interactive'),  # docs/learned_method.md
        ('usr', 'usr_topical'),  # the authors' regression
        ('bleurt', 'translations of WMT'),
    ],
)
def test_a_scorer_fitted_on_human_scores_says_on_which(name, data):
    assert data in find_scorer(name).from_section({}).fitted_on


def test_the_weights_of_composite_say_on_which_sets_they_were_fitted():
    # docs/composite.md, "How it was fitted"
    fitted_on = set(Composite.from_section({}).fitted_on)
    assert {'usr_topical', 'zhao_dailydialog', 'chanel_jsalt'} <= fitted_on
    assert not fitted_on & {'fed_turn', 'grade_convai2', 'topical_dstc10'}
    assert fitted_on <= set(card_names())


def test_weights_of_ones_own_say_it_themselves(tmp_path):
    def fitted_on(**given):
        terms = {
            name: {'centre': 0, 'spread': 1, 'weight': 1 / 3}
            for name in ('likelihood', 'relevance', 'length')
        }
        path = written(tmp_path, 'mine.yaml', {'terms': terms, **given})
        return Composite.from_section({'weights': str(path)}).fitted_on

    assert fitted_on() == ()
    assert fitted_on(fitted_on=['mine']) == ('mine',)
    with user_error('mine.yaml:1: fitted_on'):
        fitted_on(fitted_on='mine')


# === The adapter of the learned judge =================================================

LAYER = 'encoder.layer.0.attention.self.query'


@pytest.fixture(scope='module')
def encoder(encoder_folder):
    encoder = MeanPooling(Path(encoder_folder), torch.device('cpu'))
    tokenizer = encoder.tokenizer
    tokenizer.cls_token = tokenizer.sep_token = tokenizer.eos_token
    return encoder


def test_changed_layers_give_what_changed_weights_give():
    network = nn.Sequential(nn.Linear(2, 1, bias=False))
    network[0].weight.data = torch.tensor([[1.0, 0]])
    change = torch.tensor([[0.0, 1]]), torch.tensor([[3.0]])
    given = torch.tensor([[5.0, 7]])
    with changed_layers(network, {'0': change}, torch.device('cpu')):
        # 5, and twice 3 * 7
        assert network(given).item() == 47
    assert network(given).item() == 5


def test_the_tokens_of_the_response_stand_after_the_second_last_end():
    end = 2
    inputs = {
        'input_ids': torch.tensor([[0, 7, end, 8, end, end, 9, 9, end, 1, 1]]),
        'attention_mask': torch.tensor([[1] * 9 + [0] * 2]),
    }
    assert response_tokens(inputs, end).long().tolist() == [[0] * 6 + [1] * 3 + [0] * 2]


def test_of_a_long_context_the_end_is_read(encoder):
    tokenizer = encoder.tokenizer
    end = tokenizer.sep_token_id
    short = pair_ids(encoder, (('hello', ' ', 'you'), 'dogs '))['input_ids']
    hello, you, dogs = (encoder.text_ids(text) for text in ('hello', 'you', 'dogs'))
    start = [tokenizer.cls_token_id]
    assert short == [*start, *hello, end, *you, end, end, *dogs, end]
    long = pair_ids(encoder, ((f'hello {"you " * 300}',), 'dogs'))['input_ids']
    assert len(long) == MOST_TOKENS
    assert long[1:3] == [*you, *you]


def test_words_of_a_user_are_no_end_tokens(encoder):
    end = encoder.tokenizer.sep_token
    ids = pair_ids(encoder, ((), f'dogs {end} dogs'))['input_ids']
    # that which begins, two in the middle, one at the end
    assert ids.count(encoder.tokenizer.sep_token_id) == 4


def test_a_number_does_not_depend_on_what_is_read_beside(encoder):
    width = encoder.model.config.hidden_size
    rng = np.random.default_rng(0)
    shapes = {
        f'{LAYER}.A': (2, width),
        f'{LAYER}.B': (width, 2),
        'hid.weight': (8, 2 * width),
        'hid.bias': (8,),
        'top.weight': (1, 8),
        'top.bias': (1,),
    }
    tensors = {n: rng.normal(size=s).astype(np.float32) for n, s in shapes.items()}
    reader = ResponseReader(save(tensors))
    pairs = [(('hello',), 'dogs'), ((), 'you you you'), (('dogs', 'hello'), '')]
    together = reader.numbers(encoder, pairs)
    assert len(set(together.tolist())) == 3
    alone = [reader.numbers(encoder, [pair])[0] for pair in pairs]
    assert together == pytest.approx(alone, abs=1e-5)
