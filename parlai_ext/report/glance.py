"""
The four answers at the top of the page: who leads, by how much, who judged, and whether
to believe it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from parlai_ext.core.display import (
    digits_for,
    few_names,
    interval,
    join_names,
    number,
    percent,
)
from parlai_ext.core.floors import is_floor
from parlai_ext.judge_check.record import FAIL, PASS, WEAK, DimensionCheck
from parlai_ext.ranking.standings import Standing, best_first
from parlai_ext.report import judge, summary, tournament
from parlai_ext.report.details import signed
from parlai_ext.report.recipe import scorer_name
from parlai_ext.results.details import DimensionDetails
from parlai_ext.results.ranking import Ranking

if TYPE_CHECKING:
    from parlai_ext.report.audit_doubt import AuditDoubt

# what kind of news an answer is, with the sign and the words that stand beside it
GOOD, OPEN, BAD, PLAIN = 'good', 'open', 'bad', ''
SIGNS = {GOOD: '✓ holds', OPEN: '? open', BAD: '✗ fails', PLAIN: ''}

BELIEVE: Mapping[str, tuple[str, str]] = {
    PASS: ('The judge passed its check', GOOD),
    WEAK: ('With doubt: the judge is weak', OPEN),
    FAIL: ('No: the judge fails its check', BAD),
}
NOT_CHECKED = 'Not known: the judge was not checked'


@dataclass(frozen=True)
class Answer:
    """
    A question, its answer in a few words, and a line more.

    :param news: `GOOD`, `OPEN` where it is not settled, `BAD`, or `PLAIN` for what is
        no news. An answer that is open is not printed bold.
    """

    question: str
    text: str
    more: str = ''
    news: str = PLAIN

    @property
    def sign(self) -> str:
        """
        A sign and words for the kind of news.
        """
        return SIGNS[self.news]


def answers(
    ranking: Ranking,
    dimension: str,
    details: DimensionDetails | None = None,
    remarks: Sequence[str] = (),
    doubt: AuditDoubt | None = None,
) -> tuple[Answer, ...]:
    """
    Return the four answers about a dimension.

    :param remarks: what else is known of whether to believe it, as half sentences.
    :param doubt: what the audit says against it. Then nothing is good news.
    """
    standings = best_first(ranking.standings[dimension])
    ranked = [standing for standing in standings if standing.rank is not None]
    systems = [one for one in ranked if not is_floor(one.system)] or ranked
    check = None
    if ranking.judge_check is not None:
        check = ranking.judge_check.check_of(dimension)
    leader = _leader(ranking, dimension, systems, check)
    lead = _lead(ranking, dimension, systems, details, check)
    trust = _trust(ranking, dimension, check, remarks, doubt)
    if doubt is not None:
        leader, lead = (
            replace(one, news=OPEN if one.news == GOOD else one.news)
            for one in (leader, lead)
        )
    return leader, lead, _judge(ranking), trust


def _leader(
    ranking: Ranking,
    dimension: str,
    systems: list[Standing],
    check: DimensionCheck | None,
) -> Answer:
    """
    Return who leads; nobody where the judge failed or nothing can be told apart.
    """
    question = 'Who leads'
    if check is not None and check.failed:
        return Answer(
            question, 'Nobody', f'On {dimension} the judge fails its check.', BAD
        )
    if not systems:
        return Answer(
            question, 'Nobody', f'On {dimension} no system could be ranked.', BAD
        )
    few = summary.few_partners(ranking, dimension)
    where = f'on {dimension}{summary.scope_text(few)}'
    first = systems[0].system
    separation = summary.separation_on(ranking, dimension)
    if dimension == ranking.rated_dimension or separation is None:
        is_alone = systems[0].rank_high == 1
        others = '' if is_alone else '; others may be as good'
        return Answer(question, first, where + others, GOOD if is_alone else OPEN)
    if not separation.n_apart:
        sentence = f'On {dimension}, {first} scores highest.'
        return Answer(question, 'Not settled', sentence, OPEN)
    if separation.first != first:
        below = f'{where}, below the floor {separation.first}'
        return Answer(question, first, below, BAD)
    if separation.not_apart:
        tied = few_names(separation.not_apart, 'or')
        return Answer(question, first, f'{where}, not told apart from {tied}', OPEN)
    return Answer(question, first, where, GOOD)


def _lead(
    ranking: Ranking,
    dimension: str,
    systems: list[Standing],
    details: DimensionDetails | None,
    check: DimensionCheck | None,
) -> Answer:
    """
    Return how far the first is ahead of the second; nothing where the judge failed.
    """
    question = 'By how much'
    if check is not None and check.failed:
        return Answer(question, 'Not known', 'Its differences say little.', BAD)
    if len(systems) < 2:
        return Answer(question, 'Not known', 'Fewer than two systems are ranked.', OPEN)
    first, second = (standing.system for standing in systems[:2])
    if ranking.tournament is not None and dimension == ranking.rated_dimension:
        result = ranking.tournament
        own, other = (tournament.rating_text(result, n) for n in (first, second))
        return Answer(question, f'Rating {own}', f'{second}: {other}')
    pair = details.pair(first, second) if details else None
    if pair is None:
        return Answer(question, 'Not known', 'No dialogues to compare.', OPEN)
    digits = digits_for([one.score for one in ranking.standings[dimension]])
    ends = 'no interval'
    if pair.low is not None:
        ends = f'95 % {interval(pair.low, pair.high, digits)}'
    return Answer(
        question,
        f'{signed(pair.difference, digits)} over {second}',
        f'{"" if pair.apart else "which may be chance; "}{ends}; ahead in '
        f'{percent(pair.win_rate)} of {pair.n} dialogues',
        GOOD if pair.apart else OPEN,
    )


def _judge(ranking: Ranking) -> Answer:
    """
    Return the scorer and its models.
    """
    card = ranking.judge
    scorer = card.scorer if card else scorer_name(ranking.scorer_signature)
    models = [judge.model_text(model) for model in card.models] if card else []
    return Answer('Who judged', scorer, join_names(models))


def _trust(
    ranking: Ranking,
    dimension: str,
    check: DimensionCheck | None,
    remarks: Sequence[str],
    doubt: AuditDoubt | None,
) -> Answer:
    """
    Return whether the ranking can be believed, as far as that is known.
    """
    outcome = check.outcome if check else None
    text, news = BELIEVE.get(outcome or '', (NOT_CHECKED, OPEN))
    parts = []
    if doubt is not None:
        if outcome != FAIL:
            start = 'No' if doubt.is_refuted else 'With doubt'
            text, news = f'{start}: {doubt.words}', BAD if doubt.is_refuted else OPEN
        else:
            parts.append(doubt.words)
    if agreement := ranking.reference.get(dimension):
        name = ranking.leading_coefficient(dimension)
        value = getattr(agreement, name).value
        reference = 'the planted order' if agreement.kind == 'planted' else 'people'
        parts.append(f'{name.capitalize()} {number(value)} with {reference}')
    parts += remarks
    if n_cautions := len(summary.warnings(ranking)):
        parts.append(f'{n_cautions} caution{"s" if n_cautions > 1 else ""} below')
    return Answer('Believe it?', text, '; '.join(parts), news)
