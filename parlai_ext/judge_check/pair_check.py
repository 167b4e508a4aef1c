"""
The check of a scorer of pairs: it chooses between an original and its perturbed copy,
in both orders.

An order swap says how many choices are the order's: the same two responses, shown the
other way round (Zheng et al. 2023, "Judging LLM-as-a-Judge with MT-Bench and Chatbot
Arena", section 3.4).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from parlai_ext.core.nouns import content_id
from parlai_ext.core.progress import PartProgress, bar_of
from parlai_ext.core.watch import Kept, Watch
from parlai_ext.judge_check.check import (
    BLOCK,
    N_REPEATED,
    kinds_of_original,
    perturbations_for,
)
from parlai_ext.judge_check.marks import dimension_check, kind_result
from parlai_ext.judge_check.options import SAMPLE
from parlai_ext.judge_check.perturbations import (
    Perturbation,
    ResponseInDialogue,
    same_text,
)
from parlai_ext.judge_check.record import (
    DimensionCheck,
    JudgeCheck,
    OrderSwap,
    PromptProbes,
)
from parlai_ext.judge_check.repeats import SAME, repeats
from parlai_ext.ranking.proportions import wilson_interval
from parlai_ext.scoring.base import OTHER, Scorer, ScoringItem, swapped_item

SYSTEMS = 'systems'
Choice = Mapping[str, float]  # by dimension, above 0 where the original is preferred


@dataclass(frozen=True)
class CopyPair:
    """
    An original response and its perturbed copy, which a scorer chooses between.
    """

    kind: str
    item: ScoringItem


def check_pairs(
    scorer: Scorer,
    items: Sequence[ScoringItem],
    *,
    sample: int = SAMPLE,
    kept: Kept | None = None,
    progress: bool = True,
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
    both = [one for pair in pairs for one in (pair.item, swapped_item(pair.item))]
    again = both[: 2 * N_REPEATED] if scorer.prompted else []
    scores = preferences(asked, [*both, *again], len(both), kept, progress)
    first, second = scores[: len(both) : 2], scores[1 : len(both) : 2]
    choices = first
    if asked is not scorer:  # the scorer itself asks in both orders
        choices = list(map(mean_choice, first, second))
    return JudgeCheck(
        signature=scorer.signature,
        n_responses=len(originals),
        n_people=0,
        people_source=None,
        n_scored=len(both) + len(again),
        cost=(len(both) + len(again)) / max(1, len(items)),
        dimensions={
            name: pair_dimension(name, pairs, choices, kinds)
            for name in scorer.dimensions
        },
        probes=pair_probes(scores, len(both)),
        notes=('a scorer of pairs: it chooses between original and copy',),
    )


def pair_probes(scores: Sequence[Choice], n_first: int) -> PromptProbes:
    """
    Return what a scorer of pairs does when it is asked again, or the other way round.

    :param scores: of each pair in both orders, one after the other, then of the first
        of these once more.
    :param n_first: how many were asked for the first time.
    """
    probe = repeats(list(zip(scores, scores[n_first:], strict=False)), scores)
    order = order_swap(scores[:n_first:2], scores[1:n_first:2])
    return PromptProbes(probe.n, probe.n_changed, (), probe.mean_change, order=order)


def drawn_items(items: Sequence[ScoringItem], sample: int) -> list[ScoringItem]:
    """
    Return up to so many items that have a response, drawn by their content alone.
    """
    known = [item for item in items if item.response and item.response.strip()]
    known.sort(key=lambda item: content_id(list(item.context), item.response))
    return known[:sample]


def copy_pairs(
    items: Sequence[ScoringItem], kinds: Mapping[str, Perturbation]
) -> Iterator[CopyPair]:
    """
    Yield each original with each of its copies, the copy as the other response.
    """
    for place, item in enumerate(items):
        text, context = item.response or '', item.context
        response = ResponseInDialogue(
            text,
            context[-1] if context else None,
            context[-2] if len(context) > 1 else None,
            other_response(items, place),
            context[-3] if len(context) > 2 else None,
        )
        for kind in kinds_of_original(kinds, SYSTEMS, place):
            copy = kinds[kind](response)
            if copy is not None and not same_text(copy, text):
                extras = {**item.extras, OTHER: copy}
                yield CopyPair(kind, replace(item, extras=extras))


def other_response(items: Sequence[ScoringItem], place: int) -> str | None:
    """
    Return the next response of the same speaker to another context; `None` without one.
    """
    own = items[place]
    for k in range(1, len(items)):
        other = items[(place + k) % len(items)]
        if other.speaker == own.speaker and other.context != own.context:
            return other.response
    return None


def preferences(
    scorer: Scorer,
    items: Sequence[ScoringItem],
    n_first: int,
    kept: Kept | None,
    progress: bool,
) -> list[Choice]:
    """
    Return the score of each pair less the score of a tie, by dimension, without missing
    ones.

    :param n_first: the items after so many are asked for anew.
    """
    choices: list[Choice] = []
    with bar_of('judge check', len(items), progress, unit='pair') as bar:
        parts = PartProgress(bar, 'inputs read')
        for repeated, some in ((False, items[:n_first]), (True, items[n_first:])):
            for start in range(0, len(some), BLOCK):
                block = some[start : start + BLOCK]
                parts.begin(len(block))
                choices += _block_choices(scorer, block, repeated, kept, parts)
                parts.end()
    return choices


def _block_choices(
    scorer: Scorer,
    block: Sequence[ScoringItem],
    repeated: bool,
    kept: Kept | None,
    parts: PartProgress,
) -> list[dict[str, float]]:
    texts = [[*i.context, i.response, i.extras[OTHER]] for i in block]
    key = content_id('pairs', repeated, texts)
    known = None if kept is None else kept.get(key)
    if known is not None:
        return list(known)
    with scorer.watched(Watch(parts.tell)):
        if repeated:
            with scorer.asking_anew():
                scores = scorer.checked_scores(block)
        else:
            scores = scorer.checked_scores(block)
    choices = [
        {
            name: value - scorer.even
            for name, value in score.values.items()
            if value is not None
        }
        for score in scores
    ]
    if kept is not None:
        kept.put(key, choices)
    return choices


def mean_choice(first: Choice, second: Choice) -> Choice:
    """
    Return the preference of a pair over both orders, where both have one.
    """
    return {name: (first[name] - second[name]) / 2 for name in first if name in second}


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


def pair_dimension(
    name: str,
    pairs: Sequence[CopyPair],
    choices: Sequence[Choice],
    kinds: Mapping[str, Perturbation],
) -> DimensionCheck:
    """
    Return how often the original is preferred to each kind of copy.
    """
    results = []
    for kind in kinds:
        signs = [
            sign(choice[name])
            for pair, choice in zip(pairs, choices, strict=True)
            if pair.kind == kind and name in choice
        ]
        results.append(kind_result(kind, SYSTEMS, [(float(s), 0.0) for s in signs]))
    return dimension_check(name, results)
