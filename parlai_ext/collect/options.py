"""
The options of collecting: what is played, and what is tried beforehand.

Commands import this module for their help, so it imports little.
"""

from collections.abc import Sequence
from dataclasses import field, replace

from parlai_ext.core import (
    SCORER_OVERRIDES,
    JsonDict,
    JsonObject,
    ProtocolOptions,
    RankingOptions,
    UserError,
    frozen,
    known_values,
    one_value,
    option,
    optional,
    options_from_opt,
    options_of,
)

# keys of the protocol that the command line may replace
OVERRIDES = (
    'roster',
    *(key for key in options_of(ProtocolOptions) if key != 'name'),
    *SCORER_OVERRIDES,
    *(key for key in options_of(RankingOptions) if key != 'partners'),
)
RUN, SPEAKERS = 'the run', 'who talks'
DIALOGUES = 'dialogues (default: as the protocol says)'


@frozen
class PlanOptions:
    """
    The options that say who talks, over which openers and for how long.

    `None` means not given: the protocol's value holds. `overrides` has every key of the
    protocol that the command line replaces, those of its scorer and its ranking too.
    """

    config: str | None = optional(
        metavar='NAME|FILE',
        group=RUN,
        help='protocol: a shipped name (demo, …) or a YAML file; options replace keys',
    )
    run_dir: str | None = optional(
        metavar='FOLDER',
        group=RUN,
        help='the folder of the run',
    )
    roster: str | None = optional(
        metavar='NAME|FILE',
        group=SPEAKERS,
        help='roster: a shipped name or a YAML file',
    )
    add_target: tuple[str, ...] = option(
        (),
        read=one_value,
        metavar='SYSTEM',
        group=SPEAKERS,
        help='one more target: NAME=MODEL_FILE[,key=value…], NAME=agent:CLASS[,…], '
        'NAME=http://…[,…], FILE.yaml, or the name of a shipped system; may be given '
        'several times',
    )
    skip_missing: bool = option(
        False,
        group=SPEAKERS,
        help='leave out systems whose model cannot be had',
    )
    openers_file: str | None = optional(
        metavar='FILE',
        group=DIALOGUES,
        help='CSV with columns conv_id, utterance_idx, utterance',
    )
    overrides: JsonObject = field(default_factory=dict)

    @classmethod
    def from_options(cls, opt: JsonObject) -> 'PlanOptions':
        """
        Return what a command's options say of the plan.
        """
        given: JsonDict = known_values({key: opt.get(key) for key in OVERRIDES})
        return replace(options_from_opt(cls, opt), overrides=given)

    @property
    def options_needing_config(self) -> JsonObject:
        """
        The options that a run without ``--config`` cannot take.
        """
        return known_values({**self.overrides, 'openers_file': self.openers_file})


@frozen
class TrialOptions:
    """
    What to try before a run. ``--preflight`` is followed by the run, others are not.
    """

    title = 'before a long run'
    dry_run: bool = option(False, help='say what would be done and stop')
    preflight: bool = option(
        False,
        help='two dialogues a system first; empty, copied or raising replies stop '
        'the run, and so does a system that cannot be loaded, unless --skip-missing '
        'leaves it out',
    )
    pilot: bool = option(
        False,
        help='play and score some blocks, forecast what the run will take (time, '
        'memory, money), and stop; the run compares itself with that at its end',
    )


@frozen
class StopOptions:
    """
    When to stop before all dialogues of the protocol are played.
    """

    title = 'stop when settled'
    stop: str | None = optional(
        choices=('when-ranked',),
        metavar='when-ranked',
        help='play blocks of openers with all partners and stop as soon as every pair '
        'of targets is settled, or a tie within --margin; --num-dialogues is the most',
    )
    margin: float | None = optional(
        above=0,
        metavar='M',
        help='difference of mean scores up to which two systems count as tied, in the '
        'units of the score',
    )
    stop_dimension: str | None = optional(
        metavar='NAME',
        help='the dimension that is watched (default: the first of the leaderboard)',
    )
    block_openers: int = option(
        20,
        low=1,
        help='openers of a block; after each block the run is scored and looked at',
    )


@frozen
class AskedSystems:
    """
    The systems that are asked.
    """

    systems: tuple[str, ...] = option(
        (),
        nargs='+',
        metavar='SYSTEM',
        help='systems that are asked: shipped names, files, '
        'NAME=MODEL_FILE[,key=value…]',
    )
    roster: str | None = optional(
        metavar='NAME|FILE', help='systems: the targets of a roster'
    )
    skip_missing: bool = option(False, help='leave out systems that cannot be had')

    def require_all(self, problems: Sequence[str]) -> None:
        """
        Refuse systems that could not be asked, unless they are to be left out.

        :param problems: why, of each.
        """
        if problems and not self.skip_missing:
            raise UserError(f'not all systems could answer: {problems[0]}')
