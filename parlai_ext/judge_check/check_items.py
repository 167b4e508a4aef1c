"""
The check of a judge on the items of a judged set, instead of a run's dialogues.

Each item is seen as a dialogue: its context, and its response. Copies keep the item's
references, facts and persona, so that scorers that need them can be checked, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from parlai_ext.core.nouns import (
    Dialogue,
    Opener,
    ScoredDialogue,
    Utterance,
    content_id,
)
from parlai_ext.judge_check.check import (
    N_REPEATED,
    check_judge,
    dimension_pairs,
    kinds_check,
    kinds_of_original,
    perturbations_for,
    score_blocks,
)
from parlai_ext.judge_check.marks import SAME, repeats
from parlai_ext.judge_check.perturbations import (
    Perturbation,
    ResponseInDialogue,
)
from parlai_ext.judge_check.record import SAMPLE, JudgeCheck, OrderSwap
from parlai_ext.judge_check.sample import JudgedDialogues
from parlai_ext.ranking.intervals import wilson_interval
from parlai_ext.scoring.base import (
    OTHER,
    Items,
    ItemScore,
    Scorer,
    ScoringItem,
    dialogue_items,
    swapped_item,
    turn_items,
)

REFERENCES = 'the references of the judged set'


def check_items(
    scorer: Scorer,
    items: Items,
    scores: Sequence[ItemScore],
    *,
    sample: int = SAMPLE,
) -> JudgeCheck | None:
    """
    Return the check of a judge that has scored these items.

    The first reference of each context stands for a person's reply, unless the scorer
    itself needs references, facts or a persona.

    :param scores: of each item, as `Scorer.checked_scores` returns them.
    :param sample: responses that are perturbed, at most.
    :returns: `None` where there is nothing to check.
    """
    if sample == 0:
        return None
    if scorer.level == 'pair':
        return check_pairs(scorer, items, sample=sample)
    dialogues = [item_dialogue(item, i) for i, item in enumerate(items)]

    def placed(
        dialogues: Sequence[Dialogue], scores: Sequence[ItemScore]
    ) -> list[ScoredDialogue]:
        return [
            scorer.scored_dialogue(one, judged_by_level(one, scorer.level), [score])
            for one, score in zip(dialogues, scores, strict=True)
        ]

    def score_copies(
        copies: Sequence[Dialogue], _: Sequence[Sequence[int]]
    ) -> list[ScoredDialogue]:
        # the places are the originals': the given ones may be of both speakers
        asked = [copied_item(items, copy, scorer.level) for copy in copies]
        return placed(copies, scorer.checked_scores(asked))

    openers = () if scorer.needs else replied_openers(items)
    return check_judge(
        scorer,
        JudgedDialogues(
            zip(dialogues, placed(dialogues, scores), strict=True), openers, sample
        ),
        people_source=REFERENCES,
        score_dialogues=score_copies,
    )


def item_dialogue(item: ScoringItem, number: int) -> Dialogue:
    """
    Return an item as a dialogue that ends with the judged speaker's utterance.

    Where the item does not say who spoke, two speakers took turns.

    :param number: of the item, the dialogue's `pairing_id`; it leads back to it.
    """
    texts = item.utterances
    last = len(texts) - 1
    names = item.extras.get('speakers') or [
        (item.speaker or 'A', 'partner')[(last - i) % 2] for i in range(len(texts))
    ]
    turns = zip(names, texts, strict=False)  # `speakers` may know later utterances
    context = texts[:-1] if item.response is not None else texts
    return Dialogue(
        f'item {number}',
        str(number),
        Opener.from_utterances(context, '').id,
        tuple(Utterance(name, text) for name, text in turns),
    )


def judged_by_level(dialogue: Dialogue, level: str) -> tuple[int, ...]:
    """
    Return the place of the response, or all places of the judged speaker.
    """
    last = len(dialogue.utterances) - 1
    if level != 'dialogue':
        return (last,)
    speaker = dialogue.utterances[last].speaker
    return tuple(i for i, u in enumerate(dialogue.utterances) if u.speaker == speaker)


def copied_item(items: Items, copy: Dialogue, level: str) -> ScoringItem:
    """
    Return the item that asks to judge a copy, with all that its original knows.
    """
    make = dialogue_items if level == 'dialogue' else turn_items
    [item] = make(copy, judged_by_level(copy, level))
    if not copy.pairing_id:  # a person's reply
        return item
    original = items[int(copy.pairing_id)]
    return replace(
        item,
        references=original.references,
        facts=original.facts,
        persona=original.persona,
    )


def replied_openers(items: Items) -> tuple[Opener, ...]:
    """
    Return the contexts that have a reference, each once, with the first one as reply.
    """
    openers = {
        item.context: Opener.from_utterances(
            item.context, REFERENCES, item.references[0]
        )
        for item in items
        if item.references and item.context and item.response is not None
    }
    return tuple(openers.values())


SYSTEMS = 'systems'
Choice = Mapping[str, float]  # by dimension, above 0 where the original is preferred


def check_pairs(
    scorer: Scorer,
    items: Items,
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
    signs = [{name: float(sign(v)) for name, v in own.items()} for own in choices]
    copies = [
        (kind, SYSTEMS, own, dict.fromkeys(own, 0.0))
        for (kind, _), own in zip(pairs, signs, strict=True)
    ]
    n_scored = len(both) + len(again)
    return JudgeCheck(
        signature=scorer.signature,
        n_responses=len(originals),
        n_people=0,
        people_source=None,
        n_scored=n_scored,
        cost=n_scored / max(1, len(items)),
        dimensions={
            name: kinds_check(name, dimension_pairs(name, copies), kinds)
            for name in scorer.dimensions
        },
        probes=replace(probes, order=order_swap(first, second)),
        notes=('a scorer of pairs: it chooses between original and copy',),
    )


def drawn_items(items: Items, sample: int) -> list[ScoringItem]:
    """
    Return up to so many items that have a response, drawn by their content alone.
    """
    known = [item for item in items if item.response and item.response.strip()]
    known.sort(key=lambda item: content_id(list(item.context), item.response))
    return known[:sample]


def copy_pairs(
    items: Items, kinds: Mapping[str, Perturbation]
) -> Iterator[tuple[str, ScoringItem]]:
    """
    Yield each original with each of its copies as the other response, by kind.

    A reply of another dialogue is the next response of the same speaker to another
    context.
    """
    for place, item in enumerate(items):
        others = (*items[place + 1 :], *items[:place])
        reply = next(
            (
                other.response
                for other in others
                if other.speaker == item.speaker and other.context != item.context
            ),
            None,
        )
        response = ResponseInDialogue.alternating(
            item.response or '', item.context, reply
        )
        for kind in kinds_of_original(kinds, SYSTEMS, place):
            copy = response.spoilt(kinds[kind])
            if copy is not None:
                yield kind, replace(item, extras={**item.extras, OTHER: copy})


def preferences(
    scorer: Scorer,
    items: Items,
    again: Items,
) -> list[dict[str, float]]:
    """
    Return the score of each pair less the score of a tie, by dimension, without missing
    ones; then of those that are asked for again, anew.
    """

    def score(block: Items) -> list[dict[str, float]]:
        return [
            {
                d: value - scorer.even
                for d, value in one.values.items()
                if value is not None
            }
            for one in scorer.checked_scores(block)
        ]

    return score_blocks(scorer, items, again, score, unit='pair')


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
