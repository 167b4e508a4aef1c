"""
Does a judge rank systems of its own family of models? Such judges tend to like what
their own kind writes (Panickssery et al. 2024, "LLM Evaluators Recognize and Favor
Their Own Generations").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parlai_ext.core.nouns import System
from parlai_ext.models.handle import model_system
from parlai_ext.scoring.base import Scorer
from parlai_ext.systems.model_origin import model_origin

ASKED = ('likelihood', 'chat')  # the kinds of models that are prompted


def own_family(
    scorer: Scorer, systems: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    """
    Return the systems that are of the family of a model inside the scorer, each with
    what the two have in common.

    :param systems: the options of the ranked systems, by name.
    """
    judges = [
        model_origin(model_system(kind, name), scorer.datapath)
        for kind, name in scorer.models.loaded
        if kind in ASKED
    ]
    likenesses = {}
    for name, opt in sorted(systems.items()):
        origin = model_origin(System(name, opt), scorer.datapath)
        common = [likeness for j in judges if (likeness := j.likeness(origin))]
        if common:
            likenesses[name] = common[0]
    return likenesses
