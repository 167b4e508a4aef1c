"""
Table 1's three variants of FED against what people said, by pencil and scipy.
"""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from scipy import stats

from parlai_ext.bench.agreement import (
    agreement,
    agreement_lines,
    agreement_table,
    mean_scores,
    rescored,
)
from parlai_ext.core import Dialogue, HumanJudgement, Utterance
from parlai_ext.scoring.score_run import ChosenScorer, score_dialogues
from tests.support.scoring_samples import (
    CuttingJudge,
    KnownJudge,
    followups_of,
    known_fed,
)
from tests.support.user_error import user_error
from tests.support.written import rows_of_csv

SETS = followups_of("""dimensions:
  Wit: {positive: [nice], negative: [dull]}
  Sense: {negative: ['what?']}
""")
# how likely 'nice', 'dull' and 'what?' are after a bot's word
LIKELY = {
    'a': (-1.0, -9.0, -2.0),
    'b': (-2.0, -7.0, -5.0),
    'c': (-5.0, -8.0, -6.0),
    'd': (-8.0, -3.0, -7.0),
}
ORDER = ('nice', 'dull', 'what?')


def chat(name, words, bot='bot'):
    """
    Return a dialogue in which people say hm and the bot one word at a time.
    """
    said = [u for w in words for u in (Utterance('human', 'hm'), Utterance(bot, w))]
    return Dialogue(name, 'p', 'o', tuple(said))


def tell(context, followup):
    return (LIKELY[context[-1]][ORDER.index(followup)],)


def scores_of(chats, scorer=None):
    scorer = scorer or known_fed(KnownJudge(tell), SETS, polarity='both')
    indices = [range(1, len(one.utterances), 2) for one in chats]
    scored = scorer.score_dialogues(chats, indices)
    return mean_scores(zip(chats, scored, strict=True), scorer)


def said(values, dimension='Wit', bot='bot', rater=None):
    return [HumanJudgement(bot, dimension, v, rater, d) for d, v in values.items()]


def agreed(human, chats=None, scorer=None):
    """
    Return how the scores of chats agree with people.
    """
    scores = scores_of(chats or CHATS, scorer)
    return agreement(scores, human, source='people.csv', bootstraps=50)


def by_variant(rows, level='dialogue'):
    return {(r.dimension, r.variant): r for r in rows if r.level == level}


def found(chats, human, level='dialogue'):
    return by_variant(agreed(human, chats).rows, level)


CHATS = [chat('1', 'ab'), chat('2', 'c'), chat('3', 'd'), chat('4', 'b')]
SENSE = said({'1': 1, '2': 2, '3': 4}, 'Sense')
BROKEN = replace(chat('5', 'ab'), ended_by='bot', reason='empty reply')


def test_variants_are_praise_less_complaints_praise_and_complaints():
    means = scores_of(CHATS).means
    # dialogue 1: praise -1 and -2, complaints -9 and -7; means -1.5 and -8
    for variant, mean in (('FED', 6.5), ('w/o neg', -1.5), ('w/o pos', 8.0)):
        assert means[variant, 'Wit']['bot', '1'] == pytest.approx(mean)


def test_without_praise_there_is_no_value_and_fed_is_the_complaints():
    # as Sensibleness in Table 1 of the paper
    rows = found(CHATS, SENSE)
    assert rows['Sense', 'w/o neg'].spearman.value is None
    assert rows['Sense', 'w/o neg'].reason == 'no positive follow-ups'
    both, negative = rows['Sense', 'FED'], rows['Sense', 'w/o pos']
    assert both.spearman == negative.spearman


def test_raters_are_averaged_first():
    one = said({'1': 1, '2': 1, '3': 5, '4': 2}, rater='x')
    other = said({'1': 5, '2': 1, '3': 1, '4': 2}, rater='y')
    mean = said({'1': 3, '2': 1, '3': 3, '4': 2})
    assert found(CHATS, one + other) == found(CHATS, mean)


def test_a_system_is_the_mean_of_its_dialogues():
    chats = [chat('1', 'a'), chat('2', 'd')]
    chats += [chat(n, w, bot) for n, w, bot in (('3', 'b', 'B'), ('4', 'c', 'C'))]
    human = said({'1': 5, '2': 1}) + said({'3': 4}, bot='B') + said({'4': 9}, bot='C')
    row = found(chats, human, 'system')['Wit', 'w/o pos']
    # complaints: bot (9 + 3) / 2, B 7, C 8; people: 3, 4, 9
    expected = stats.pearsonr([6, 7, 8], [3, 4, 9]).statistic
    assert (row.n, row.pearson.value) == (3, pytest.approx(expected))


def test_a_dialogue_that_nobody_judged_is_no_part_of_its_system():
    chats = [chat(n, w, w) for n, w in zip('123', 'abc', strict=True)]
    judged = zip('123', 'abc', (7, 8, 6), strict=True)
    human = [one for n, bot, v in judged for one in said({n: v}, bot=bot)]
    rows = found(chats, human, 'system')
    assert found([*chats, chat('4', 'd', 'c')], human, 'system') == rows


def test_a_scorer_without_variants_has_one_row_for_each_dimension():
    chats = [chat(str(n), ['w ' * n]) for n in (1, 2, 3, 4)]
    human = said({'1': 1, '2': 2, '3': 9, '4': 3}, 'Overall')
    rows = agreed(human, chats, ChosenScorer({'name': 'length'}).build()).rows
    assert [row.level for row in rows] == ['dialogue', 'system']
    assert {row.variant for row in rows} == {'length'}
    # 1, 2, 3, 4 words against ranks 1, 2, 4, 3: sum d^2 = 2, so 1 - 6 * 2 / 60
    assert rows[0].spearman.value == pytest.approx(0.8)


def test_floors_are_no_part_of_it():
    chats = [*CHATS, chat('5', 'a', 'floor-x')]
    human = said({'1': 1, '2': 2, '3': 4})
    floor = said({'5': 5}, bot='floor-x')
    assert found(chats, human + floor) == found(chats, human)


def test_a_dialogue_without_a_score_is_dropped_and_counted():
    chats = [*CHATS, BROKEN]
    row = found(chats, said({'1': 1, '2': 2, '3': 4, '5': 5}))['Wit', 'FED']
    assert (row.n, row.dropped) == (3, 1)


def test_why_a_system_has_no_score_is_kept_in_every_variant():
    fed = known_fed(KnownJudge(), SETS, polarity='both')
    [scored] = score_dialogues([BROKEN], fed, first_speaker_only=False)
    again = rescored(fed, BROKEN, scored, 'w/o pos')
    reasons = {s.reason for s in again.scores if s.system == 'bot'}
    assert reasons == {'it broke the dialogue off: empty reply'}


@pytest.mark.parametrize(
    'human, problem',
    [
        (said({'1': 1}, 'Wits'), "column dimension: no 'Wits'; did you mean 'Wit'"),
        (said({'1': 1}, bot='bott'), "column system: no 'bott'; did you mean 'bot'"),
        (said({'9': 1}), "column dialogue_id: Wit: no such dialogue .*'9' of 'bot'"),
        (said({'1': 1, None: 2}), 'column dialogue_id: Wit: every row needs one'),
    ],
)
def test_judgements_that_fit_nothing_are_one_line(human, problem):
    with user_error(f'people.csv: {problem}'):
        found(CHATS, human)


def test_some_judgements_that_fit_nothing_are_counted():
    human = said({'1': 1, '2': 2, '3': 3, '9': 3, '8': 3})
    result = agreed(human)
    assert 'of no scored dialogue or system: 2 judgements, first bot 9' in result.notes
    assert 'nobody judged: Sense' in result.notes


def test_contexts_that_the_judge_cut_are_told():
    fed = known_fed(CuttingJudge(tell, 3, 2), SETS, polarity='both')
    # dialogue 1 alone has a second turn
    note = agreed(said({'1': 1, '2': 2}), scorer=fed).notes[0]
    assert note.endswith('read in part: 1 of 5 utterances')


def example():
    return agreed(said({'1': 3, '2': 1, '3': 2, '4': 5}) + SENSE)


def test_table_is_narrow_and_says_what_is_missing():
    text = '\n'.join(agreement_lines(example()))
    assert max(map(len, text.split('\n'))) <= 88
    assert 'w/o neg: no positive follow-ups' in text
    assert text.count('dialogue by dialogue') == 1


def test_the_csv_has_a_row_for_each_variant():
    rows = rows_of_csv(agreement_table(example().rows).csv())
    found = by_variant(SimpleNamespace(**row) for row in rows)
    assert len(found) == 6
    assert found['Sense', 'w/o neg'].spearman == ''
