"""
FED by pencil: Equation 1 over a judge whose answers are known.
"""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parlai_ext.commands.score_dialogues import ScoreDialogues
from parlai_ext.core.errors import UserError
from parlai_ext.core.options import options_of
from parlai_ext.files.protocol_file import AnyScorerOptions
from parlai_ext.scoring.fed import Fed, FedOptions, followup_score
from parlai_ext.scoring.fed_options import CHOICES
from parlai_ext.scoring.followups import FollowUps, Sides
from parlai_ext.scoring.score_run import OVERRIDES
from tests.support.scoring_samples import FIRST, SECOND, KnownJudge, dialogue

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


def values(tokens=TOKENS, followups=SETS, **options):
    judge = KnownJudge(lambda _, text: tokens[text])
    [verdict] = Fed(judge, followups, FedOptions(**options)).judge([('hi',)])
    return verdict.values


def test_negatives_only_by_default():
    # -(-1 - 5), -(-1); nothing to count for the third
    assert values() == {'Both': 6.0, 'Negative': 1.0, 'Positive': None}


def test_positives_only():
    assert values(polarity='positive') == {
        'Both': -5.0,
        'Negative': None,
        'Positive': -2.0,
    }


def test_both_is_equation_one():
    # (-2 - 3) - (-1 - 5); a side that is missing adds nothing
    assert values(polarity='both') == {'Both': 1.0, 'Negative': 1.0, 'Positive': -2.0}


def test_sum_over_tokens():
    # -((-0.5 - 1 - 1.5) + (-4 - 6))
    assert values(token_reduction='sum')['Both'] == 13.0


def test_mean_over_followups():
    # (-2.5) - (-3)
    assert values(polarity='both', followup_reduction='mean')['Both'] == 0.5


def test_a_likelier_complaint_lowers_the_score():
    likelier = {**TOKENS, 'bad': (-0.1, -0.1, -0.1)}
    assert values(likelier)['Negative'] < values()['Negative']


def test_blender_scores_of_the_paper_are_sums_of_mean_losses():
    # bipartite-play prints 14.48 for four complaints: a mean loss of 3.62 each
    tokens = {c: (-3.62, -3.62) for c in 'abcd'}
    followups = FollowUps({'Sensibleness': Sides((), tuple('abcd'))})
    assert values(tokens, followups)['Sensibleness'] == pytest.approx(14.48)


def test_reason_says_what_is_missing():
    [verdict] = Fed(KnownJudge(lambda _, t: TOKENS[t]), SETS).judge([('hi',)])
    assert verdict.reasons == {
        'Both': None,
        'Negative': None,
        'Positive': 'no negative follow-ups',
    }


@pytest.mark.parametrize('bad', [(), (-1.0, -math.inf), (math.nan,)], ids=str)
def test_no_finite_probability_is_no_score(bad):
    tokens = {**TOKENS, 'awful': bad}
    judge = KnownJudge(lambda _, text: tokens[text])
    [verdict] = Fed(judge, SETS).judge([('hi',)])
    assert (verdict.values['Both'], verdict.values['Negative']) == (None, 1.0)
    assert 'awful' in verdict.reasons['Both']
    assert verdict.evidence == (-1.0, None)


def test_each_followup_is_asked_once_a_context():
    shared = FollowUps({'A': Sides((), ('x', 'y')), 'B': Sides((), ('y', 'z'))})
    judge = KnownJudge(lambda *_: (-1.0,))
    fed = Fed(judge, shared)
    fed.judge([('hi',), ('hi', 'there')])
    assert [q.continuations for q in judge.questions] == [('x', 'y', 'z')] * 2
    assert fed.evidence_labels == ('x', 'y', 'z')


def test_followups_that_do_not_count_are_not_asked():
    fed = Fed(KnownJudge(lambda _, t: TOKENS[t]), SETS)
    assert fed.evidence_labels == ('bad', 'awful')


def test_context_ends_with_the_judged_utterance():
    judge = KnownJudge(lambda _, t: TOKENS[t])
    Fed(judge, SETS).score([dialogue(['a', 'b', 'c', 'd'])], [[2, 3]])
    contexts = [question.context for question in judge.questions]
    assert contexts == [('a', 'b', 'c'), ('a', 'b', 'c', 'd')]


def test_scores_belong_to_who_spoke():
    judge = KnownJudge(lambda context, _: (-float(len(context)),))
    fed = Fed(judge, FollowUps({'X': Sides((), ('bad',))}))
    said = [dialogue(['a', 'b', 'c', 'd'], name=name) for name in 'pq']
    found = fed.score(said, [[2], [3, 0]])
    rows = [
        (s.dialogue_id, s.utterance_index, s.system, s.value)
        for one in found
        for s in one.scores
    ]
    assert rows == [
        ('p', 2, FIRST, 3.0),
        ('q', 3, SECOND, 4.0),
        ('q', 0, FIRST, 1.0),
    ]
    assert found[1].evidence == {3: (-4.0,), 0: (-1.0,)}


def test_nothing_to_judge_is_no_score():
    [found] = Fed(KnownJudge(lambda _, t: TOKENS[t]), SETS).score(
        [dialogue('ab')], [[]]
    )
    assert (found.scores, found.evidence) == ((), {})


@given(st.lists(st.floats(-50, 0), min_size=1, max_size=9))
def test_mean_lies_between_the_tokens(logprobs):
    mean = followup_score(logprobs, 'mean')
    assert min(logprobs) - 1e-9 <= mean <= max(logprobs) + 1e-9


@given(st.permutations([-0.1, -0.2, -0.3, -1e9, -1e-9]))
def test_order_of_tokens_changes_no_bit(logprobs):
    assert followup_score(logprobs, 'sum') == followup_score(sorted(logprobs), 'sum')


def signature(followups=SETS, judge='known', **options):
    likelihood = KnownJudge(lambda *_: (0.0,))
    likelihood.signature = judge
    return Fed(likelihood, followups, FedOptions(**options)).signature


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


def test_unknown_polarity_is_refused():
    with pytest.raises(UserError, match="polarity 'negativ'; did you mean 'negative'"):
        FedOptions(polarity='negativ')


def test_unknown_key_is_refused_before_the_judge_is_loaded():
    def judge(_):
        raise AssertionError('loaded')

    with pytest.raises(UserError, match="'polarty'; did you mean 'polarity'"):
        Fed.from_config({'name': 'fed', 'polarty': 'both'}, judge)


def test_every_choice_is_a_key_of_a_protocol_and_an_option_of_scoring():
    options = {action.dest for action in ScoreDialogues.parser()._actions}
    by_key = {key: option for option, key in OVERRIDES.items()}
    assert set(CHOICES) <= set(options_of(AnyScorerOptions))
    assert {by_key[key] for key in CHOICES} <= options


@pytest.mark.parametrize(
    ('config', 'expected'),
    [
        ({}, 'zoo:blender/blender_9B/model'),
        (
            {'variant': 'original', 'followups': 'default'},
            'hf:microsoft/DialoGPT-large',
        ),
    ],
)
def test_each_variant_has_its_papers_judge(config, expected):
    asked = []

    def judge(model_file):
        asked.append(model_file)
        raise UserError('enough')

    with pytest.raises(UserError, match='enough'):
        Fed.from_config(config, judge)
    assert asked == [expected]


def test_the_whole_string_is_refused_before_an_encoder_decoder_is_loaded():
    def judge(_):
        raise AssertionError('loaded')

    with pytest.raises(UserError, match='judge_model_file: scope whole needs a decod'):
        Fed.from_config({'scope': 'whole'}, judge)


def test_config_fills_the_options():
    asked = []

    def judge(model_file):
        asked.append(model_file)
        return KnownJudge(lambda *_: (-1.0,))

    fed = Fed.from_config(
        {'judge_model_file': 'm', 'polarity': 'both', 'followups': None}, judge
    )
    assert (asked, fed.options.polarity) == (['m'], 'both')
    assert fed.dimensions == ('Fluency', 'Specificity', 'Sensibleness', 'Overall')
