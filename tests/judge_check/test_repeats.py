"""
Scores of the same response, given twice.
"""

import pytest

from parlai_ext.judge_check.check import check_judge
from parlai_ext.judge_check.repeats import repeats
from parlai_ext.scoring.base import ItemScore
from tests.judge_check.test_judge_check_planted import judged_dialogues
from tests.support import planted_judges as planted


def test_the_mean_change_is_in_standard_deviations():
    # standard deviation of 0, 2: 1; changes of 1 and 0
    scores = [{'Q': 0.0}, {'Q': 2.0}]
    probe = repeats([(scores[0], {'Q': 1.0}), (scores[1], {'Q': 2.0})], scores)
    assert (probe.n, probe.n_changed) == (2, 1)
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
    check = check_judge(scorer, judged_dialogues(scorer), progress=False)
    assert (check.probes.n_repeated, check.probes.n_changed) == (20, 20)
    shares = {kind.kind: kind.share for kind in check.dimensions['Quality'].kinds}
    assert shares['shuffled_words'] == 1.0
    assert check.probes.mean_change is None  # originals all score 1
