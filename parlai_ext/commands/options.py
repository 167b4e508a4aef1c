"""
Options that several commands share, each declared once by the class that holds it.

A default of `None` means "not given": the protocol file's value holds.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from parlai_ext.collect.options import (
    DIALOGUES,
    PlanOptions,
    StopOptions,
    TrialOptions,
)
from parlai_ext.core.machine import Machine
from parlai_ext.core.options import add_flags, option, options_of
from parlai_ext.core.protocol import ProtocolOptions
from parlai_ext.core.ranking_options import RankingOptions
from parlai_ext.engines.options import EngineOptions
from parlai_ext.judge_check.options import CheckOptions, RequireCheck

RANKING_TITLE = 'ranking (default: as the protocol says)'
CHECK_TITLE = 'judge check'


@dataclass(frozen=True)
class ScorerFlags:
    """
    Keys of the scorer that several commands replace.
    """

    judge_model_file: str | None = option(
        None,
        path=True,
        metavar='MODEL',
        help='the model inside the scorer: a model file, zoo:…, or hf:REPOSITORY',
    )
    followups: str | None = option(
        None,
        path=True,
        metavar='NAME|FILE',
        help='follow-up set: a shipped name, fed_2020, or a file',
    )


@dataclass(frozen=True)
class HumanScores:
    """
    Where people's scores are.
    """

    human_scores: str | None = option(
        None,
        path=True,
        metavar='FILE',
        help='CSV: system,dimension,value[,rater,dialogue_id]',
    )


# the classes with the title under which `--help` shows options that name no group, and
# whether the options replace keys of a protocol file
SHARED: tuple[tuple[type, str | None, bool], ...] = (
    (PlanOptions, None, False),
    (ProtocolOptions, DIALOGUES, True),
    (ScorerFlags, 'scores (default: as the protocol says)', False),
    (RankingOptions, RANKING_TITLE, True),
    (HumanScores, RANKING_TITLE, False),
    (CheckOptions, CHECK_TITLE, False),
    (RequireCheck, CHECK_TITLE, False),
    (TrialOptions, None, False),
    (StopOptions, None, False),
    (Machine, None, False),
    (EngineOptions, None, False),
)


def flags_of(*classes: type) -> tuple[str, ...]:
    """
    Return the command-line flags that these option classes declare.
    """
    return tuple(
        option.flag() for cls in classes for option in options_of(cls).values()
    )


# what decides who talks to whom, over what and for how long
PLAN = tuple(
    flag
    for flag in (*flags_of(PlanOptions, ProtocolOptions), '--batchsize')
    if flag not in ('--name', '--score')
)
MACHINE = tuple(flag for flag in flags_of(Machine) if flag != '--batchsize')
ENGINE = flags_of(EngineOptions)
SCORER = flags_of(ScorerFlags)
# how systems are ranked, and a reference; `--partners` is a protocol's own matter
RANKING = (
    *(flag for flag in flags_of(RankingOptions) if flag != '--partners'),
    '--human-scores',
)
TRIALS = flags_of(TrialOptions)
STOP = flags_of(StopOptions)
CHECK = flags_of(CheckOptions)
REQUIRE = flags_of(RequireCheck)


def add_options(parser: argparse.ArgumentParser, *names: str) -> None:
    """
    Add the shared options called ``names`` to ``parser``, each in its group.
    """
    for cls, title, overrides in SHARED:
        add_flags(parser, cls, title=title, only=names, overrides=overrides)


def add_scorer_options(parser: argparse.ArgumentParser) -> None:
    """
    Add the options that choose the scorer: its name, an option of any scorer by key and
    value, and a flag for each option of FED.
    """
    from parlai_ext.scoring.fed import Fed, FedOptions

    group = parser.add_argument_group('scores (default: as the protocol says)')
    group.add_argument(
        '--scorer',
        metavar='NAME',
        help='fed, chatmatch, my_module:MyScorer, file.py:MyScorer, or a protocol, '
        'whose ranking rule goes with it (default: the run’s)',
    )
    group.add_argument(
        '--scorer-option',
        action='append',
        metavar='KEY=VALUE',
        help='an option of the scorer; may be given several times',
    )
    add_flags(group, FedOptions, prefix=Fed.name, not_given=True)
