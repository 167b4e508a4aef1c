"""
What a scorer says of an utterance, as the act of a ParlAI agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parlai.core.message import Message
from parlai.core.metrics import AverageMetric, Metric, SumMetric


def is_asked(seen: Any) -> bool:
    """
    Tell whether an observation holds an utterance to judge.
    """
    return bool(seen and not seen.is_padding() and seen.get('text') is not None)


def put_scores(
    act: Message, values: Mapping[str, float | None], reasons: Mapping[str, str | None]
) -> None:
    """
    Put values by dimension into an act, with the reasons why others have none, and
    metrics: a value for its average; one that is not there is counted instead.
    """
    metrics: dict[str, Metric] = {}
    for name, value in values.items():
        if value is None:
            metrics[f'{name}_unscored'] = SumMetric(1)
        else:
            metrics[name] = AverageMetric(value)
    act['scores'] = dict(values)
    act['reason'] = (
        '; '.join(f'{k}: {why}' for k, why in reasons.items() if why) or None
    )
    act['metrics'] = metrics
