"""
The check of a judge on the items of a judged set, instead of a run's dialogues.

Each item is seen as a dialogue: its context, and its response. Copies keep the item's
references, facts and persona, so that scorers that need them can be checked, too.
"""

from collections.abc import Sequence
from dataclasses import replace

from parlai_ext.core.nouns import Dialogue, Opener, ScoredDialogue, Utterance
from parlai_ext.judge_check.check import check_judge, gather
from parlai_ext.judge_check.options import SAMPLE
from parlai_ext.judge_check.pair_check import check_pairs
from parlai_ext.judge_check.record import JudgeCheck
from parlai_ext.scoring.base import (
    ItemScore,
    Scorer,
    ScoringItem,
    dialogue_items,
    turn_items,
)

PARTNER = 'partner'
REFERENCES = 'the references of the judged set'


def check_items(
    scorer: Scorer,
    items: Sequence[ScoringItem],
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
            scorer.scored_dialogue(one, judged_places(one, scorer.level), [score])
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
        gather(zip(dialogues, placed(dialogues, scores), strict=True), openers, sample),
        openers,
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
        (item.speaker or 'A', PARTNER)[(last - i) % 2] for i in range(len(texts))
    ]
    turns = zip(names, texts, strict=False)  # `speakers` may know later utterances
    context = texts[:-1] if item.response is not None else texts
    return Dialogue(
        f'item {number}',
        str(number),
        Opener.from_utterances(context, '').id,
        tuple(Utterance(name, text) for name, text in turns),
    )


def judged_places(dialogue: Dialogue, level: str) -> tuple[int, ...]:
    """
    Return the place of the response, or all places of the judged speaker.
    """
    last = len(dialogue.utterances) - 1
    if level != 'dialogue':
        return (last,)
    speaker = dialogue.utterances[last].speaker
    return tuple(i for i, u in enumerate(dialogue.utterances) if u.speaker == speaker)


def copied_item(
    items: Sequence[ScoringItem], copy: Dialogue, level: str
) -> ScoringItem:
    """
    Return the item that asks to judge a copy, with all that its original knows.
    """
    make = dialogue_items if level == 'dialogue' else turn_items
    [item] = make(copy, judged_places(copy, level))
    if not copy.pairing_id:  # a person's reply
        return item
    original = items[int(copy.pairing_id)]
    return replace(
        item,
        references=original.references,
        facts=original.facts,
        persona=original.persona,
    )


def replied_openers(items: Sequence[ScoringItem]) -> tuple[Opener, ...]:
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
