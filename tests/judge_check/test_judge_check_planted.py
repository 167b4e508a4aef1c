"""
Scorers whose check is known beforehand: one that sees sense, its mirror image, length.
"""

from dataclasses import replace

import pytest

from parlai_ext.core.nouns import Dialogue, Utterance
from parlai_ext.judge_check.check import check_judge, gather
from parlai_ext.judge_check.marks import repeats
from parlai_ext.judge_check.perturbations import PARROTS
from parlai_ext.scoring.base import ItemScore
from parlai_ext.scoring.registry import find_scorer
from parlai_ext.scoring.score_run import score_dialogues
from tests.support import planted_judges as planted
from tests.support.user_error import user_error

N = 12


def judged_dialogues(scorer, n=N, systems=planted.SYSTEMS, sample=200, openers=()):
    talks = [planted.dialogue(name, j) for name in systems for j in range(n)]
    scored = score_dialogues(talks, scorer, first_speaker_only=True)
    return gather(zip(talks, scored, strict=True), openers, sample)


def check_of(scorer, n_openers=N, reply=True, systems=planted.SYSTEMS, sample=200):
    openers = [planted.opener(j, reply) for j in range(n_openers)]
    judged = judged_dialogues(scorer, n_openers, systems, sample, openers)
    return check_judge(scorer, judged, openers)


def shares(check):
    kinds = check.dimensions['Quality'].kinds
    return {(kind.source, kind.kind): kind.share for kind in kinds if kind.n}


@pytest.mark.parametrize(
    ('scorer', 'share', 'outcome'),
    [(planted.Sense, 1.0, 'pass'), (planted.Nonsense, 0.0, 'fail')],
)
def test_a_scorer_that_sees_sense_passes_everything_and_its_mirror_image_fails(
    scorer, share, outcome
):
    check = check_of(scorer())
    assert check.dimensions['Quality'].outcome == outcome
    assert set(shares(check).values()) == {share}


def test_a_scorer_of_length_is_blind_for_order_and_likes_the_long():
    check = check_of(planted.Length())
    own = shares(check)
    # copies of eight words have eight words again; these other kinds have fewer
    assert own['systems', 'shuffled_words'] == own['systems', 'repeat_self'] == 0.5
    assert own['systems', 'truncated'] == own['systems', 'punctuation'] == 1.0
    # an echo and a few words more are longer than eight words
    assert own['systems', 'padded_echo'] == own['people', 'padded_echo'] == 0.0
    assert check.dimensions['Quality'].outcome == 'fail'


def test_a_scorer_that_loves_overlap_but_no_exact_copy_fails_by_its_parrots_alone():
    check = check_of(planted.Overlap())
    own = shares(check)
    assert own['people', 'repeat_partner'] == own['systems', 'repeat_partner'] == 1.0
    for kind in ('padded_echo', 'echo_question', 'partial_echo', 'mirror'):
        assert own['people', kind] == own['systems', kind] == 0.0
    assert check.dimensions['Quality'].outcome == 'fail'
    assert set(own['people', kind] for kind in planted.Overlap.blind) == {1.0}


def test_scores_that_are_the_overlap_are_seen_to_follow_it():
    scorer = find_scorer('overlap').from_section({})
    texts = (
        'a b',
        'c d',
        'c x',
        'e f',
        'e f',
    )  # of c x, one word was heard; of e f both
    turns = (Utterance('ab'[i % 2], text, i < 2) for i, text in enumerate(texts))
    talk = Dialogue('d', 'p', 'o', tuple(turns))
    scored = score_dialogues([talk], scorer, first_speaker_only=True)
    rows = gather(zip([talk], scored, strict=True)).rows
    overlaps = [row.overlap for row in rows]
    assert overlaps == [row.values['Overall'] for row in rows] == [1 / 2, 1.0]

    talks = [planted.dialogue(name, j) for name in planted.SYSTEMS for j in range(N)]
    for j, dialogue in enumerate(talks):
        turns = list(dialogue.utterances)
        heard = turns[1].text.split()[: j % 8]
        turns[2] = Utterance(turns[2].speaker, ' '.join([*heard, 'x', 'y']), False)
        talks[j] = replace(dialogue, utterances=tuple(turns))
    scored = score_dialogues(talks, scorer, first_speaker_only=True)
    check = check_judge(scorer, gather(zip(talks, scored, strict=True)))
    own = check.dimensions['Overall']
    assert own.biases.overlap == pytest.approx(1.0) and own.outcome == 'fail'
    assert any('overlap' in reason for reason in own.reasons)


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
    assert check.n_responses == 40
    kinds = {kind.kind: kind.n for kind in check.dimensions['Quality'].kinds}
    assert {n for kind, n in kinds.items() if kind in PARROTS} == {
        12,
        kinds['earlier_echo'],
    }
    assert kinds['parrots'] == 9 * 12 + kinds['earlier_echo']
    copies = 40 * 7 + kinds['parrots']
    assert check.n_scored == copies
    assert scorer.n_scored == 48 + copies
    assert check.cost == pytest.approx(copies / 48)


def test_the_sample_has_as_many_of_each_system_and_floors_have_none():
    systems = ('plain', 'other', 'floor-bad')
    check = check_of(planted.Sense(), systems=systems, reply=False, sample=10)
    assert check.n_responses == 10
    judged = judged_dialogues(planted.Sense(), systems=systems, sample=10)
    drawn = judged.sample.draw(10)
    assert [part.system for part in drawn].count('plain') == 5
    assert [part.system for part in drawn].count('other') == 5
    # 12 dialogues of each: none comes twice
    assert len({part.dialogue.id for part in drawn}) == 10


def test_people_are_checked_and_compared_where_the_openers_have_replies():
    check = check_of(planted.Sense())
    assert check.n_people == N
    anchor = check.dimensions['Quality'].human_anchor
    # everything that was really said has score 1, whoever said it
    assert (anchor.n, anchor.people_mean, anchor.systems_mean) == (N, 1.0, 1.0)
    assert anchor.warning is None


def test_without_replies_there_is_no_anchor_and_a_note():
    check = check_of(planted.Sense(), reply=False)
    assert check.dimensions['Quality'].human_anchor is None
    assert any('people' in note for note in check.notes)


def test_a_prompted_judge_that_obeys_a_response_fails():
    check = check_of(planted.Prompted(models=planted.ObedientModels()), reply=False)
    own = shares(check)
    assert own['systems', 'injected'] == 0.0
    assert own['systems', 'shuffled_words'] == 1.0
    assert check.dimensions['Quality'].outcome == 'fail'


def test_a_prompted_judge_is_asked_twice_and_its_own_model_is_named():
    scorer = planted.Prompted(models=planted.ObedientModels())
    identities = {'twin': 'chatty-identity', 'other': 'else'}
    judged = judged_dialogues(scorer)
    probes = check_judge(scorer, judged, identities=identities).probes
    assert (probes.n_repeated, probes.n_changed) == (20, 0)
    assert probes.same_model == ('twin',)


def test_a_judge_that_is_not_prompted_has_no_probes():
    assert check_of(planted.Sense(), reply=False).probes is None


def test_a_scorer_that_breaks_down_over_a_copy_is_named_with_the_way_out():
    scorer = planted.Sense()
    judged = judged_dialogues(scorer)
    scorer.fits = None
    with user_error('scorer sense .*--check-sample 0'):
        check_judge(scorer, judged)


# -------------------- Scores of the same response, given twice.


def test_the_mean_change_is_in_standard_deviations():
    # standard deviation of 0, 2: 1; changes of 1 and 0
    scores = [{'Q': 0.0}, {'Q': 2.0}]
    probe = repeats([(scores[0], {'Q': 1.0}), (scores[1], {'Q': 2.0})], scores)
    assert (probe.n_repeated, probe.n_changed) == (2, 1)
    assert probe.mean_change == pytest.approx(0.5)


def test_a_score_that_is_missing_the_second_time_is_changed():
    assert repeats([({'Q': 1.0}, {})], [{'Q': 1.0}]).n_changed == 1


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
    check = check_judge(scorer, judged_dialogues(scorer))
    assert (check.probes.n_repeated, check.probes.n_changed) == (20, 20)
    shares = {kind.kind: kind.share for kind in check.dimensions['Quality'].kinds}
    assert shares['shuffled_words'] == 1.0
    assert check.probes.mean_change is None  # originals all score 1
