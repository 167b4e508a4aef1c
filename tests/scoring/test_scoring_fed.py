"""
FED by pencil: Equation 1 over a judge whose answers are known.
"""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parlai_ext.commands.score_dialogues import ScoreDialogues
from parlai_ext.core.options import options_of
from parlai_ext.scoring.fed import Fed, FedOptions, followup_score
from parlai_ext.scoring.followups import FollowUps, Sides
from tests.support.scoring_samples import (
    FIRST,
    SECOND,
    KnownJudge,
    dialogue,
    judge_contexts,
    known_fed,
)
from tests.support.user_error import user_error

# token log-probabilities of each follow-up, and so D: -2, -3, -1, -5
TOKENS = {
    'good': (-1.0, -3.0),
    'great': (-3.0,),
    'bad': (-0.5, -1.0, -1.5),
    'awful': (-4.0, -6.0),
}
SETS = FollowUps(
    {
        'Both': Sides(('good', 'great'), ('bad', 'awful')),
        'Negative': Sides((), ('bad',)),
        'Positive': Sides(('good',), ()),
    }
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


def test_blender_scores_of_the_paper_are_sums_of_mean_losses():
    # bipartite-play prints 14.48 for four complaints: a mean loss of 3.62 each
    tokens = {c: (-3.62, -3.62) for c in 'abcd'}
    followups = FollowUps({'Sensibleness': Sides((), tuple('abcd'))})
    assert values(tokens, followups)['Sensibleness'] == pytest.approx(14.48)


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
    shared = FollowUps({'A': Sides((), ('x', 'y')), 'B': Sides((), ('y', 'z'))})
    judge = KnownJudge(lambda *_: (-1.0,))
    fed = known_fed(judge, shared)
    judge_contexts(fed, [('hi',), ('hi', 'there')])
    assert [q.continuations for q in judge.questions] == [('x', 'y', 'z')] * 2
    assert fed.evidence_labels == ('x', 'y', 'z')


def test_followups_that_do_not_count_are_not_asked():
    fed = known_fed(KnownJudge(lambda _, t: TOKENS[t]), SETS)
    assert fed.evidence_labels == ('bad', 'awful')


def test_context_ends_with_the_judged_utterance():
    judge = KnownJudge(lambda _, t: TOKENS[t])
    known_fed(judge, SETS).score_dialogues([dialogue(['a', 'b', 'c', 'd'])], [[2, 3]])
    contexts = [question.context for question in judge.questions]
    assert contexts == [('a', 'b', 'c'), ('a', 'b', 'c', 'd')]


def test_scores_belong_to_who_spoke():
    judge = KnownJudge(lambda context, _: (-float(len(context)),))
    fed = known_fed(judge, FollowUps({'X': Sides((), ('bad',))}))
    said = [dialogue(['a', 'b', 'c', 'd'], name=name) for name in 'pq']
    found = fed.score_dialogues(said, [[2], [3, 0]])
    rows = [
        (s.dialogue_id, s.utterance_index, s.system, s.value)
        for one in found
        for s in one.scores
    ]
    assert rows == [('p', 2, FIRST, 3), ('q', 3, SECOND, 4), ('q', 0, FIRST, 1)]
    assert found[1].evidence == {3: (-4.0,), 0: (-1.0,)}


def test_nothing_to_judge_is_no_score():
    [found] = known_fed(KnownJudge(lambda _, t: TOKENS[t]), SETS).score_dialogues(
        [dialogue('ab')], [[]]
    )
    assert (found.scores, found.evidence) == ((), {})


@given(st.permutations([-0.1, -0.2, -0.3, -1e9, -1e-9]))
def test_order_of_tokens_changes_no_bit(logprobs):
    assert followup_score(logprobs, 'sum') == followup_score(sorted(logprobs), 'sum')


def signature(followups=SETS, judge='known', **options):
    likelihood = KnownJudge(lambda *_: (0.0,))
    likelihood.signature = judge
    return known_fed(likelihood, followups, **options).signature


@pytest.mark.parametrize(
    'other',
    [
        {'polarity': 'both'},
        {'token_reduction': 'sum'},
        {'followup_reduction': 'mean'},
        {'judge': 'another'},
        {'followups': FollowUps({'Both': Sides((), ('bad', 'awful!'))})},
    ],
    ids=lambda other: next(iter(other)),
)
def test_signature_tells_settings_apart(other):
    assert signature() != signature(**other)


def test_signature_is_the_documented_one():
    # docs/fed.md; scores of a run are found by it, so it must not change
    fields = 'polarity:negative|token_reduction:mean|followup_reduction:sum'
    expected = f'scorer:fed|followups:{SETS.hash}|{fields}|judge:(known)'
    assert signature() == expected


@pytest.mark.parametrize(
    ('section', 'key', 'hint'),
    [
        ({'polarity': 'negativ'}, 'polarity', "'negative'"),
        ({'polarty': 'both'}, 'polarty', "'polarity'"),
        ({'scope': 'whole'}, 'judge_model_file', 'decoder-only'),
    ],
)
def test_a_wrong_option_is_refused_before_the_judge_is_loaded(section, key, hint):
    with user_error(f'scorer: {key}: .*{hint}'):
        Fed.from_section(section)


def test_every_option_is_a_flag_of_scoring():
    flags = {action.dest for action in ScoreDialogues.parser()._actions}
    assert {one.dest('fed') for one in options_of(FedOptions).values()} <= flags


@pytest.mark.parametrize(
    ('section', 'expected'),
    [
        ({}, 'zoo:blender/blender_9B/model'),
        (
            {'variant': 'original', 'followups': 'default'},
            'hf:microsoft/DialoGPT-large',
        ),
    ],
)
def test_each_variant_has_its_papers_judge(section, expected):
    assert Fed.from_section(section).named_models() == [('likelihood', expected)]


def test_less_the_same_follow_up_without_the_response():
    # D is -1 for each utterance before it: -(-2 - -1) for each complaint
    judge = KnownJudge(lambda context, _: (-float(len(context)),))
    fed = known_fed(judge, SETS, less='no_response')
    [score] = judge_contexts(fed, [('hi', 'oh')])
    assert score.values == {'Both': 2.0, 'Negative': 1.0, 'Positive': None}
    assert score.evidence == (-1.0, -1.0)


@pytest.mark.parametrize(
    'changed', [{'judge_format': 'chat'}, {'less': 'no_response'}], ids=str
)
def test_variant_original_has_one_format(changed):
    with user_error(next(iter(changed))):
        signature(variant='original', **changed)


def test_what_a_judge_is_shown_is_signed_only_when_changed():
    plain = signature()
    assert 'judge_format' not in plain and 'less' not in plain
    assert 'less:no_response' in signature(less='no_response')
