"""
What a scorer is given for one judged item: the rule of `eval_model` and of `run_bench`.
"""

from collections.abc import Sequence

from parlai_ext.core import mean
from parlai_ext.data.judged import JudgedItem
from parlai_ext.scoring.base import ItemScore, Scorer, ScoringItem

AUTO, WHOLE, ALL = 'auto', 'whole', 'all'


def judged_scoring_items(
    item: JudgedItem,
    scorer: Scorer,
    turns: str = AUTO,
    most: int | None = None,
    seed: int = 0,
) -> list[ScoringItem]:
    """
    Return the items to score for one judged turn or dialogue; its score is the mean of
    theirs.

    A scorer of dialogues is given a dialogue whole, with no response, and so a judged
    turn with all before it, unless it can judge single responses. A scorer of turns
    is given its last utterance after all others, or turns of the judged speaker.

    :param turns: how a scorer of turns judges a dialogue: ``whole``; ``all``: by turns;
        or ``auto``: whole if it can judge whole dialogues, else by turns.
    :param most: the most turns that are drawn where it judges by turns; `None`: all.
    """
    if item.response is not None and level_of_turns(scorer) == 'turn':
        return [_scoring_item(item, item.context, item.response)]
    if scorer.level == 'dialogue':
        return [_scoring_item(item, item.utterances, None)]
    if turns == WHOLE or (turns == AUTO and scorer.also_level == 'dialogue'):
        return [_scoring_item(item, item.context[:-1], item.context[-1])]
    return [
        _scoring_item(turn, turn.context, turn.response)
        for turn in item.turns(most, seed)
    ]


def mean_score(scores: Sequence[ItemScore], dimensions: Sequence[str]) -> ItemScore:
    """
    Return the mean of the scores of one judged item in each dimension, over those that
    have a value; or the first reason why none has one.
    """
    values = {}
    reasons = {}
    for name in dimensions:
        numbers = [
            value for score in scores if (value := score.values.get(name)) is not None
        ]
        values[name] = mean(numbers)
        if not numbers:
            told = (score.reasons.get(name) for score in scores)
            reasons[name] = next(
                filter(None, told), 'the dialogue has no turn of the judged speaker'
            )
    return ItemScore(values, reasons, cut=sum(score.cut for score in scores))


def level_of_turns(scorer: Scorer) -> str:
    """
    Return as what a scorer is given a judged turn: ``turn``, or ``dialogue`` if it sees
    only the dialogue up to it.
    """
    whole = (scorer.level, scorer.also_level) == ('dialogue', None)
    return 'dialogue' if whole else 'turn'


def _scoring_item(
    item: JudgedItem, context: tuple[str, ...], response: str | None
) -> ScoringItem:
    return ScoringItem(
        context,
        response,
        item.system,
        item.references,
        item.facts,
        item.persona,
        {'speakers': item.speakers} if item.speakers else {},
    )
