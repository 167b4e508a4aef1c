"""
The four answers at the top of the page: who leads, by how much, who judged, and whether
to believe it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from parlai_ext.core.display import (
    digits_for,
    interval,
    join_names,
    number,
    percent,
)
from parlai_ext.core.floors import is_floor
from parlai_ext.judge_check.record import FAIL, PASS, WEAK
from parlai_ext.ranking.standings import Standing, best_first
from parlai_ext.report import judge, summary, tournament
from parlai_ext.report.details import signed
from parlai_ext.report.recipe import scorer_name
from parlai_ext.results.details import DimensionDetails
from parlai_ext.results.ranking import Ranking

BELIEVE = {
    PASS: 'The judge passed its check',
    WEAK: 'With doubt: the judge is weak',
    FAIL: 'No: the judge fails its check',
}
NOT_CHECKED = 'Not known: the judge was not checked'


@dataclass(frozen=True)
class Answer:
    """
    A question, its answer in a few words, and a line more.
    """

    question: str
    text: str
    more: str = ''


def answers(
    ranking: Ranking, details: Mapping[str, DimensionDetails]
) -> tuple[Answer, ...]:
    """
    Return the four answers about the first dimension; none without a dimension.
    """
    if not ranking.dimensions:
        return ()
    main = ranking.dimensions[0]
    ranked = [s for s in best_first(ranking.standings[main]) if s.rank is not None]
    systems = [s for s in ranked if not is_floor(s.system)] or ranked
    return (
        _leader(ranking, main, systems),
        _lead(ranking, details.get(main), systems),
        _judge(ranking),
        _trust(ranking, main),
    )


def _leader(ranking: Ranking, main: str, systems: list[Standing]) -> Answer:
    """
    Return who leads; nobody where the judge failed or nothing can be told apart.
    """
    question = 'Who leads'
    check = ranking.leading_check
    if check is not None and check.failed:
        return Answer(question, 'Nobody', f'On {main} the judge fails its check.')
    if not systems:
        return Answer(question, 'Nobody', f'On {main} no system could be ranked.')
    first = systems[0].system
    separation = summary.separation_on(ranking, main)
    if ranking.tournament is not None or separation is None:
        is_alone = systems[0].rank_high == 1
        doubt = '' if is_alone else '; others may be as good'
        return Answer(question, first, f'on {main}{doubt}')
    if not separation.n_apart:
        return Answer(question, 'Not settled', f'On {main}, {first} scores highest.')
    if separation.first != first:
        return Answer(question, first, f'on {main}, below the floor {separation.first}')
    if separation.not_apart:
        tied = summary.few_names(separation.not_apart, 'or')
        return Answer(question, first, f'on {main}, not told apart from {tied}')
    return Answer(question, first, f'on {main}')


def _lead(
    ranking: Ranking, details: DimensionDetails | None, systems: list[Standing]
) -> Answer:
    """
    Return how far the first is ahead of the second.
    """
    question = 'By how much'
    if len(systems) < 2:
        return Answer(question, 'Not known', 'Fewer than two systems are ranked.')
    first, second = (standing.system for standing in systems[:2])
    if ranking.tournament is not None:
        result = ranking.tournament
        own, other = (tournament.rating_text(result, n) for n in (first, second))
        return Answer(question, f'Rating {own}', f'{second}: {other}')
    pair = details.pair(first, second) if details else None
    if pair is None:
        return Answer(question, 'Not known', 'No dialogues to compare.')
    digits = digits_for([standing.score for standing in systems])
    ends = interval(pair.low, pair.high, digits)
    return Answer(
        question,
        f'{signed(pair.difference, digits)} over {second}',
        f'95 % {ends}; ahead in {percent(pair.win_rate)} of {pair.n} dialogues',
    )


def _judge(ranking: Ranking) -> Answer:
    """
    Return the scorer and its models.
    """
    card = ranking.judge
    scorer = card.scorer if card else scorer_name(ranking.scorer_signature)
    models = [judge.model_text(model) for model in card.models] if card else []
    return Answer('Who judged', scorer, join_names(models))


def _trust(ranking: Ranking, main: str) -> Answer:
    """
    Return whether the ranking can be believed, as far as that is known.
    """
    check = ranking.leading_check
    parts = []
    if agreement := ranking.reference.get(main):
        name = ranking.leading_coefficient(main)
        value = getattr(agreement, name).value
        reference = 'the planted order' if agreement.kind == 'planted' else 'people'
        parts.append(f'{name.capitalize()} {number(value)} with {reference}')
    if n_cautions := len(summary.warnings(ranking)):
        parts.append(f'{n_cautions} caution{"s" if n_cautions > 1 else ""} below')
    text = BELIEVE.get(check.outcome, NOT_CHECKED) if check else NOT_CHECKED
    return Answer('Believe it?', text, '; '.join(parts))
