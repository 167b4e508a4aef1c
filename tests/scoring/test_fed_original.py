"""
FED as the program of 2020 computes it, against one pass a string through Hugging Face.
"""

from dataclasses import replace

import pytest

from parlai_ext.core.options import read_options
from parlai_ext.scoring.fed import FedOptions
from parlai_ext.scoring.followups import FollowUps, Sides, load_followups
from tests.support.fed_samples import by_hand, judge, make_gpt2
from tests.support.scoring_samples import (
    KnownJudge,
    dialogue,
    judge_contexts,
    known_fed,
)
from tests.support.shared_data import shared
from tests.support.user_error import user_error

LISTS = 'fed/followups_fed_2020.json'
OWN = FollowUps(
    {
        'Wit': Sides(('Ha, that was good!', 'I like it.'), ("You're no fun.",)),
        'Sense': Sides((), ('What do you mean?', "That's  nonsense", '¿Qué?')),
    }
)
SAID = ['Hi!', "Hey, what's up?", 'Not much …  you?']


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
    assert_by_hand(gpt2_folder, SAID[:n], scope=scope)


def test_all_published_qualities_have_these_numbers(gpt2_folder):
    values = assert_by_hand(gpt2_folder, SAID, load_followups(str(shared(LISTS))))
    assert len(values) == 18


def test_turns_asked_together_are_turns_asked_alone(gpt2_folder):
    fed = original(gpt2_folder)
    contexts = [tuple(SAID[: n + 1]) for n in range(3)]
    together = [item_score.values for item_score in judge_contexts(fed, contexts)]
    alone = [judge_contexts(fed, [context])[0].values for context in contexts]
    for one, other in zip(together, alone, strict=True):
        assert one == pytest.approx(other, abs=1e-12)


def test_a_mark_in_the_text_is_a_mark_as_in_the_program(gpt2_folder):
    assert_by_hand(gpt2_folder, ['a <|endoftext|> b', 'c'])


def test_the_whole_string_is_praise_less_complaint_of_the_whole(gpt2_folder):
    # the context's part of the loss is there twice and cancels but for the lengths
    whole, followup = (
        judge_contexts(
            original(gpt2_folder, scope=scope, token_reduction='sum'), [tuple(SAID)]
        )[0]
        for scope in ('whole', 'followup')
    )
    assert whole.values['Wit'] == pytest.approx(followup.values['Wit'], abs=1e-9)
    assert whole.values['Sense'] != pytest.approx(followup.values['Sense'], abs=1)


def test_longer_contexts_than_the_model_reads_lose_their_beginning(tmp_path):
    fed = original(make_gpt2(tmp_path, positions=96))
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


def test_an_option_given_beside_the_variant_holds():
    options = read_options(FedOptions, {'variant': 'original', 'polarity': 'negative'})
    assert (options.polarity, options.scope) == ('negative', 'whole')


def signature(**options):
    return known_fed(WithTokenizer(), OWN, **options).signature


class WithTokenizer(KnownJudge):
    """
    A judge that could be asked for the original's strings.
    """

    class vectorizer:
        class tokenizer:
            eos_token = '<|endoftext|>'

    def __init__(self):
        super().__init__(lambda *_: (-1.0,))


def test_variant_and_scope_are_in_the_signature():
    preset = {'polarity': 'both', 'followup_reduction': 'mean'}
    found = {
        signature(**preset),
        signature(**preset, scope='whole'),
        signature(variant='original'),
        signature(variant='original', scope='followup'),
    }
    assert len(found) == 4


class WithEncoder(WithTokenizer):
    """
    An encoder-decoder of Hugging Face's: it has a tokenizer too.
    """

    tells_context = False


@pytest.mark.parametrize(
    'judge, options',
    [
        (KnownJudge(lambda *_: (-1.0,)), {}),
        # a tokenizer alone makes none
        (WithEncoder(), {'scope': 'whole'}),
        (WithEncoder(), {'scope': 'followup'}),
    ],
)
def test_the_original_needs_a_decoder_only_judge(judge, options):
    with user_error('variant original .* decoder-only'):
        known_fed(judge, OWN, variant='original', **options)


def test_an_encoder_decoder_is_refused_the_whole_string_before_it_reads():
    with user_error('scope whole counts the context'):
        known_fed(WithEncoder(), OWN, scope='whole')


def test_the_whole_string_needs_a_judge_of_contexts():
    fed = known_fed(KnownJudge(lambda *_: (-1.0,)), OWN, scope='whole')
    with user_error('scope whole counts the context'):
        judge_contexts(fed, [('hi',)])


def test_the_whole_string_counts_the_contexts_tokens():
    class Telling(KnownJudge):
        def answer(self, questions, with_context=False):
            found = super().answer(questions)
            return [
                replace(a, context=(-3.0, -5.0) if with_context else None)
                for a in found
            ]

    judged = Telling(lambda *_: (-1.0, -1.0))
    sets = FollowUps({'X': Sides((), ('bad',))})
    [item_score] = judge_contexts(known_fed(judged, sets, scope='whole'), [('hi',)])
    # -(-3 - 5 - 1 - 1) / 4
    assert item_score.values == {'X': 2.5}


LEVELS = FollowUps(
    {'turny': Sides((), ('bad',)), 'deep': Sides((), ('flat',))}, frozenset({'deep'})
)


def test_a_dialogue_level_quality_is_asked_once_a_speaker():
    fed = known_fed(KnownJudge(lambda context, _: (-float(len(context)),)), LEVELS)
    [found] = fed.score_dialogues([dialogue('abcdef')], [[2, 3, 4]])
    deep = [(s.utterance_index, s.value) for s in found.scores if s.dimension == 'deep']
    # the first speaker's last judged utterance is 4, the second's 3
    assert sorted(deep) == [(3, 4.0), (4, 5.0)]
    assert sum(s.dimension == 'turny' for s in found.scores) == 3


def test_levels_are_part_of_the_hash():
    assert LEVELS.hash != FollowUps(LEVELS.dimensions).hash


def test_published_levels_are_read():
    found = load_followups(str(shared(LISTS)))
    assert len(found.dialogue_level) == 10
    assert 'interesting' not in found.dialogue_level
