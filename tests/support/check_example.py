"""
Made-up checks of judges, for tests of the report.
"""

from __future__ import annotations

from collections.abc import Mapping

from parlai_ext.judge_check.marks import dimension_check, kind_result
from parlai_ext.judge_check.record import HumanAnchor, JudgeCheck, PromptProbes
from parlai_ext.results.judge_card import CardModel, JudgeCard
from tests.support.report_example import SCORER

# in how many of 200 pairs the original scores higher
PASSES = {'shuffled_words': 190, 'other_dialogue': 180, 'punctuation': 200}
WEAK = {**PASSES, 'other_dialogue': 105}
FAILS = {**PASSES, 'shuffled_words': 34}
N_PAIRS = 200


def example_check(
    higher: Mapping[str, Mapping[str, int]],
    *,
    anchor: HumanAnchor | None = None,
    probes: PromptProbes | None = None,
    notes: tuple[str, ...] = (),
) -> JudgeCheck:
    """
    Return a check with these numbers of originals above their copies, by dimension and
    kind.
    """
    checks = {}
    for dimension, kinds in higher.items():
        results = [
            kind_result(
                kind, 'systems', [(1.0, 0.0)] * n + [(0.0, 1.0)] * (N_PAIRS - n)
            )
            for kind, n in kinds.items()
        ]
        checks[dimension] = dimension_check(dimension, results, anchor)
    return JudgeCheck(
        SCORER, N_PAIRS, 0, None, 600, 0.2, checks, probes=probes, notes=notes
    )


def example_card(
    name: str | None = 'zoo:tiny/model', num_parameters: int | None = 134_515_008
) -> JudgeCard:
    """
    Return the card of a scorer with one model.
    """
    reads = {'text_truncate': '96', 'cut': 'left'}
    model = CardModel('likelihood', name, num_parameters, reads)
    return JudgeCard('fed', {'polarity': 'negative'}, (model,))
