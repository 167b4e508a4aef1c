"""
Which dialogues people rate: drawn evenly over systems, under the same conditions.

A pair has two systems' dialogues over the same opener with the same partner, so that
only the systems differ; single dialogues are drawn over the same openers for all
systems. The draw depends on the seed and on the dialogues alone. Where two systems
share no conditions (dialogues that were imported, say) any two dialogues are a pair.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, islice, zip_longest

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import content_id
from parlai_ext.people.questionnaire import LIKERT, PAIR, SIDES
from parlai_ext.people.run_dialogues import DialogueReference


@dataclass(frozen=True)
class RatingItem:
    """
    What annotators see at once: one dialogue, or two.

    :param id: says nothing about the systems.
    :param dialogues: of a pair, which one is first is drawn, too. Of a segment, the one
        dialogue of either speaker.
    :param exchanges: how many of a dialogue are shown; `None` for all.
    """

    id: str
    dialogues: tuple[DialogueReference, ...]
    exchanges: int | None = None

    @property
    def num_turns(self) -> int | None:
        """
        How many turns are shown; `None` for all.
        """
        return None if self.exchanges is None else 2 * self.exchanges

    @property
    def matched(self) -> bool:
        """
        True if all dialogues arose under the same conditions.
        """
        return len({d.conditions for d in self.dialogues}) == 1


def draw_items(
    dialogues: Sequence[DialogueReference],
    kind: str,
    count: int,
    seed: int,
    matchups: Sequence[tuple[str, str]] = (),
) -> list[RatingItem]:
    """
    Return at most ``count`` items, evenly over the systems or over their pairs.

    :param matchups: the pairs of systems, the first one first; without them all.

    :raises UserError: for pairs of fewer than two systems, or no dialogues at all.
    """
    by_system: dict[str, list[DialogueReference]] = defaultdict(list)
    # by conditions: the first dialogues of all systems are over the same openers
    for dialogue in sorted(
        dialogues, key=lambda d: (_draw(seed, *d.conditions), d.dialogue_id)
    ):
        by_system[dialogue.system].append(dialogue)
    needed = len(SIDES) if kind == PAIR else 1
    if len(by_system) < needed:
        raise UserError(
            f'--run-dir: dialogues of {len(by_system)} systems are there to be rated; '
            f'{needed} or more are needed'
        )
    if kind == LIKERT:
        queues: list[Iterator[tuple[DialogueReference, ...]]] = [
            iter([(d,) for d in by_system[name]]) for name in sorted(by_system)
        ]
    else:
        pairs = list(matchups or combinations(sorted(by_system), 2))
        if not matchups:
            pairs.sort(key=lambda pair: _draw(seed, *pair))
        queues = [_pairs(by_system[a], by_system[b], seed) for a, b in pairs]
    # one of each queue in turn
    rounds = chain.from_iterable(zip_longest(*queues))
    items = []
    for drawn in islice(filter(None, rounds), count):
        names = [(d.dialogue_id, d.system) for d in drawn]
        items.append(RatingItem(content_id('rating item', seed, names), drawn))
    return items


def _pairs(
    one: Sequence[DialogueReference], other: Sequence[DialogueReference], seed: int
) -> Iterator[tuple[DialogueReference, ...]]:
    """
    Yield pairs of dialogues of two systems under the same conditions; any pairs where
    there are none. Which one is first is drawn.
    """
    by_conditions = {dialogue.conditions: dialogue for dialogue in other}
    matches = [
        (d, by_conditions[d.conditions]) for d in one if d.conditions in by_conditions
    ]
    pairs = matches or list(zip(one, other, strict=False))
    for pair in sorted(pairs, key=lambda pair: _draw(seed, *pair)):
        yield tuple(sorted(pair, key=lambda d: _draw(seed, 'side', d, pair)))


def segment_pages(
    items: Sequence[RatingItem], segments: Sequence[int], num_pages: int
) -> tuple[tuple[RatingItem, ...], ...]:
    """
    Return pages with a segment of each dialogue, both of whose speakers are judged.
    Lengths take turns within a page, and a dialogue has another one on the next page,
    so that nobody reads it twice.
    """

    def segment(item: RatingItem, exchanges: int) -> RatingItem:
        (first,) = item.dialogues
        name = content_id('segment', item.id, exchanges)
        return RatingItem(name, (first, first.other_side), exchanges)

    return tuple(
        tuple(
            segment(item, segments[(place + page) % len(segments)])
            for place, item in enumerate(items)
        )
        for page in range(num_pages)
    )


def _draw(*parts: object) -> str:
    """
    Return what decides the place in a draw: a hash of these parts.
    """
    return content_id('draw', *map(str, parts))
