"""
What is known of the judge behind the scores of a run: its models, and what they read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# the models in a scorer's signature, which `Scorer.signature` writes: kind:(a:b|c:d)
MODEL = re.compile(r'\|(\w+):\(([^()]*)\)')
KINDS = {'judge': 'likelihood'}
# hashes and names of classes; the whole signature is in the recipe of the page
LEFT_OUT = ('content', 'reads', 'system', 'agent', 'model')


@dataclass(frozen=True)
class CardModel:
    """
    A model of a judge. `reads` are the settings of its input and its numbers, such as
    the template, the truncation and the precision, as they stand in the signature.

    `name` and `num_parameters` are `None` where they were not recorded, `commit` where
    the model's files are from no hub.
    """

    kind: str
    name: str | None
    num_parameters: int | None
    reads: Mapping[str, str]
    commit: str | None = None


@dataclass(frozen=True)
class JudgeCard:
    """
    The scorer, its settings as they stand in the signature, and its models.
    """

    scorer: str
    settings: Mapping[str, str]
    models: tuple[CardModel, ...]


def judge_card(signature: str, about: Mapping[str, Any]) -> JudgeCard:
    """
    Return the card of the judge that made the scores of this signature.

    :param about: what lies beside the scores (`ScoreStore.about`). Early versions did
        not record the models there; of them only the signature is known.
    """
    settings = _fields(MODEL.sub('', signature))
    scorer = settings.pop('scorer', '') or signature.partition('|')[0]
    signed = [(kind, text) for kind, text in MODEL.findall(signature) if text != 'none']
    recorded = about.get('models') or []
    if len(recorded) != len(signed):
        name = (about.get('config') or {}).get('judge_model_file')
        recorded = [{'name': name if len(signed) == 1 else None} for _ in signed]
    return JudgeCard(
        scorer,
        settings,
        tuple(
            CardModel(
                KINDS.get(kind, kind),
                known.get('name'),
                known.get('num_parameters'),
                {k: v for k, v in _fields(text).items() if k not in LEFT_OUT},
                known.get('commit'),
            )
            for (kind, text), known in zip(signed, recorded, strict=True)
        ),
    )


def _fields(text: str) -> dict[str, str]:
    """
    Return the fields of ``name:value|name:value``.
    """
    parts = [part.partition(':') for part in text.split('|')]
    return {name: value for name, colon, value in parts if colon}
