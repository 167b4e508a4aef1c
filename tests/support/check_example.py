"""
Made-up checks of judges, for tests of the report.
"""

from parlai_ext.judge_check.perturbations import dimension_check, kind_result
from parlai_ext.judge_check.record import JudgeCheck
from parlai_ext.results.ranking import CardModel, JudgeCard
from tests.support.report_example import SCORER

# in how many of 200 pairs the original scores higher
PASSES = {'shuffled_words': 190, 'other_dialogue': 180, 'punctuation': 200}
WEAK = {**PASSES, 'other_dialogue': 105}
FAILS = {**PASSES, 'shuffled_words': 34}
N_PAIRS = 200


def example_check(higher, anchor=None, **more):
    """
    Return a check with these numbers of originals above their copies, by dimension and
    kind.

    :param more: other fields.
    """
    checks = {}
    for dimension, kinds in higher.items():
        results = [
            kind_result(kind, 'systems', N_PAIRS, n, 0) for kind, n in kinds.items()
        ]
        checks[dimension] = dimension_check(dimension, results, anchor)
    return JudgeCheck(SCORER, N_PAIRS, 0, None, 600, 0.2, checks, **more)


def example_card(name='zoo:tiny/model'):
    """
    Return the card of a scorer with one model.
    """
    reads = {'text_truncate': '96', 'cut': 'left'}
    model = CardModel('likelihood', name, 134_515_008, reads)
    return JudgeCard('fed', {'polarity': 'negative'}, (model,))
