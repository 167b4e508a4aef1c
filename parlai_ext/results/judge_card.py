"""
What is known of the judge behind the scores of a run: its models, and what they read.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from parlai_ext.core.nouns import ScoredDialogue
from parlai_ext.scoring.judged_corpora import NEAREST_CORPUS, NEARNESS, THRESHOLD

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
class Nearness:
    """
    How near a run's responses are, on average, to the corpora on which its judge was
    tried, and to which of them most are nearest.
    """

    mean: float
    threshold: float
    corpus: str


class NearnessMeter:
    """
    Counts the nearness of the responses of a run, dialogue by dialogue.

    :param about: what lies beside the scores (`ScoreStore.about`).
    """

    def __init__(self, about: Mapping[str, Any]):
        self.corpora = about.get('corpora') or {}
        self.labels = tuple(about.get('evidence_labels') or ())
        self.total = 0.0
        self.nearest: Counter[int] = Counter()

    def add(self, scored: ScoredDialogue | None) -> None:
        """
        Count a dialogue, if it is scored.
        """
        for row in scored.evidence.values() if scored and self.corpora else ():
            self.total += row[self.labels.index(NEARNESS)]
            self.nearest[int(row[self.labels.index(NEAREST_CORPUS)])] += 1

    def nearness(self) -> Nearness | None:
        """
        Return the mean over what was counted; `None` where nothing was.
        """
        if not self.nearest:
            return None
        [(corpus, _)] = self.nearest.most_common(1)
        mean = self.total / self.nearest.total()
        names, threshold = self.corpora['names'], self.corpora[THRESHOLD]
        return Nearness(mean, threshold, names[corpus])


@dataclass(frozen=True)
class JudgeCard:
    """
    The scorer, its settings as they stand in the signature, and its models.

    :param nearness: `None` where it is not known.
    :param unit: what a score counts, in words; '': not recorded.
    """

    scorer: str
    settings: Mapping[str, str]
    models: tuple[CardModel, ...]
    nearness: Nearness | None = None
    unit: str = ''


def judge_card(
    signature: str, about: Mapping[str, Any], nearness: Nearness | None = None
) -> JudgeCard:
    """
    Return the card of the judge that made the scores of this signature.

    :param about: what lies beside the scores (`ScoreStore.about`); of models that it
        lacks only the signature is known.
    """
    settings = _fields(MODEL.sub('', signature))
    scorer = settings.pop('scorer', '') or signature.partition('|')[0]
    signed = [(kind, text) for kind, text in MODEL.findall(signature) if text != 'none']
    recorded = about.get('models') or [{}] * len(signed)
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
            for (kind, text), known in zip(signed, recorded, strict=False)
        ),
        nearness,
        str(about.get('unit', '')),
    )


def _fields(text: str) -> dict[str, str]:
    """
    Return the fields of ``name:value|name:value``.
    """
    parts = [part.partition(':') for part in text.split('|')]
    return {name: value for name, colon, value in parts if colon}
