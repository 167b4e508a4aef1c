"""
Options that several commands share, each declared once by the class that holds it.

A default of `None` means "not given": the protocol file's value holds.
"""

from parlai_ext.collect.options import DIALOGUES, PlanOptions
from parlai_ext.core import (
    Flags,
    ProtocolOptions,
    RankingOptions,
    frozen,
    option,
    optional,
    options_of,
)
from parlai_ext.core.options import MOST_RESAMPLES
from parlai_ext.engines import Machine

SCORES = 'scores (default: as the protocol says)'
RANKING_TITLE = 'ranking (default: as the protocol says)'


@frozen
class ScorerFlags:
    """
    Keys of the scorer that several commands replace.
    """

    judge_model_file: str | None = optional(
        path=True,
        metavar='MODEL',
        help='the model inside the scorer: a model file, zoo:…, or hf:REPOSITORY',
    )
    followups: str | None = optional(
        metavar='NAME|FILE',
        help='follow-up set: a shipped name, fed_2020, or a file',
    )


@frozen
class HumanScores:
    """
    Where people's scores are.
    """

    human_scores: str | None = optional(
        metavar='FILE',
        help='CSV: system,dimension,value[,rater,dialogue_id]',
    )


@frozen
class ScoresChoice:
    """
    Which of a run's scores are used.
    """

    scores: str | None = optional(
        metavar='HASH|NAME',
        help='hash of the scores, or the name of their scorer (default: those of the '
        'protocol’s scorer)',
    )


def resamples(number: int) -> int:
    """
    Return the option ``--bootstraps`` with its default.
    """
    return option(
        number,
        low=1,
        high=MOST_RESAMPLES,
        help=f'resamples behind each interval ({number})',
    )


@frozen
class Resamples:
    """
    How intervals are drawn.
    """

    bootstraps: int = resamples(1000)
    seed: int = option(
        0, low=0, help='draws the resamples, and all else that is drawn by chance (0)'
    )


# what decides who talks to whom, over what and for how long
PLAN = (
    Flags(PlanOptions),
    Flags(ProtocolOptions, DIALOGUES, skip=('--name', '--score'), overrides=True),
)
SCORER = Flags(ScorerFlags, SCORES)
# how systems are ranked, and a reference; `--partners` is a protocol's own matter
RANKING = (
    Flags(RankingOptions, RANKING_TITLE, skip=('--partners',), overrides=True),
    Flags(HumanScores, RANKING_TITLE),
)
MACHINE = Flags(Machine, skip=('--batchsize',))
# what matters to a command that loads a judge and no systems
JUDGE_MACHINE = (
    '--batchsize',
    '--datapath',
    '--no-cuda',
    '--fp16',
    '--trust-model-code',
)
# a command may declare single flags of these by their names
SHARED = {
    option.flag_name(): flags
    for flags in (*PLAN, SCORER, *RANKING, Flags(Machine))
    for option in options_of(flags.cls).values()
}
