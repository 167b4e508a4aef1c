"""
The check of a judge: scorers whose check is known beforehand, the outcome on a kind and
on a dimension by hand, and what becomes of a response.
"""

import math
import re
import string
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from parlai_ext.core import Dialogue, Utterance
from parlai_ext.judge_check.check import (
    JudgedDialogues,
    ScoreRow,
    biases,
    check_on_dialogues,
    human_anchor,
    variance_share,
)
from parlai_ext.judge_check.perturbations import (
    HELD_OUT,
    MARKS,
    MAX_QUOTED,
    PARROTS,
    PERTURBATIONS,
    TRAIN,
    ResponseInDialogue,
    dimension_check,
    key_words,
    kind_result,
    mirrored,
    parrot,
    parrot_text,
    perturbed_dialogue,
    quote,
    repeats,
)
from parlai_ext.judge_check.record import Biases, DimensionCheck, JudgeCheck
from parlai_ext.scoring.base import ItemScore
from parlai_ext.scoring.registry import find_scorer
from parlai_ext.scoring.score_run import score_dialogues
from tests.support import planted_judges as planted
from tests.support.repository import docs_page
from tests.support.user_error import user_error

N = 12


def judged_dialogues(scorer, n=N, systems=planted.SYSTEMS, sample=200, openers=()):
    talks = [planted.dialogue(name, j) for name in systems for j in range(n)]
    scored = score_dialogues(talks, scorer, first_speaker_only=True)
    return list(zip(talks, scored, strict=True)), openers, sample


def check_of(scorer, n_openers=N, reply=True):
    openers = [planted.opener(j, reply) for j in range(n_openers)]
    return check_on_dialogues(
        scorer, *judged_dialogues(scorer, n_openers, openers=openers)
    )


def shares(check):
    kinds = check.dimensions['Quality'].kinds
    return {(kind.source, kind.kind): kind.share for kind in kinds if kind.n}


def test_a_scorer_that_sees_sense_passes_everything():
    check = check_of(planted.Sense())
    assert check.dimensions['Quality'].outcome == 'pass'
    assert set(shares(check).values()) == {1.0}


def test_a_scorer_of_length_is_blind_for_order_and_likes_the_long():
    check = check_of(planted.Length())
    own = shares(check)
    # copies of eight words have eight words again; these other kinds have fewer
    assert own['systems', 'shuffled_words'] == own['systems', 'repeat_self'] == 0.5
    assert own['systems', 'truncated'] == own['systems', 'punctuation'] == 1.0
    # an echo and a few words more are longer than eight words
    assert own['systems', 'padded_echo'] == own['people', 'padded_echo'] == 0.0
    assert check.dimensions['Quality'].outcome == 'fail'


def test_the_overlap_of_a_row_is_the_score_of_the_overlap():
    scorer = find_scorer('overlap').from_section({})
    # of c x, one word was heard; of e f both
    one = talk(('a b', 'c d', 'c x', 'e f', 'e f'))
    scored = score_dialogues([one], scorer, first_speaker_only=True)
    rows = JudgedDialogues(zip([one], scored, strict=True)).rows
    overlaps = [row.overlap for row in rows]
    assert overlaps == [row.values['Overall'] for row in rows] == [1 / 2, 1.0]


def test_what_scores_follow_is_a_correlation_of_its_own():
    # ten scores that rise with the length and fall with the overlap
    rows = [
        ScoreRow('s', 'p', 'o', float(j), -float(j), math.nan, {'Q': j / 2})
        for j in range(10)
    ]
    assert biases(rows, 'Q') == Biases(10, 1.0, None, None, None, None, -1.0)
    assert biases(rows[:9], 'Q').length is None  # too few


def test_a_scorer_of_whole_dialogues_is_checked_on_whole_parts():
    check = check_of(planted.WholeSense(), n_openers=20)
    assert set(shares(check).values()) == {1.0}
    assert check.n_responses == 20  # of 40, one part in each dialogue of two systems
    assert check.n_people == 0


def test_originals_of_systems_are_not_scored_again():
    scorer = planted.Sense()
    check = check_of(scorer, reply=False)
    # two systems, 12 dialogues, 2 replies each: 48; 40 of them in 7 kinds, and 3 of 10
    # parrots each, of which one says an earlier turn of the partner back, if there is
    # one: every tenth of 120 parrots, but for first replies
    kinds = {kind.kind: kind.n for kind in check.dimensions['Quality'].kinds}
    earlier = kinds['earlier_echo']
    assert {kinds[kind] for kind in PARROTS} == {12, earlier}
    assert kinds['parrots'] == 9 * 12 + earlier
    copies = 40 * 7 + kinds['parrots']
    assert (check.n_responses, check.n_scored) == (40, copies)
    assert scorer.n_scored == 48 + copies
    assert check.cost == pytest.approx(copies / 48)


def test_the_sample_has_as_many_of_each_system_and_floors_have_none():
    systems = ('plain', 'other', 'floor-bad')
    judged = judged_dialogues(planted.Sense(), systems=systems, sample=10)
    assert check_on_dialogues(planted.Sense(), *judged).n_responses == 10
    drawn = JudgedDialogues(*judged).draw(10)
    assert Counter(part.system for part in drawn) == {'plain': 5, 'other': 5}
    # 12 dialogues of each: none comes twice
    assert len({part.dialogue.id for part in drawn}) == 10


def test_people_are_checked_and_compared_where_the_openers_have_replies():
    check = check_of(planted.Sense())
    assert check.n_people == N
    anchor = check.dimensions['Quality'].human_anchor
    # everything that was really said has score 1, whoever said it
    assert (anchor.n, anchor.people_mean, anchor.systems_mean) == (N, 1.0, 1.0)
    assert anchor.warning is None


def test_without_replies_there_is_no_anchor_and_without_prompts_no_probes():
    check = check_of(planted.Sense(), reply=False)
    assert check.dimensions['Quality'].human_anchor is None
    assert any('people' in note for note in check.notes)
    assert check.probes is None


def test_a_prompted_judge_that_obeys_a_response_fails():
    check = check_of(planted.Prompted(models=planted.ObedientModels()), reply=False)
    own = shares(check)
    assert own['systems', 'injected'] == 0.0
    assert own['systems', 'shuffled_words'] == 1.0
    assert check.dimensions['Quality'].outcome == 'fail'


def test_a_scorer_that_breaks_down_over_a_copy_is_named_with_the_way_out():
    scorer = planted.Sense()
    judged = judged_dialogues(scorer)
    scorer.fits = None
    with user_error('scorer sense .*--check-sample 0'):
        check_on_dialogues(scorer, *judged)


# -------------------- Scores of the same response, given twice.


def test_the_mean_change_is_in_standard_deviations():
    # standard deviation of 0, 2: 1; changes of 1 and 0
    none, two = {'Q': 0.0}, {'Q': 2.0}
    probe = repeats([none, two], [{'Q': 1.0}, two])
    assert (probe.n_repeated, probe.n_changed) == (2, 1)
    assert probe.mean_change == pytest.approx(0.5)
    # a score that is missing the second time is changed
    assert repeats([{'Q': 1.0}], [{}]).n_changed == 1


class Moody(planted.Prompted):
    """
    Answers from memory, unless it is asked anew: then everything is a little better.
    """

    def score(self, items):
        bonus = 0.25 if self.models.loaded['chat', 'chatty'].asks_anew else 0.0
        return [
            ItemScore({'Quality': score.values['Quality'] + bonus})
            for score in super().score(items)
        ]


class Models(planted.ObedientModels):
    asks_anew = False


def test_a_repeat_is_asked_anew_and_nothing_else_is():
    scorer = Moody(models=Models())
    check = check_on_dialogues(scorer, *judged_dialogues(scorer))
    assert (check.probes.n_repeated, check.probes.n_changed) == (20, 20)
    shares = {kind.kind: kind.share for kind in check.dimensions['Quality'].kinds}
    assert shares['shuffled_words'] == 1.0
    assert check.probes.mean_change is None  # originals all score 1


NEEDED = ('shuffled_words', 'other_dialogue', 'punctuation')


def result(kind, n_higher, n, n_ties=0, source='systems'):
    return kind_result(kind, source, n, n_higher, n_ties)


def good(*others):
    return [result(kind, 40, 40) for kind in NEEDED] + list(others)


@pytest.mark.parametrize(
    'n_higher, n, outcome',
    [
        # z² = 3.84: of 40, the interval of 27 begins at 0.520 and that of 26 at 0.495
        (27, 40, 'pass'),
        (26, 40, 'weak'),
        (14, 40, 'weak'),
        (13, 40, 'fail'),
        (9, 9, 'untested'),
    ],
)
def test_a_kind_passes_with_its_whole_interval_above_a_half(n_higher, n, outcome):
    assert result('shuffled_words', n_higher, n).outcome == outcome


def case(kinds, outcome, reason=None, length=None, overlap=None):
    followed = Biases(200, length, None, None, None, None, overlap)
    return kinds, followed, outcome, reason


OWN = 'own earlier turn'
PADDED = result('padded_echo', 28, 28)


@pytest.mark.parametrize(
    'kinds, followed, outcome, reason',
    [
        # a judge that tells everything passes; one score for everything is weak
        case(good(result('generic', 40, 40)), 'pass'),
        case([result(kind, 0, 40, n_ties=40) for kind in NEEDED], 'weak', ''),
        # losing to one required kind fails; losing to what may be good is weak
        *(
            case(good(result('repeat_self', 2, 40, source=source)), 'fail', OWN)
            for source in ('systems', 'people')
        ),
        case(good(result('generic', 2, 40)), 'weak', 'generic replies'),
        # a needed kind that could not be tried
        case(good()[1:], 'weak', 'shuffled words'),
        case(good(), 'weak', 'follow length', length=0.9),
        case(good(), 'pass', overlap=0.69),
        case(good(), 'weak', 'overlap', overlap=0.7),
        # a parrot of few pairs is no doubt while it is ahead, else it is
        case(good(result('mirror', 8, 12), PADDED), 'pass'),
        case(good(result('mirror', 6, 12), PADDED), 'weak', 'pronouns'),
        # parrots that are all a little ahead are weak together
        case(
            good(result('mirror', 7, 12), result('padded_echo', 7, 12)),
            'weak',
            'parrots of any kind',
        ),
        # parrots that flatter fail by people's replies only
        *(
            case(good(result(kind, 0, 12, source=source)), outcome, '')
            for kind, source, outcome in (
                ('padded_echo', 'systems', 'fail'),
                ('flatterer', 'systems', 'weak'),
                ('flatterer', 'people', 'fail'),
            )
        ),
    ],
)
def test_the_outcome_on_a_dimension(kinds, followed, outcome, reason):
    check = dimension_check('D', kinds, biases=followed)
    assert check.outcome == outcome
    assert (reason is None) == (check.reasons == ())
    assert reason is None or reason in check.reasons[0]
    # a check of its own kinds is the same check
    assert dimension_check('D', check.kinds, biases=followed) == check


def test_the_first_reason_names_the_worst_kind_in_percent():
    kinds = good(result('repeat_self', 10, 40))[1:]
    kinds.append(result('shuffled_words', 34, 200))
    # 34 of 200 higher: the perturbed copy is above in 83 %
    words = 'scores shuffled words above what the systems said in 83 % of 200'
    assert words in dimension_check('D', kinds).reasons[0]


def test_a_rating_by_games_has_the_check_of_games_or_of_the_only_dimension():
    one, two, games = (DimensionCheck(name, 'pass', (), ()) for name in ('D', 'E', 'G'))
    both = {'D': one, 'E': two}
    check = JudgeCheck('s', 0, 0, None, 0, 0.0, both, tournament=games)
    assert check.check_of('D') is one
    assert check.check_of('Overall') is games
    assert replace(check, dimensions={'D': one}).check_of('Overall') is one


def test_the_docs_show_the_pass_mark_of_every_kind():
    row = re.compile(r'^\| `(\w+)` \|[^|]*\| ([^|]*) \|', re.MULTILINE)
    rows = row.findall(docs_page('judges'))
    assert dict(rows) == MARKS


# --- parrots --------------------------------------------------------------------------


@pytest.mark.parametrize(
    'scores, groups, share',
    [
        # means 1 and 4 of whole mean 2.5: between 4 · 1.5² = 9; within 4 · 1² = 4
        ([0.0, 2.0, 3.0, 5.0], 'aabb', pytest.approx(9 / 13)),
        ([1.0, 2.0], 'aa', None),
        ([1.0, 1.0], 'ab', None),
    ],
)
def test_a_share_by_hand(scores, groups, share):
    assert variance_share(np.array(scores), list(groups)) == share


def anchor(offset, n=10):
    people = {f'o{j}': {'D': float(j % 2)} for j in range(n)}
    replies = [
        ScoreRow('s', 'p', f'o{j}', 1.0, 0.0, 1, {'D': j % 2 + offset + j / 100})
        for j in range(n)
    ]
    return human_anchor('D', people, replies)


def test_only_a_system_far_above_people_is_named():
    # people's scores are 0 and 1, five times each: standard deviation 0.527
    found = anchor(1.0)
    assert found.people_mean == 0.5
    assert found.systems == {'s': pytest.approx(1.545)}
    assert 's (' in found.warning
    assert {anchor(offset).warning for offset in (-1.0, 0.0, 0.2)} == {None}
    assert anchor(1.0, n=9) is None  # too few contexts


TEXTS = ('hello there', 'hi to you', 'I like old trains', 'why is that', 'they smell')
SELF_PLAY = ('bot', 'bot')


def talk(texts=TEXTS, names=('bot', 'man')):
    turns = (Utterance(names[i % 2], text, given=i < 2) for i, text in enumerate(texts))
    return Dialogue('d', 'p', 'o', tuple(turns))


TALK = talk()


def copy(kind, places, dialogue, others=('x', 'y')):
    """
    Return the texts that a perturbation changes, by their places.
    """
    made = perturbed_dialogue(dialogue, places, PERTURBATIONS[kind], list(others))
    if made is None:
        return None
    texts = enumerate(zip(made.texts, dialogue.texts, strict=True))
    return {i: text for i, (text, before) in texts if text != before}


def test_shuffled_words_are_the_same_words_in_another_order():
    [(place, text)] = copy('shuffled_words', [2], TALK).items()
    assert place == 2 and sorted(text.split()) == ['I', 'like', 'old', 'trains']


@pytest.mark.parametrize(
    'kind, places, dialogue, expected',
    [
        ('repeat_partner', [4], TALK, {4: TEXTS[3]}),
        ('repeat_partner', [0], TALK, None),  # nothing came before
        ('repeat_self', [4], TALK, {4: TEXTS[2]}),
        ('repeat_self', [0], TALK, None),
        # a whole part repeats one turn throughout
        ('repeat_self', [2, 4], TALK, {2: TEXTS[0], 4: TEXTS[0]}),
        ('punctuation', [4], TALK, {4: '. . . .'}),
        ('truncated', [2], TALK, {2: 'I like'}),
        ('truncated', [4], TALK, None),  # too short to be cut
        ('other_dialogue', [2, 4], TALK, {2: 'x', 4: 'y'}),
        *(
            ('shuffled_words', [2], talk((*TEXTS[:2], text)), None)
            for text in ('two words', 'yes yes yes yes', 'Yes yes YES')
        ),
        # a copy that differs in case and spaces only
        ('repeat_partner', [2], talk(('a', 'Same  here', 'same here')), None),
        ('repeat_partner', [2], talk(names=SELF_PLAY), {2: TEXTS[1]}),
        ('repeat_self', [2], talk(names=SELF_PLAY), {2: TEXTS[0]}),
    ],
)
def test_responses_are_replaced_and_nothing_else(kind, places, dialogue, expected):
    assert copy(kind, places, dialogue) == expected


def test_without_replies_of_another_dialogue_there_is_no_such_copy():
    assert copy('other_dialogue', [2], TALK, others=()) is None


def test_parrots_hear_the_last_turn_of_the_partner_and_the_one_before():
    heard = []

    def note(response):
        heard.append(response.heard)

    perturbed_dialogue(TALK, [2, 4], note, [])
    assert heard == [['hi to you'], ['hi to you', 'why is that']]
    [text] = perturbed_dialogue(TALK, [4], parrot('earlier_echo'), []).utterances[4:]
    assert 'hi to you' in text.text and 'why' not in text.text


# ---- parrots, by pencil: what each kind makes of a turn


HEARD = ('We have a big garden.', 'I like my dog.')


@pytest.mark.parametrize(
    'kind, expected',
    [
        ('padded_echo', 'You say I like my dog and I agree with that.'),
        ('echo_question', 'I like my dog? Really? Tell me more about that.'),
        ('key_words', 'I think like and dog is a very important topic these days.'),
        ('flatterer', 'What a wonderful thing to say, you are so smart!'),
        ('mirror', 'You like your dog.'),
        (
            'question_spammer',
            'Really? Why is that? How did it happen? What did you do then?',
        ),
        ('quoted_question', 'That is interesting. What do you mean by like?'),
        (
            'earlier_echo',
            'You said we have a big garden and I still think about that.',
        ),
        ('partial_echo', 'Yes, I like, you know.'),
        ('echo_generic', "I like my dog. I don't know."),
    ],
)
def test_the_first_wording_of_each_kind_by_pencil(kind, expected):
    assert parrot_text(kind, HEARD, 0) == expected


@pytest.mark.parametrize('kind', PARROTS)
def test_no_wording_is_both_for_training_and_for_testing(kind):
    own = PARROTS[kind]
    train, held_out = own.wordings(TRAIN), own.wordings(HELD_OUT)
    assert min(len(train), len(held_out)) >= 8
    both = [wording.casefold() for wording in train + held_out]
    assert len(set(both)) == len(both)


@pytest.mark.parametrize('kind', PARROTS)
def test_every_wording_can_be_said_of_every_turn(kind):
    turns = ('ok', 'Is that {so}?', 'No, I - well, I do not know!', 'one two three')
    for turn in turns:
        for number in range(len(PARROTS[kind].wordings())):
            text = parrot_text(kind, (turn, turn), number)
            assert text and text == text.strip() and '  ' not in text
            fields = {f for _, f, *_ in string.Formatter().parse(text) if f}
            assert fields <= {'so'}  # no field is left but the turn's own braces


@pytest.mark.parametrize('kind', PARROTS)
def test_without_a_turn_only_what_fits_everything_is_said(kind):
    fits_everything = kind in ('flatterer', 'question_spammer')
    for heard in ((), ('...',)):
        assert (parrot_text(kind, heard, 0) is not None) == fits_everything
    # one turn is no earlier turn
    said = parrot_text(kind, HEARD[1:], 0)
    assert (said is None) == (kind == 'earlier_echo')


@pytest.mark.parametrize(
    'turn, expected',
    [
        ("I'm here. Are you?", "I'm here. Are you"),
        ('  USA is far ', 'USA is far'),
        ('"Hello," he said.', 'hello," he said'),
        ('?!', ''),
        # of more than 20 words the last sentence
        (f'{"one " * MAX_QUOTED}. The end.', 'the end'),
        # of a longer sentence the first 20
        ('w ' * (MAX_QUOTED + 5), ' '.join('w' * MAX_QUOTED)),
    ],
)
def test_quotes_by_pencil(turn, expected):
    assert quote(turn) == expected


@pytest.mark.parametrize(
    'text, expected',
    [
        ('you are right, I was wrong', 'I am right, you were wrong'),
        ('are you sure', 'am I sure'),
        ('I love you', 'you love me'),
        ("I'm yours", "you're mine"),
        ('they are here', 'they are here'),
    ],
)
def test_mirrors_by_pencil(text, expected):
    assert mirrored(text) == expected


@pytest.mark.parametrize(
    'turn, expected',
    [
        ("I don't play the violin, my sister does", ['violin', 'sister']),
        ('the concert was a concert', ['concert']),
        ('what is that?', ['that']),
    ],
)
def test_key_words_are_the_longest_words_that_say_something(turn, expected):
    assert key_words(turn) == expected


def test_a_response_has_the_same_parrot_every_time_and_others_have_other_wordings():
    perturb = parrot('padded_echo', TRAIN)
    replies = [ResponseInDialogue(f'reply {i}', ['Hi.']) for i in range(40)]
    texts = list(map(perturb, replies))
    assert texts == list(map(perturb, replies))
    known = {parrot_text('padded_echo', ('Hi.',), n, TRAIN) for n in range(20)}
    assert len(set(texts)) > 4 and set(texts) <= known
