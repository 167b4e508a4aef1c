"""
The check of scorers of pairs whose choices are known beforehand.
"""

from parlai_ext.api import check_judge
from parlai_ext.core.records import record_from_json
from parlai_ext.judge_check.check import check_items, check_pairs
from parlai_ext.judge_check.record import JudgeCheck, check_to_json
from parlai_ext.report.judge import check_lines
from parlai_ext.scoring.base import ItemScore, Scorer, ScoringItem
from tests.support.planted_judges import words

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


Chooser = chooser(lambda *texts: 0.5 + 0.5 * (good(texts[0]) - good(texts[1])))
First = chooser(lambda *texts: 1.0)
Talker = chooser(longer, prompted=True)
# asks `First` in both orders, so that it never prefers anything
TwoOrders = chooser(lambda *texts: 0.5, in_given_order=lambda self: First())


def good(text):
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


def check_of(scorer, items):
    return check_items(scorer, items, scorer.checked_scores(items))


def test_a_scorer_with_references_is_checked_with_them():
    kind = scorer_of(is_reference, 'Overall', needs=('references',))
    check = check_of(kind(), judged_items())
    shuffled = kinds(check, 'Overall')['shuffled_words']
    assert (shuffled.share, shuffled.n) == (1.0, 16)
    assert check.n_people == 0  # a reference is no test of a scorer that reads it


def test_references_stand_for_people_where_the_scorer_does_not_read_them():
    length = scorer_of(lambda item: float(len(item.response)), 'Overall')
    found = check_of(length(), judged_items()).dimensions['Overall'].kinds
    truncated = {k.source: k.share for k in found if k.kind == 'truncated'}
    assert truncated == {'systems': 1.0, 'people': 1.0}


def test_a_whole_dialogue_is_spoilt_on_the_judged_speakers_side():
    texts = ('hi', 'a b c d', 'hm', 'e f g h')
    items = [
        ScoringItem((*texts, f'why {i}', 'i j k l'), None, 'bot') for i in range(12)
    ]
    scorer = scorer_of(different_turns, 'Overall', level='dialogue')()
    dotted = kinds(check_of(scorer, items), 'Overall')['punctuation']
    # all three turns become ". . . .", so six different utterances become four
    assert (dotted.share, dotted.n) == (1.0, 12)
