"""
A ranking as it is shown: with what lies behind it, and what speaks against it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from parlai_ext.core.nouns import content_id
from parlai_ext.results.details import DimensionDetails
from parlai_ext.results.ranking import Ranking
from parlai_ext.store import RunFolder
from parlai_ext.store.manifest import Manifest


@dataclass(frozen=True)
class Doubt:
    """
    A reason not to believe a ranking on a dimension.

    :param sentence: the headline.
    :param words: the same in a few words.
    :param tag: one or two words for the card of the judge.
    :param is_refuted: beyond chance; otherwise all of it may be chance.
    """

    sentence: str
    words: str
    tag: str
    is_refuted: bool


Doubts = Mapping[str, Doubt]  # by dimension


@dataclass(frozen=True)
class RankingView:
    """
    A ranking as a page shows it.

    :param details: what lies behind it, by dimension, as far as that was worked out.
    :param name: its scorer and judge in words.
    :param scorer: the record of another scorer than the protocol's (see `recipe`).
    :param speed: how fast the judge scored, in words, where that is known.
    :param doubts: what speaks against it, by dimension.
    :param run: where its files are; `None` if there are no such files.
    """

    ranking: Ranking
    manifest: Manifest
    details: Mapping[str, DimensionDetails] = field(default_factory=dict)
    name: str = ''
    scorer: Mapping[str, Any] | None = None
    speed: str | None = None
    doubts: Doubts = field(default_factory=dict)
    run: RunFolder | None = None

    @property
    def id(self) -> str:
        """
        The name of the scores' folder.
        """
        return content_id(self.ranking.scorer_signature)

    @property
    def leading_doubt(self) -> Doubt | None:
        """
        What speaks against the ranking on its first dimension.
        """
        first = self.ranking.dimensions[:1]
        return next((self.doubts[d] for d in first if d in self.doubts), None)
