"""
The check of a scorer of pairs: it chooses between an original and its perturbed copy,
in both orders.

An order swap says how many choices are the order's: the same two responses, shown the
other way round (Zheng et al. 2023, "Judging LLM-as-a-Judge with MT-Bench and Chatbot
Arena", section 3.4).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

from parlai_ext.core.nouns import content_id
from parlai_ext.judge_check.check import (
    N_REPEATED,
    Pairs,
    blocks_of,
    kinds_check,
    kinds_of_original,
    perturbations_for,
    score_blocks,
)
from parlai_ext.judge_check.marks import SAME, repeats
from parlai_ext.judge_check.options import SAMPLE
from parlai_ext.judge_check.perturbations import (
    Perturbation,
    ResponseInDialogue,
    same_text,
)
from parlai_ext.judge_check.record import JudgeCheck, OrderSwap
from parlai_ext.ranking.intervals import wilson_interval
from parlai_ext.scoring.base import OTHER, Scorer, ScoringItem, swapped_item

SYSTEMS = 'systems'
Choice = Mapping[str, float]  # by dimension, above 0 where the original is preferred


def check_pairs(
    scorer: Scorer,
    items: Sequence[ScoringItem],
    *,
    sample: int = SAMPLE,
) -> JudgeCheck | None:
    """
    Return the check of a scorer of pairs on originals that are responses after their
    contexts; `None` without any.

    :param items: the originals; which other response they have does not matter.
    :param sample: originals that are perturbed, at most.
    """
    originals = drawn_items(items, sample)
    kinds = perturbations_for(scorer)
    pairs = list(copy_pairs(originals, kinds))
    if not pairs:
        return None
    asked = scorer.in_given_order()
    both = [item for _, one in pairs for item in (one, swapped_item(one))]
    again = both[: 2 * N_REPEATED] if scorer.prompted else []
    scores = preferences(asked, both, again)
    first, second = scores[: len(both) : 2], scores[1 : len(both) : 2]
    choices = first
    if asked is not scorer:  # the scorer itself asks in both orders
        choices = [
            {d: (one[d] - two[d]) / 2 for d in one if d in two}
            for one, two in zip(first, second, strict=True)
        ]
    probes = repeats(list(zip(scores, scores[len(both) :], strict=False)), scores)
    by_dimension: dict[str, Pairs] = {name: {} for name in scorer.dimensions}
    for (kind, _), choice in zip(pairs, choices, strict=True):
        for name, value in choice.items():
            signs = by_dimension[name].setdefault((kind, SYSTEMS), [])
            signs.append((float(sign(value)), 0.0))
    n_scored = len(both) + len(again)
    return JudgeCheck(
        signature=scorer.signature,
        n_responses=len(originals),
        n_people=0,
        people_source=None,
        n_scored=n_scored,
        cost=n_scored / max(1, len(items)),
        dimensions={
            name: kinds_check(name, own, kinds) for name, own in by_dimension.items()
        },
        probes=replace(probes, order=order_swap(first, second)),
        notes=('a scorer of pairs: it chooses between original and copy',),
    )


def drawn_items(items: Sequence[ScoringItem], sample: int) -> list[ScoringItem]:
    """
    Return up to so many items that have a response, drawn by their content alone.
    """
    known = [item for item in items if item.response and item.response.strip()]
    known.sort(key=lambda item: content_id(list(item.context), item.response))
    return known[:sample]


def copy_pairs(
    items: Sequence[ScoringItem], kinds: Mapping[str, Perturbation]
) -> Iterator[tuple[str, ScoringItem]]:
    """
    Yield each original with each of its copies as the other response, by kind.

    A reply of another dialogue is the next response of the same speaker to another
    context.
    """
    for place, item in enumerate(items):
        text, heard = item.response or '', [*item.context[:-4:-1], None, None, None]
        others = (*items[place + 1 :], *items[:place])
        reply = next(
            (
                other.response
                for other in others
                if other.speaker == item.speaker and other.context != item.context
            ),
            None,
        )
        response = ResponseInDialogue(text, heard[0], heard[1], reply, heard[2])
        for kind in kinds_of_original(kinds, SYSTEMS, place):
            copy = kinds[kind](response)
            if copy is not None and not same_text(copy, text):
                yield kind, replace(item, extras={**item.extras, OTHER: copy})


def preferences(
    scorer: Scorer,
    items: Sequence[ScoringItem],
    again: Sequence[ScoringItem],
) -> list[dict[str, float]]:
    """
    Return the score of each pair less the score of a tie, by dimension, without missing
    ones; then of those that are asked for again, anew.
    """
    first, second = ([(False, i) for i in items], [(True, i) for i in again])

    def score(block: Sequence[tuple[bool, ScoringItem]]) -> list[dict[str, float]]:
        with scorer.asking_anew() if block[0][0] else nullcontext():
            scores = scorer.checked_scores([item for _, item in block])
        return [
            {
                d: value - scorer.even
                for d, value in one.values.items()
                if value is not None
            }
            for one in scores
        ]

    blocks = [*blocks_of(first), *blocks_of(second)]
    return score_blocks(scorer, blocks, score, unit='pair')


def order_swap(first: Sequence[Choice], second: Sequence[Choice]) -> OrderSwap:
    """
    Return how often a choice changes with the order, over pairs and dimensions.

    :param first: the preference for the response, which is shown first.
    :param second: the preference for the other one, which is then shown first.
    """
    signs = [
        (sign(one[name]), sign(other[name]))
        for one, other in zip(first, second, strict=True)
        for name in one
        if name in other
    ]
    changed = sum(one != -other for one, other in signs)
    made = [choice for both in signs for choice in both if choice]
    low, high = wilson_interval(changed, len(signs)) if signs else (None, None)
    share = sum(choice > 0 for choice in made) / len(made) if made else None
    return OrderSwap(len(signs), changed, low, high, share)


def sign(value: float) -> int:
    """
    Return 1, 0 or -1; rounding noise is 0.
    """
    return 0 if abs(value) <= SAME else 1 if value > 0 else -1
