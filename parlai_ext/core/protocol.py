"""
Protocols: one published method of evaluation, each of its keys declared once.

From these declarations come the keys of a protocol file and what is allowed in them:
the pairing scheme (which systems talk with each other), the plain keys, and how the
systems of a scored run are ranked, its ``ranking:`` section.

A new pairing scheme is one entry of `PLAYED`: the protocol file, ``--pairing`` and its
help, the schedule and the tables of results read everything from there.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from itertools import permutations, product
from typing import Literal

from parlai_ext.core.json_text import JsonDict, JsonObject
from parlai_ext.core.nouns import Roster, frozen, known_values
from parlai_ext.core.options import MOST_RESAMPLES, option, read_options


@frozen
class PairingScheme:
    """
    A way to pair the systems of a roster.

    `pairs` returns the names of first and second speakers for the names of targets and
    partners, by target and then in the roster's order. The first speaker's utterances
    are judged. With `swaps_roles` each pair also plays with the roles swapped, and when
    a protocol has both speakers judged, each is compared with the other.

    A scheme that is not played is that of dialogues that exist already. Their pairs are
    those that they have; openers, decoding and seeds are unknown, either speaker may
    begin, and partners are people, who are not judged.
    """

    help: str
    pairs: Callable[[Sequence[str], Sequence[str]], Iterable[tuple[str, str]]]
    has_partners: bool = False
    swaps_roles: bool = False
    fewest_targets: int = 1
    is_played: bool = True

    def opponents(
        self,
        targets: Sequence[str],
        partners: Sequence[str],
        pairs: Collection[tuple[str, str]],
    ) -> tuple[str, ...]:
        """
        Return the systems that targets talk with, in the roster's order; ``itself`` in
        self-play.

        :param pairs: the names of first and second speakers.
        """
        if self.is_played and all(first == second for first, second in pairs):
            return ('itself',)
        met = {second for first, second in pairs if first in targets}
        met |= {first for first, second in pairs if second in targets}
        return tuple(name for name in (*targets, *partners) if name in met)

    def is_self_play(self, first: str, second: str) -> bool:
        """
        True if a system talks with a copy of itself, of which only the one that begins
        is judged.
        """
        return self.is_played and first == second


PLAYED = {
    'bipartite': PairingScheme(
        'each target with each partner',
        product,
        has_partners=True,
    ),
    'self_play': PairingScheme(
        'each target with itself',
        lambda targets, partners: ((name, name) for name in targets),
    ),
    'all_play_all': PairingScheme(
        'each target with each other one, in both roles',
        lambda targets, partners: permutations(targets, 2),
        swaps_roles=True,
        fewest_targets=2,
    ),
}
IMPORTED = 'imported'
SCHEMES = {
    **PLAYED,
    IMPORTED: PairingScheme(
        'dialogues that exist already', lambda targets, partners: (), is_played=False
    ),
}


def schemes_help() -> str:
    """
    Return the schemes that can be played, for a help text: ``self_play (each target
    with itself), …``.
    """
    *others, last = (f'{name} ({scheme.help})' for name, scheme in PLAYED.items())
    return f'{", ".join(others)} or {last}'


# options of the command line that replace a key of `scorer:`
SCORER_OVERRIDES = ('judge_model_file', 'followups')
# no collection of openers has more, and more is a slip of the keyboard
MOST_DIALOGUES = 10_000_000
FEWEST_TURNS, MOST_TURNS = 3, 100_000


@frozen
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
    seed: int = option(0, low=0, help='chooses the openers, and sampled replies')


@frozen
class Protocol(ProtocolOptions):
    """
    One published method: pairing, openers, length, scorer and ranking rule.

    `scorer` and `ranking` hold the keys that are given. `reference` maps dimension ->
    system -> value, `reference_kind` says whether it is ``human`` or ``planted``.
    """

    scorer: JsonObject = field(default_factory=dict)
    ranking: JsonObject = field(default_factory=dict)
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


RATINGS = (
    'openskill',
    'trueskill',
    'bradley_terry',
    '3-1-0',
    '2-1-0',
    'sum_of_ranks',
)


@frozen
class RankingOptions:
    """
    Options of a ranking.
    """

    rule: str = option(
        'mean',
        choices=('mean', 'tournament'),
        metavar='NAME',
        help='what ranks: mean (scores) or tournament (games won)',
    )
    rating: str = option(
        'openskill',
        choices=RATINGS,
        metavar='NAME',
        help='of a tournament: openskill, trueskill, bradley_terry, 3-1-0, 2-1-0 or '
        'sum_of_ranks',
    )
    shuffles: int = option(
        3,
        low=1,
        high=10_000,
        help='orders of the games over which openskill and trueskill average',
    )
    bootstraps: int = option(
        2000,
        low=20,  # below, no 95 % of them can be told from all
        high=MOST_RESAMPLES,
        help='resamples behind each interval',
    )
    partners: Literal['sampled', 'fixed'] = option(
        'sampled',
        choices=('sampled', 'fixed'),
        help='whether ranks are about partners like these or about these partners only',
    )
    max_failed_share: float = option(
        0.05,
        low=0,
        high=1,
        metavar='SHARE',
        help='a system with more failed dialogues is listed, not ranked',
    )
    max_truncated_share: float = option(
        0.2,
        low=0,
        high=1,
        metavar='SHARE',
        help='of a system’s contexts that were too long for the judge; above it, '
        'its scores are marked as not comparable',
    )

    @property
    def is_tournament(self) -> bool:
        """
        True if games and their rating rank the systems, not mean scores.
        """
        return self.rule == 'tournament'


def ranking_options(
    section: JsonObject, replaced: JsonObject | None = None
) -> RankingOptions:
    """
    Return the options of a ``ranking:`` section, some of them replaced.

    :param replaced: values that hold instead, unless they are `None`. A rating without
        a rule is that of a tournament.
    :raises UserError: for an unknown key or a wrong value.
    """
    given: JsonDict = known_values(replaced or {})
    if {'rating', 'shuffles'} & set(given) and 'rule' not in given:
        given['rule'] = 'tournament'
    return read_options(RankingOptions, {**section, **given}, 'ranking: ')
