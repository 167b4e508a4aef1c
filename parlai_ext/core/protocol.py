"""
Protocols: one published method of evaluation, each of its keys declared once.

From these declarations come the keys of a protocol file and what is allowed in them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from parlai_ext.core.nouns import Roster
from parlai_ext.core.options import option
from parlai_ext.worlds.pairings import PLAYED, schemes_help

# options of the command line that replace a key of `scorer:`
SCORER_OVERRIDES = ('judge_model_file', 'followups')
# no collection of openers has more, and more is a slip of the keyboard
MOST_DIALOGUES = 10_000_000
FEWEST_TURNS, MOST_TURNS = 3, 100_000


@dataclass(frozen=True)
class ProtocolOptions:
    """
    The keys of a protocol file that hold one plain value.
    """

    name: str = option(help="the protocol's name; the file's, if it is left out")
    pairing: str = option('bipartite', choices=PLAYED, help=schemes_help())
    openers: str = option(
        'ext:empathetic_openers',
        help='task that gives the opening utterances, or say:TEXT for one utterance',
    )
    num_dialogues: int = option(
        600,
        low=1,
        high=MOST_DIALOGUES,
        also='--limit',
        help='dialogues of each pairing, over openers drawn by --seed',
    )
    num_turns: int = option(
        12,
        low=FEWEST_TURNS,
        high=MOST_TURNS,
        help='utterances of a dialogue, the given ones included',
    )
    score: str = option(
        'target',
        choices=('target', 'both'),
        help="whose utterances are judged: the first speaker's (target) or both's",
    )
    seed: int = option(0, help='chooses the openers, and sampled replies')


@dataclass(frozen=True)
class Protocol(ProtocolOptions):
    """
    One published method: pairing, openers, length, scorer and ranking rule.

    `scorer` and `ranking` hold the keys that are given. `reference` maps dimension ->
    system -> value, `reference_kind` says whether it is ``human`` or ``planted``.
    """

    scorer: Mapping[str, Any] = field(default_factory=dict)
    ranking: Mapping[str, Any] = field(default_factory=dict)
    roster: Roster = field(default_factory=lambda: Roster(()))
    reference: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    reference_kind: str | None = None

    @property
    def planted_systems(self) -> frozenset[str]:
        """
        The systems whose place in the ranking was planted beforehand.
        """
        orders = self.reference.values() if self.reference_kind == 'planted' else ()
        return frozenset(name for order in orders for name in order)
