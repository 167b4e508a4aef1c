"""
The check of a judge: scorers whose check is known beforehand, the outcome on a kind and
on a dimension by hand, and what becomes of a response. The check of a run: kept,
resumed after a kill, renewed when the run has grown; and the systems of the judge's own
family. The check of scorers of pairs whose choices are known beforehand.
"""

import math
import re
import string
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from parlai_ext.api import check_judge
from parlai_ext.core import Dialogue, System, Utterance
from parlai_ext.core.records import record_from_json
from parlai_ext.judge_check.check import (
    BLOCK,
    PARTS,
    JudgedDialogues,
    ScoreRow,
    biases,
    check_items,
    check_on_dialogues,
    check_pairs,
    check_run,
    human_anchor,
    variance_share,
    with_kin,
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
from parlai_ext.judge_check.record import (
    NAME,
    Biases,
    DimensionCheck,
    JudgeCheck,
    PromptProbes,
    check_to_json,
    read_check,
    write_check,
)
from parlai_ext.report.judge import check_lines
from parlai_ext.scoring.base import ItemScore, Scorer, ScoringItem
from parlai_ext.scoring.registry import find_scorer
from parlai_ext.scoring.score_run import score_dialogues, score_run
from parlai_ext.store import disk
from parlai_ext.systems.model_origin import family_name, model_origin
from tests.support.check_example import example_check
from tests.support.interrupted import interrupted
from tests.support.planted_judges import (
    SYSTEMS,
    Length,
    ObedientModels,
    Prompted,
    Sense,
    WholeSense,
    dialogue,
    opener,
    planted_run,
    words,
)
from tests.support.repository import docs_page
from tests.support.scoring_samples import small_run
from tests.support.store_samples import sample_run
from tests.support.user_error import user_error
from tests.support.written import written

N = 12


def judged_dialogues(scorer, n=N, systems=SYSTEMS, sample=200, openers=()):
    talks = [dialogue(name, j) for name in systems for j in range(n)]
    scored = score_dialogues(talks, scorer, first_speaker_only=True)
    return list(zip(talks, scored, strict=True)), openers, sample


def check_of(scorer, n_openers=N, reply=True):
    openers = [opener(j, reply) for j in range(n_openers)]
    return check_on_dialogues(
        scorer, *judged_dialogues(scorer, n_openers, openers=openers)
    )


def shares(check):
    kinds = check.dimensions['Quality'].kinds
    return {(kind.source, kind.kind): kind.share for kind in kinds if kind.n}


def test_a_scorer_that_sees_sense_passes_everything():
    check = check_of(Sense())
    assert check.dimensions['Quality'].outcome == 'pass'
    assert set(shares(check).values()) == {1.0}


def test_a_scorer_of_length_is_blind_for_order_and_likes_the_long():
    check = check_of(Length())
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
    check = check_of(WholeSense(), n_openers=20)
    assert set(shares(check).values()) == {1.0}
    assert check.n_responses == 20  # of 40, one part in each dialogue of two systems
    assert check.n_people == 0


def test_originals_of_systems_are_not_scored_again():
    scorer = Sense()
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
    judged = judged_dialogues(Sense(), systems=systems, sample=10)
    assert check_on_dialogues(Sense(), *judged).n_responses == 10
    drawn = JudgedDialogues(*judged).draw(10)
    assert Counter(part.system for part in drawn) == {'plain': 5, 'other': 5}
    # 12 dialogues of each: none comes twice
    assert len({part.dialogue.id for part in drawn}) == 10


def test_people_are_checked_and_compared_where_the_openers_have_replies():
    check = check_of(Sense())
    assert check.n_people == N
    anchor = check.dimensions['Quality'].human_anchor
    # everything that was really said has score 1, whoever said it
    assert (anchor.n, anchor.people_mean, anchor.systems_mean) == (N, 1.0, 1.0)
    assert anchor.warning is None


def test_without_replies_there_is_no_anchor_and_without_prompts_no_probes():
    check = check_of(Sense(), reply=False)
    assert check.dimensions['Quality'].human_anchor is None
    assert any('people' in note for note in check.notes)
    assert check.probes is None


def test_a_prompted_judge_that_obeys_a_response_fails():
    check = check_of(Prompted(models=ObedientModels()), reply=False)
    own = shares(check)
    assert own['systems', 'injected'] == 0.0
    assert own['systems', 'shuffled_words'] == 1.0
    assert check.dimensions['Quality'].outcome == 'fail'


def test_a_scorer_that_breaks_down_over_a_copy_is_named_with_the_way_out():
    scorer = Sense()
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


class Moody(Prompted):
    """
    Answers from memory, unless it is asked anew: then everything is a little better.
    """

    def score(self, items):
        bonus = 0.25 if self.models.loaded['chat', 'chatty'].asks_anew else 0.0
        return [
            ItemScore({'Quality': score.values['Quality'] + bonus})
            for score in super().score(items)
        ]


class Models(ObedientModels):
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


# === The check of a run ===============================================================


def scored_run(root, **options):
    run = planted_run(root, **options)
    scorer = Sense()
    score_run(run, scorer)
    return run, scorer


@pytest.fixture
def scored(tmp_path):
    return scored_run(tmp_path / 'run')


def check_file(run, scorer):
    return run.scores(scorer.signature).root / NAME


def test_a_check_that_is_done_is_not_done_again(scored):
    run, scorer = scored
    first = check_run(run, scorer)
    before = scorer.n_scored
    assert check_run(run, scorer) == first
    assert scorer.n_scored == before


def test_a_killed_check_goes_on_and_gives_the_same_bytes(scored, tmp_path):
    run, scorer = scored
    with interrupted(Sense, 'score', 3):
        check_run(run, scorer)
    assert not check_file(run, scorer).exists()
    scorer = Sense()
    check = check_run(run, scorer)
    assert scorer.n_scored == check.n_scored - 3 * BLOCK
    whole, other = scored_run(tmp_path / 'whole')
    check_run(whole, other)
    there = check_file(whole, other).read_bytes()
    assert check_file(run, scorer).read_bytes() == there
    assert not (check_file(run, scorer).parent / PARTS).exists()


def test_a_kill_just_after_the_check_leaves_nothing_behind(scored, monkeypatch):
    run, scorer = scored
    with monkeypatch.context() as killed:
        killed.setattr(disk, 'SAVE_SECONDS', 0)
        killed.setattr(disk.PartialWork, 'remove', lambda kept: None)
        check_run(run, scorer)
    parts = check_file(run, scorer).parent / PARTS
    assert parts.exists()
    check_run(run, scorer)
    assert not parts.exists()


def test_a_run_that_has_grown_is_checked_anew(tmp_path):
    run, scorer = scored_run(tmp_path / 'run', systems=SYSTEMS[:1])
    first = check_run(run, scorer)
    grown, scorer = scored_run(tmp_path / 'run')
    second = check_run(grown, scorer)
    # one system has 24 responses, two have 48, of which a small run has 40 checked
    assert (first.n_responses, second.n_responses) == (24, 40)


def test_another_sample_is_another_check(scored):
    run, scorer = scored
    assert check_run(run, scorer, sample=200).n_responses == 40
    assert check_run(run, scorer, sample=12).n_responses == 12
    # no sample is no check
    assert check_run(run, scorer, sample=0) is None
    assert not check_file(run, scorer).exists()


def test_an_empty_run_has_no_check(tmp_path):
    run = sample_run(tmp_path / 'run')
    assert check_run(run, Sense()) is None


# ---- beside its scores, in the ranking that is made of them


def test_a_damaged_check_is_named(tmp_path):
    store = small_run(tmp_path / 'run').scores('s')
    write_check(store, replace(example_check({'D': {}}), n_responses=[]))
    with user_error('judge_check.json is damaged: n_responses'):
        read_check(store)


@pytest.mark.parametrize(
    'name, family',
    [
        ('HuggingFaceTB/SmolLM2-360M-Instruct', 'smollm'),
        ('smollm2-135m-q4', 'smollm'),
        ('meta-llama/Meta-Llama-3-8B', 'llama'),
        ('gpt-4o-2024-08-06', 'gpt'),
        ('microsoft/DialoGPT-medium', 'dialogpt'),
        ('', None),
        (None, None),
    ],
)
def test_the_family_of_a_name(name, family):
    assert family_name(name) == family


def folder_of_type(path, model_type, **config):
    path.mkdir()
    written(path, 'config.json', {'model_type': model_type, **config})
    (path / 'model.safetensors').touch()
    return str(path)


def hf(model):
    return {'model': 'ext:hf', 'hf_model': model}


def remote(model, **opt):
    return {'model': 'ext:remote', 'remote_model': model, **opt}


def judge_of(name, kind='likelihood'):
    models = SimpleNamespace(loaded={(kind, name): None})
    return SimpleNamespace(models=models, signature=f'judge:({name})')


def kin_of(judge, systems, **identities):
    """
    Return the systems that are the judge's own model, and those of its family.
    """
    run = SimpleNamespace(
        targets={n: SimpleNamespace(identity=identities.get(n, n)) for n in systems},
        systems=systems,
    )
    kin = with_kin(PromptProbes(0, 0), judge, run)
    return kin.same_model, kin.same_family


def test_systems_of_the_judges_family_are_named():
    systems = {
        'large': hf('HuggingFaceTB/SmolLM2-1.7B-Instruct'),
        'served': remote('smollm2'),
        'file': {**hf('HuggingFaceTB/SmolLM2-360M'), 'model_file': 'x'},
        'other': hf('Qwen/Qwen2.5-0.5B'),
        'zoo': {'model_file': 'zoo:blender/blender_90M/model'},
    }
    _, family = kin_of(judge_of('smollm2-135m-q4'), systems)
    assert set(family) == {'large', 'served', 'file'}


def test_the_judges_own_model_is_named_as_such_and_not_as_of_its_family():
    systems = dict.fromkeys(('twin', 'cousin'), remote('smollm2'))
    judge = judge_of('smollm2-135m-q4')
    same, family = kin_of(judge, systems, twin='smollm2-135m-q4')
    assert (same, list(family)) == (('twin',), ['cousin'])


def test_an_endpoint_is_of_the_family_that_it_calls_itself():
    judge = judge_of('http://127.0.0.1:1/v1,remote_model=qwen2.5-7b', 'chat')
    systems = {
        'same': hf('Qwen/Qwen2.5-0.5B'),
        'dated': remote('default', remote_dated_model='qwen3'),
        'else': remote('gpt-4o'),
    }
    assert set(kin_of(judge, systems)[1]) == {'same', 'dated'}


def test_a_folder_without_a_name_is_of_its_architecture(tmp_path):
    judge = judge_of(folder_of_type(tmp_path / 'judge', 'llama'))
    systems = {
        'twin': hf(folder_of_type(tmp_path / 'one', 'llama')),
        'gpt2': hf(folder_of_type(tmp_path / 'two', 'gpt2')),
    }
    assert kin_of(judge, systems) == ((), {'twin': 'both are of the type llama'})


def test_a_folder_that_knows_its_name_is_of_that_family(tmp_path):
    path = folder_of_type(tmp_path / 'x', 'llama', _name_or_path='org/Vicuna-7b')
    assert model_origin(System('s', hf(path))).name == 'vicuna'


def test_an_encoder_has_no_family_to_favour():
    judge = judge_of('minilm', 'embedder')
    assert kin_of(judge, {'s': hf('x/minilm')}) == ((), {})


# === The check of scorers of pairs ====================================================

ITEMS = [
    ScoringItem((words('q', j), words('a', j)), words('good', j), 'bot')
    for j in range(12)
]


def scorer_of(values, dimension='Quality', **about):
    """
    Return a class of scorers that give each item this function's value.
    """

    def score(self, items):
        return [ItemScore({dimension: values(item)}) for item in items]

    about = {'name': 'made', 'dimensions': (dimension,), 'score': score, **about}
    return type('Made', (Scorer,), about)


def chooser(choice, **about):
    """
    Return a class of scorers of pairs that prefer by a function of both responses.
    """
    return scorer_of(
        lambda item: choice(item.response, item.extras['other']), level='pair', **about
    )


def longer(first, second):
    return 0.5 + 0.5 * ((len(first) > len(second)) - (len(first) < len(second)))


Chooser = chooser(lambda *texts: 0.5 + 0.5 * (is_good(texts[0]) - is_good(texts[1])))
First = chooser(lambda *texts: 1.0)
Talker = chooser(longer, prompted=True)
# asks `First` in both orders, so that it never prefers anything
TwoOrders = chooser(lambda *texts: 0.5, in_given_order=lambda self: First())


def is_good(text):
    return text.startswith('agood')


def kinds(check, dimension='Quality'):
    return {kind.kind: kind for kind in check.dimensions[dimension].kinds}


def test_a_scorer_that_sees_sense_keeps_its_choice_in_both_orders():
    check = check_pairs(Chooser(), ITEMS)
    order = check.probes.order
    assert (order.n_changed, order.first_share) == (0, 0.5)
    own = kinds(check)
    assert own['punctuation'].share == own['generic'].share == 1.0
    assert own['repeat_partner'].share == 1.0


def test_both_orders_hide_no_preference_for_the_first():
    check = check_pairs(TwoOrders(), ITEMS)
    assert check.probes.order.n_changed == check.probes.order.n > 0
    # in both orders together it prefers neither
    assert {kind.share for kind in kinds(check).values() if kind.n} == {0.5}
    assert check.dimensions['Quality'].outcome == 'weak'


def test_a_scorer_of_length_prefers_padded_replies():
    own = kinds(check_pairs(Talker(), ITEMS))
    assert own['padded'].share == own['injected'].share == 0.0
    assert own['truncated'].share == own['punctuation'].share == 1.0
    assert own['shuffled_words'].share == 0.5


def test_only_prompted_scorers_are_asked_again():
    probes = check_pairs(chooser(longer)(), ITEMS).probes
    assert probes.n_repeated == 0
    assert check_pairs(Talker(), ITEMS).probes.n_repeated == 40


def test_pairs_that_get_no_score_are_not_counted():
    check = check_pairs(chooser(lambda *texts: None)(), ITEMS)
    assert check.probes.order.n == 0
    assert kinds(check)['punctuation'].n == 0


def test_the_items_of_a_judged_set_are_checked_as_pairs():
    missing = [ItemScore({'Quality': None})] * len(ITEMS)
    check = check_items(First(), ITEMS, missing)
    assert check.probes.order.first_share == 1.0
    assert any('order' in line for line in check_lines(check))
    assert record_from_json(JudgeCheck, check_to_json(check)) == check


def test_without_responses_there_is_nothing_to_check():
    assert check_pairs(First(), [ScoringItem(('a',), None)]) is None


def test_python_users_check_a_scorer_of_pairs_on_dialogues():
    dialogues = [[('ann', t) for t in (*i.context, i.response)] for i in ITEMS]
    check = check_judge(dialogues, First, speakers=['ann'])
    assert check.probes.order.first_share == 1.0


# ---- the judge check on a judged set's items: what copies keep


WORDS = ('apples', 'bread', 'cheese', 'dates', 'eggs', 'figs', 'grapes', 'honey')


def is_reference(item):
    return float(item.response in item.references)


def different_turns(item):
    assert item.response is None
    return float(len(set(item.context)))


def judged_items():
    responses = [f'I bought some {word} for us.' for word in WORDS * 2]
    return [
        ScoringItem((f'What did you buy on day {i}?',), text, 'bot', references=(text,))
        for i, text in enumerate(responses)
    ]


def check_of_pairs(scorer, items):
    return check_items(scorer, items, scorer.checked_scores(items))


def test_a_scorer_with_references_is_checked_with_them():
    kind = scorer_of(is_reference, 'Overall', needs=('references',))
    check = check_of_pairs(kind(), judged_items())
    shuffled = kinds(check, 'Overall')['shuffled_words']
    assert (shuffled.share, shuffled.n) == (1.0, 16)
    assert check.n_people == 0  # a reference is no test of a scorer that reads it


def test_references_stand_for_people_where_the_scorer_does_not_read_them():
    length = scorer_of(lambda item: float(len(item.response)), 'Overall')
    found = check_of_pairs(length(), judged_items()).dimensions['Overall'].kinds
    truncated = {k.source: k.share for k in found if k.kind == 'truncated'}
    assert truncated == {'systems': 1.0, 'people': 1.0}


def test_a_whole_dialogue_is_spoilt_on_the_judged_speakers_side():
    texts = ('hi', 'a b c d', 'hm', 'e f g h')
    items = [
        ScoringItem((*texts, f'why {i}', 'i j k l'), None, 'bot') for i in range(12)
    ]
    scorer = scorer_of(different_turns, 'Overall', level='dialogue')()
    dotted = kinds(check_of_pairs(scorer, items), 'Overall')['punctuation']
    # all three turns become ". . . .", so six different utterances become four
    assert (dotted.share, dotted.n) == (1.0, 12)
