"""
The judge check on a judged set's items: copies keep what the item knows.
"""

import pytest

from parlai_ext.judge_check.check_items import check_items, item_dialogue
from parlai_ext.scoring.base import ItemScore, Scorer, ScoringItem

WORDS = ('apples', 'bread', 'cheese', 'dates', 'eggs', 'figs', 'grapes', 'honey')


class Exact(Scorer):
    """
    1 for a response that is one of its references, 0 for another.
    """

    name = 'exact'
    dimensions = ('Overall',)
    needs = ('references',)

    def score(self, items):
        return [
            ItemScore({'Overall': float(i.response in i.references)}) for i in items
        ]


class Backwards(Exact):
    """
    The reverse.
    """

    def score(self, items):
        return [
            ItemScore({'Overall': float(i.response not in i.references)}) for i in items
        ]


class Turns(Scorer):
    """
    How many different utterances a whole dialogue has.
    """

    name = 'turns'
    level = 'dialogue'
    dimensions = ('Overall',)

    def score(self, items):
        assert all(item.response is None for item in items)
        return [ItemScore({'Overall': float(len(set(i.context)))}) for i in items]


def judged_items():
    responses = [f'I bought some {word} for us.' for word in WORDS * 2]
    return [
        ScoringItem((f'What did you buy on day {i}?',), text, 'bot', references=(text,))
        for i, text in enumerate(responses)
    ]


def check_of(scorer, items):
    return check_items(scorer, items, scorer.checked_scores(items), progress=False)


@pytest.mark.parametrize('kind, share', [(Exact, 1.0), (Backwards, 0.0)])
def test_a_scorer_with_references_is_checked_with_them(kind, share):
    check = check_of(kind(), judged_items())
    kinds = {k.kind: k for k in check.dimensions['Overall'].kinds}
    assert (kinds['shuffled_words'].share, kinds['shuffled_words'].n) == (share, 16)
    assert check.n_people == 0  # a reference is no test of a scorer that reads it


def test_references_stand_for_people_where_the_scorer_does_not_read_them():
    class Length(Scorer):
        name = 'length'
        dimensions = ('Overall',)

        def score(self, items):
            return [ItemScore({'Overall': float(len(i.response))}) for i in items]

    check = check_of(Length(), judged_items())
    truncated = {
        kind.source: kind.share
        for kind in check.dimensions['Overall'].kinds
        if kind.kind == 'truncated'
    }
    assert truncated == {'systems': 1.0, 'people': 1.0}


def test_a_whole_dialogue_is_spoilt_on_the_judged_speakers_side():
    texts = ('hi', 'a b c d', 'hm', 'e f g h')
    items = [
        ScoringItem((*texts, f'why {i}', 'i j k l'), None, 'bot') for i in range(12)
    ]
    check = check_of(Turns(), items)
    kinds = {k.kind: k for k in check.dimensions['Overall'].kinds}
    # all three turns become ". . . .", so six different utterances become four
    assert (kinds['punctuation'].share, kinds['punctuation'].n) == (1.0, 12)


def test_the_judged_speaker_said_the_last_utterance():
    dialogue = item_dialogue(ScoringItem(('a', 'b'), 'c', 'bot'), 7)
    assert [u.speaker for u in dialogue.utterances] == ['bot', 'partner', 'bot']
