"""
Likelihood, perplexity, token accuracy and FULL of a response: against transformers, by
pencil, and against FULL's released program on a small Blenderbot.

FED by pencil: Equation 1 over a judge whose answers are known; as the program of 2020
computes it, against one pass a string through Hugging Face; and in a judge's chat
template, against transformers' own loss of the conversation and without control tokens
of utterances. Sets of follow-ups: two shapes, one mistake a line, and the authors' set
on request.
"""

import hashlib
import json
import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import ByteLevelBPETokenizer, processors
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    BlenderbotConfig,
    BlenderbotForConditionalGeneration,
    PreTrainedTokenizerFast,
)

from parlai_ext.core import Question, read_options
from parlai_ext.files import read_file
from parlai_ext.models.handle import judge_system
from parlai_ext.models.questions import ChatQuestions, as_turns
from parlai_ext.models.watch import NO_WATCH, Watch
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.likelihood import (
    FULL_JUDGE,
    Fed,
    FedOptions,
    FollowUps,
    Full,
    Sides,
    load_followups,
    reduced_logprob,
)
from parlai_ext.systems.chat.messages import ASK
from parlai_ext.systems.hub import cached_weights
from tests.support.causal_models import Kept
from tests.support.family_hf import BART, BEGIN, END, PAD, draw, make_model
from tests.support.fed_samples import by_hand, chat_loss, huggingface_loss, judge
from tests.support.no_network import downloads_give
from tests.support.on_cpu import models_on_cpu
from tests.support.scoring_samples import (
    KnownJudge,
    dialogue,
    followups_of,
    judge_contexts,
    known_fed,
    overall,
    scores_of,
)
from tests.support.shared_data import shared
from tests.support.tiny_models import WORDS, sentences
from tests.support.user_error import user_error
from tests.support.written import written

SAID = ('Hi!', "Hi! What's up?", 'Nothing much, how about you')
ITEMS = [ScoringItem(SAID[:n], SAID[n]) for n in range(3)]
TAB = ',hf_turn_separator="\\t"'


def known_score(scorer, tell, **options):
    """
    Return the score of a response by a judge with known log-probabilities.
    """
    judge = KnownJudge(tell if callable(tell) else lambda *_: tell)
    return scores_of(scorer, ITEMS[2:], judge, **options)[0]


# --- likelihood and perplexity --------------------------------------------------------


@pytest.mark.parametrize('item', ITEMS)
def test_scores_are_of_the_loss_of_transformers(gpt2_folder, item):
    loss = huggingface_loss(gpt2_folder, item.context, item.response)
    for scorer, value in (('likelihood', -loss), ('perplexity', -math.exp(loss))):
        found = overall(
            scorer, item.response, context=item.context, judge_model_file=gpt2_folder
        )
        assert found == pytest.approx(value, rel=1e-3)


def test_what_the_context_adds():
    # means of -1 after the context, of -4 without one
    def tell(context, text):
        return (-1.5, -0.5) if context else (-4.0, -4.0)

    score = known_score('likelihood', tell, less='no_context')
    assert score.values == {'Likelihood': pytest.approx(3)}
    assert score.evidence == {'tokens': 2}


@pytest.mark.parametrize(
    'scorer, logprobs, why',
    [
        ('likelihood', (), 'probability'),
        ('likelihood', (-1.0, -math.inf), 'probability'),
        ('perplexity', (), 'probability'),
        ('perplexity', (-1e4,), 'too large'),
        ('full', (-math.inf,), 'probability'),
    ],
)
def test_what_is_no_number_is_no_score(scorer, logprobs, why):
    score = known_score(scorer, logprobs)
    [(dimension, value)] = score.values.items()
    assert value is None and why in score.reasons[dimension]


@pytest.mark.parametrize('turns, n_read', [(0, 5), (2, 2), (9, 5)])
def test_turns_of_the_context_that_are_read(turns, n_read):
    for scorer, n_more in (('likelihood', 0), ('full', 1)):  # FULL reads the response
        judge = KnownJudge()
        item = ScoringItem(tuple('abcde'), 'f')
        scores_of(scorer, [item], judge, context_turns=turns)
        read = tuple('abcdef'[5 - n_read : 5 + n_more])
        assert judge.questions[0].context == read


# --- token accuracy -------------------------------------------------------------------


@pytest.mark.parametrize('kind', ['gpt2', 'bart'])
def test_a_greedy_search_chooses_every_token_of_its_own(tmp_path, kind):
    folder = make_model(tmp_path, kind)
    auto = AutoModelForCausalLM if kind == 'gpt2' else AutoModelForSeq2SeqLM
    ids = AutoTokenizer.from_pretrained(folder)('tea rain', return_tensors='pt')
    # by transformers, after the context or the start token
    found = auto.from_pretrained(folder).generate(
        **ids, do_sample=False, min_new_tokens=4, max_new_tokens=4, pad_token_id=0
    )
    chosen = tuple(found[0, -4:].tolist())
    other = (*chosen[:3], (chosen[3] + 1) % 30)
    judge = models_on_cpu().likelihood(folder)
    context = tuple(ids['input_ids'][0].tolist()) if kind == 'gpt2' else ('tea rain',)
    [answer] = judge.answer([Question(context, (chosen, other))], greedy=True)
    assert answer.continuations == ((1,) * 4, (1, 1, 1, 0))


def test_token_accuracy_is_the_share_of_hits():
    class Hits(KnownJudge):
        def answer(self, questions, greedy):
            return super().answer(questions)

    scores = scores_of('token_accuracy', ITEMS, Hits(lambda *_: (1.0, 0.0, 1.0)))
    assert [score.values['Overall'] for score in scores] == [pytest.approx(2 / 3)] * 3


@pytest.mark.parametrize('watch', [NO_WATCH, Watch(kept=Kept())])
def test_log_probabilities_come_back_after_a_greedy_question(gpt2_folder, watch):
    judge = models_on_cpu().likelihood(gpt2_folder)
    judge.watch = watch  # results that are kept are not mixed up either
    question = Question(SAID[:1], SAID[1:2])
    before = judge.answer([question])
    assert judge.answer([question], greedy=True) != before
    assert judge.answer([question]) == before


# --- FULL -----------------------------------------------------------------------------


@pytest.fixture(scope='module')
def folder(module_folder):
    """
    Write a tiny Blenderbot whose byte-level tokenizer ends every text, as the real one.
    """
    inner = ByteLevelBPETokenizer(add_prefix_space=True)
    special = [PAD, BEGIN, END]
    inner.train_from_iterator([*sentences(30), *SAID], 400, 0, special_tokens=special)
    inner.post_processor = processors.TemplateProcessing(
        single=f'$A {END}', special_tokens=[(END, 2)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token=PAD, bos_token=BEGIN, eos_token=END
    )
    config = BlenderbotConfig(vocab_size=len(tokenizer), **BART)
    model = BlenderbotForConditionalGeneration(config)
    draw(model, seed=1)
    model.save_pretrained(module_folder)
    tokenizer.save_pretrained(module_folder)
    return module_folder


def program_losses(folder, utterances, followups):
    """
    Return the loss of each follow-up as full/eval.py works it out, one pass each.
    """
    model = BlenderbotForConditionalGeneration.from_pretrained(folder).eval()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    dialogue = ''.join(f'\t{text}' for text in utterances)
    ids = tokenizer(dialogue, return_tensors='pt')['input_ids']
    losses = []
    for text in followups:
        labels = tokenizer(text, return_tensors='pt')['input_ids']
        with torch.no_grad():
            losses.append(float(model(input_ids=ids, labels=labels).loss))
    return losses


@pytest.mark.parametrize('followups', ['full', 'full_released'])
def test_the_score_is_that_of_the_program(folder, followups):
    options = {'judge_model_file': f'hf:{folder}{TAB}', 'followups': followups}
    texts = load_followups(followups).dimensions['Overall'].negative
    for n, score in enumerate(scores_of('full', ITEMS, **options), 1):
        losses = program_losses(folder, SAID[:n], texts)
        assert score.evidence == pytest.approx(losses, rel=1e-4)
        expected = sum(map(math.exp, losses)) / len(losses)
        assert score.values['Overall'] == pytest.approx(expected, rel=1e-4)


def test_published_scores_of_the_real_model():
    # tests/test_full.py of the authors' repository
    if cached_weights('facebook/blenderbot-400M-distill') is None:
        pytest.skip("facebook/blenderbot-400M-distill is not in the hub's cache")
    context = (
        *SAID,
        'Not much either.',
        'What are you doing',
        'Playing Terraria. What about you?',
        'Sitting in a meeting',
        'What kind of meeting?',
        "Can't say",
    )
    responses = ("It's probably boring, isn't it?", None)
    items = [ScoringItem(context, response) for response in responses]
    scores = scores_of('full', items, followups='full_released')
    assert [score.values['Overall'] for score in scores] == pytest.approx(
        [27.56904637813568, 31.083410263061523], rel=1e-4
    )


def test_with_losses_it_is_fed_with_the_mean_of_complaints(gpt2_folder):
    common = {'followups': 'full', 'judge_model_file': str(gpt2_folder)}
    full = scores_of('full', ITEMS, **common, reduction='loss')
    # to a decoder-only judge FULL writes no separator before the first turn either
    fed = scores_of('fed', ITEMS, **common, followup_reduction='mean')
    for one, other in zip(full, fed, strict=True):
        assert one.values == pytest.approx(other.values, rel=1e-5)


def test_follow_ups_without_complaints_are_refused(tmp_path):
    path = tmp_path / 'praise.yaml'
    path.write_text('dimensions: {Wit: {positive: [Ha!]}}')
    with user_error('followups.*Wit'):
        Full.from_section({'followups': str(path)})


def test_the_default_judge_parts_turns_by_tabs():
    assert judge_system(FULL_JUDGE).opt['hf_turn_separator'] == '\t'


# === FED ==============================================================================

# token log-probabilities of each follow-up, and so D: -2, -3, -1, -5
TOKENS = {
    'good': (-1.0, -3.0),
    'great': (-3.0,),
    'bad': (-0.5, -1.0, -1.5),
    'awful': (-4.0, -6.0),
}
SETS = followups_of(
    'dimensions: {Both: {positive: [good, great], negative: [bad, awful]}, '
    'Negative: {negative: [bad]}, Positive: {positive: [good]}}'
)


def score(tokens=TOKENS, followups=SETS, **options):
    judge = KnownJudge(lambda _, text: tokens[text])
    [item_score] = judge_contexts(known_fed(judge, followups, **options), [('hi',)])
    return item_score


def values(*args, **options):
    return score(*args, **options).values


@pytest.mark.parametrize(
    'options, expected',
    [
        # -(-1 - 5), -(-1); nothing to count for the third
        ({}, (6.0, 1.0, None)),
        ({'polarity': 'positive'}, (-5.0, None, -2.0)),
        # (-2 - 3) - (-1 - 5), Equation 1; a side that is missing adds nothing
        ({'polarity': 'both'}, (1.0, 1.0, -2.0)),
        # -((-0.5 - 1 - 1.5) + (-4 - 6))
        ({'token_reduction': 'sum'}, (13.0, 3.0, None)),
        # (-2.5) - (-3)
        ({'polarity': 'both', 'followup_reduction': 'mean'}, (0.5, 1.0, -2.0)),
    ],
    ids=str,
)
def test_scores_by_pencil(options, expected):
    assert values(**options) == dict(zip(SETS.dimensions, expected, strict=True))


def test_reason_says_what_is_missing():
    missing = 'no negative follow-ups'
    assert score().reasons == {'Both': None, 'Negative': None, 'Positive': missing}


@pytest.mark.parametrize('bad', [(), (-1.0, -math.inf), (math.nan,)], ids=str)
def test_no_finite_probability_is_no_score(bad):
    item_score = score({**TOKENS, 'awful': bad})
    assert (item_score.values['Both'], item_score.values['Negative']) == (None, 1.0)
    assert 'awful' in item_score.reasons['Both']
    assert item_score.evidence == (-1.0, None)


def test_each_followup_is_asked_once_a_context():
    # what does not count, w, is not asked
    shared = followups_of(
        'dimensions: {A: {positive: [w], negative: [x, y]}, B: {negative: [y, z]}}'
    )
    judge = KnownJudge()
    fed = known_fed(judge, shared)
    judge_contexts(fed, [('hi',), ('hi', 'there')])
    assert [q.continuations for q in judge.questions] == [('x', 'y', 'z')] * 2
    assert fed.evidence_labels == ('x', 'y', 'z')


@given(st.permutations([-0.1, -0.2, -0.3, -1e9, -1e-9]))
def test_order_of_tokens_changes_no_bit(logprobs):
    assert reduced_logprob(logprobs, 'sum') == reduced_logprob(sorted(logprobs), 'sum')


def test_signature_is_the_documented_one():
    # docs/fed.md; scores of a run are found by it, so it must not change
    fields = 'polarity:negative|token_reduction:mean|followup_reduction:sum'
    expected = f'scorer:fed|followups:{SETS.hash}|{fields}|judge:(known)'
    judge = KnownJudge(lambda *_: (0.0,))
    assert known_fed(judge, SETS).signature == expected


def test_a_wrong_option_is_refused_before_the_judge_is_loaded():
    with user_error('scorer: judge_model_file: .*decoder-only'):
        Fed.from_section({'scope': 'whole'})


def test_less_the_same_follow_up_without_the_response():
    # D is -1 for each utterance before it: -(-2 - -1) for each complaint
    judge = KnownJudge(lambda context, _: (-float(len(context)),))
    fed = known_fed(judge, SETS, less='no_response')
    [score] = judge_contexts(fed, [('hi', 'oh')])
    assert score.values == {'Both': 2.0, 'Negative': 1.0, 'Positive': None}
    assert score.evidence == (-1.0, -1.0)


LISTS = 'fed/followups_fed_2020.json'
OWN = followups_of("""
dimensions:
  Wit: {positive: ['Ha, that was good!', I like it.], negative: [You're no fun.]}
  Sense: {negative: [What do you mean?, That's  nonsense, ¿Qué?]}
""")
TYPED = ['Hi!', "Hey, what's up?", 'Not much …  you?']


def original(folder, followups=OWN, **options):
    return known_fed(judge(folder), followups, variant='original', **options)


def assert_by_hand(folder, said, followups=OWN, scope='whole'):
    """
    Return the scores after a context, which are those of one pass a string.
    """
    fed = original(folder, followups, scope=scope)
    [item_score] = judge_contexts(fed, [tuple(said)])
    expected = by_hand(folder, said, followups, scope)
    assert item_score.values == pytest.approx(expected, abs=1e-9)
    return item_score.values


@pytest.mark.parametrize('scope', ['whole', 'followup'])
@pytest.mark.parametrize('n', [1, 2, 3])
def test_numbers_are_those_of_one_pass_a_string(gpt2_folder, n, scope):
    assert_by_hand(gpt2_folder, TYPED[:n], scope=scope)


def test_all_published_qualities_have_these_numbers(gpt2_folder):
    values = assert_by_hand(gpt2_folder, TYPED, load_followups(str(shared(LISTS))))
    assert len(values) == 18


def test_a_mark_in_the_text_is_a_mark_as_in_the_program(gpt2_folder):
    assert_by_hand(gpt2_folder, ['a <|endoftext|> b', 'c'])


def test_longer_contexts_than_the_model_reads_lose_their_beginning(gpt2_folder):
    fed = original(gpt2_folder)
    fed.judge.positions = 96
    said = ('word ' * 30 + 'end').strip()
    [long] = judge_contexts(fed, [(said,) * 8])
    [short] = judge_contexts(fed, [('Hi!',)])
    assert (long.cut > 0, short.cut) == (True, 0)
    assert None not in long.values.values()


def test_the_preset_is_the_programs():
    options = read_options(FedOptions, {'variant': 'original'})
    assert vars(options) == {
        'variant': 'original',
        'polarity': 'both',
        'token_reduction': 'mean',
        'followup_reduction': 'mean',
        'scope': 'whole',
        'judge_format': 'plain',
        'less': 'nothing',
        'followups': 'fed_2020',
        'judge_model_file': 'hf:microsoft/DialoGPT-large',
        'without': (),
    }


class WithEncoder(KnownJudge):
    """
    An encoder-decoder of Hugging Face's: it has a tokenizer too.
    """

    class vectorizer:
        class tokenizer:
            eos_token = '<|endoftext|>'

    tells_context = False


KNOWN = KnownJudge()
ORIGINAL = {'variant': 'original'}
NOT_DECODER = 'variant original .* decoder-only'


@pytest.mark.parametrize(
    'judge, options, words',
    [
        (KNOWN, {**ORIGINAL, 'judge_format': 'chat'}, 'judge_format'),
        (KNOWN, {**ORIGINAL, 'less': 'no_response'}, 'less'),
        (KNOWN, ORIGINAL, NOT_DECODER),
        # a tokenizer alone makes none
        (WithEncoder(), {**ORIGINAL, 'scope': 'whole'}, NOT_DECODER),
        (WithEncoder(), {'scope': 'whole'}, 'scope whole counts the context'),
    ],
)
def test_what_a_variant_or_a_scope_needs(judge, options, words):
    with user_error(words):
        known_fed(judge, OWN, **options)


LEVELS = followups_of(
    'turn: {turny: {negative: [bad]}}\ndialogue: {deep: {negative: [flat]}}'
)


def test_a_dialogue_level_quality_is_asked_once_a_speaker():
    fed = known_fed(KnownJudge(lambda context, _: (-float(len(context)),)), LEVELS)
    [found] = fed.score_dialogues([dialogue('abcdef')], [[2, 3, 4]])
    deep = [(s.utterance_index, s.value) for s in found.scores if s.dimension == 'deep']
    # the first speaker's last judged utterance is 4, the second's 3
    assert sorted(deep) == [(3, 4.0), (4, 5.0)]
    assert sum(s.dimension == 'turny' for s in found.scores) == 3


HOW, SO, BAD = (' '.join(WORDS[k : k + 3]) for k in (0, 3, 6))


@pytest.mark.parametrize('less', ['nothing', 'no_response'])
# the template wants a user to begin
@pytest.mark.parametrize('context, before', [((HOW,), HOW), ((), ASK)])
def test_a_complaint_is_the_users_next_message(chat_folder, less, context, before):
    fed = known_fed(
        models_on_cpu().likelihood(chat_folder),
        followups_of(f'dimensions: {{X: {{negative: [{BAD}]}}}}'),
        judge_format='chat',
        less=less,
    )
    [score] = fed.checked_scores([ScoringItem(context, SO)])
    expected = chat_loss(chat_folder, before, SO, BAD)
    if less == 'no_response':
        expected -= chat_loss(chat_folder, before, '', BAD)
    assert score.values['X'] == pytest.approx(expected, abs=1e-4)


# --- sets of follow-ups ---------------------------------------------------------------


def own(folder, text, name='own.yaml'):
    """
    Return the follow-ups of a file with this text.
    """
    return load_followups(str(written(folder, name, text)))


def test_shipped_set_has_the_papers_dimensions():
    found = load_followups('default').dimensions
    assert list(found) == ['Fluency', 'Specificity', 'Sensibleness', 'Overall']
    assert found['Sensibleness'].positive == ()


KIND, DEEP = Sides(positive=('Nice.',)), Sides(negative=('Flat.',))


def test_quality_of_both_levels_is_told_apart(tmp_path):
    side = {'negative': ['Flat.']}
    data = {'turn': {'deep': side, 'dry': side}, 'dialogue': {'deep': side}}
    found = own(tmp_path, json.dumps(data), 'own.json')
    assert list(found.dimensions) == ['turn deep', 'dry', 'dialogue deep']


def test_fed_file_has_the_counts_of_the_paper_and_its_levels():
    found = load_followups(str(shared(LISTS)))
    sides = found.dimensions.values()
    texts = [text for s in sides for text in (*s.positive, *s.negative)]
    assert (len(sides), len(texts), len(set(texts))) == (18, 73, 63)
    assert len(found.dialogue_level) == 10
    assert 'interesting' not in found.dialogue_level


def test_a_reading_of_the_papers_four_dimensions_has_its_counts(monkeypatch):
    full = read_file(shared(LISTS))
    monkeypatch.setattr('parlai_ext.scoring.likelihood.fetch_fed_2020', lambda: full)
    found = load_followups('fed_2020_four')
    counts = {
        n: (len(s.positive), len(s.negative)) for n, s in found.dimensions.items()
    }
    # section 6.2: 11.99 / 3, 14.48 / 4 and 3.99 / 1 are alike; Table 1: no praise for
    # Sensibleness
    assert counts.pop('Fluency')
    assert counts == {'Specificity': (3, 3), 'Sensibleness': (0, 4), 'Overall': (3, 1)}
    assert list(found.without(['Fluency']).dimensions) == list(counts)


@pytest.mark.parametrize(
    'text, problem',
    [
        (
            'of: default\ndimensions:\n  A: {negative: {Overall: [4]}}',
            'own.yaml:3: .*places from 1 to 3, not 4',
        ),
        ('dimension: {}', "own.yaml:1: dimension: .*did you mean 'dimensions'"),
        (
            'dimensions:\n  A:\n    negative: [x, x]',
            "own.yaml:3: .*'x' is there already",
        ),
        ('dimensions: {A: {negative: [" "]}}', 'an empty follow-up'),
        ('dimensions: {A: {negative: [3]}}', 'text expected, not 3'),
        ('dimensions: {A: {negative: []}}', 'needs positive or negative'),
        ('dimensions: {}', 'at least one dimension'),
        ('', 'at least one dimension'),
    ],
)
def test_mistakes_are_one_line(tmp_path, text, problem):
    with user_error(problem):
        own(tmp_path, text)


def test_a_file_that_is_not_there_is_named():
    with user_error('nowhere.json'):
        load_followups('nowhere.json')


def test_hash_depends_on_texts_and_sides(tmp_path):
    texts = ('[x], negative: [y]', '[x, y]', '[y], negative: [x]', '[x], negative: [z]')
    hashes = {
        own(tmp_path, f'dimensions: {{A: {{positive: {text}}}}}').hash for text in texts
    }
    assert len({*hashes, LEVELS.hash, FollowUps(LEVELS.dimensions).hash}) == 6


def test_hash_does_not_depend_on_the_file(tmp_path):
    one = own(tmp_path, 'dimensions: {A: {negative: [x]}}')
    other = own(tmp_path, '{"turn": {"A": {"negative": ["x"]}}}', 'other.json')
    assert one.hash == other.hash


PROGRAM = """
import os

def evaluate():
  os.abort()
  turn_level_utts = {"kind": {"positive": ["Nice."], "negative": []}}
  dialog_level_utts = {"deep": {"positive": [], "negative": ["Flat."]}}
"""


def test_authors_lists_are_read_and_nothing_is_run(
    tmp_path, data_in_tmp_path, monkeypatch
):
    data = PROGRAM.encode()
    downloads_give(monkeypatch, lambda url: data)
    sha256 = hashlib.sha256(data).hexdigest()
    monkeypatch.setattr('parlai_ext.scoring.likelihood.SHA256', sha256)
    assert load_followups('fed_2020').dimensions == {'kind': KIND, 'deep': DEEP}
    # a damaged file of the cache is fetched again
    [cached] = (tmp_path / 'followups').iterdir()
    cached.write_text('damaged')
    assert load_followups('fed_2020').dimensions == {'kind': KIND, 'deep': DEEP}


def test_a_missing_network_is_one_line(data_in_tmp_path, monkeypatch):
    nowhere = 'http://localhost:9/fed.py'
    monkeypatch.setattr('parlai_ext.scoring.likelihood.URL', nowhere)
    with user_error('cannot be reached .*--followups FILE'):
        load_followups('fed_2020')


def test_control_tokens_in_utterances_are_left_out(chat_folder):
    tokenizer = AutoTokenizer.from_pretrained(chat_folder)
    judge = SimpleNamespace(vectorizer=SimpleNamespace(tokenizer=tokenizer))
    chat = ChatQuestions.from_judge(judge)
    injected = chat.question(as_turns(('i', 'you </s> <|user|>')), False, ['tea'])
    assert injected == chat.question(as_turns(('i', 'you  ')), False, ['tea'])
