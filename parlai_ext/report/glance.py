"""
The four answers at the top of the page: who leads, by how much, who judged, and whether
to believe it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from parlai_ext.core.signature import scorer_name
from parlai_ext.judge_check import section as judge
from parlai_ext.judge_check.record import FAIL, PASS, WEAK
from parlai_ext.ranking.standings import Standing, best_first
from parlai_ext.report import summary
from parlai_ext.report.details import signed
from parlai_ext.report.view import RankingView
from parlai_ext.results.ranking import Ranking
from parlai_ext.tournament.section import rating_text
from parlai_ext.view.text import (
    digits_for,
    few_names,
    interval,
    join_names,
    number,
    percent,
)

# what kind of news an answer is
GOOD, OPEN, BAD, PLAIN = 'good', 'open', 'bad', ''
BELIEVE = {
    PASS: ('The judge passed its check', GOOD),
    WEAK: ('With doubt: the judge is weak', OPEN),
    FAIL: ('No: the judge fails its check', BAD),
    judge.UNCHECKED: ('Not known: the judge was not checked', OPEN),
}


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


def answers(
    view: RankingView, dimension: str, remarks: Sequence[str] = ()
) -> tuple[Answer, ...]:
    """
    Return the four answers about a dimension. Where something speaks against the
    ranking, nothing is good news.

    :param remarks: what else is known of whether to believe it, as half sentences.
    """
    ranking = view.ranking
    ranked = [s for s in best_first(ranking.standings[dimension]) if s.rank is not None]
    systems = [one for one in ranked if not one.is_floor] or ranked
    leader = Answer('Who leads', *_leader(ranking, dimension, systems))
    lead = Answer('By how much', *_lead(view, dimension, systems))
    if dimension in view.doubts:
        leader, lead = (
            replace(one, news=OPEN if one.news == GOOD else one.news)
            for one in (leader, lead)
        )
    card = ranking.judge
    scorer = card.scorer if card else scorer_name(ranking.scorer_signature)
    models = [judge.model_text(model) for model in card.models] if card else []
    judged = Answer('Who judged', scorer, join_names(models))
    return leader, lead, judged, _trust(view, dimension, remarks)


def _leader(
    ranking: Ranking, dimension: str, systems: list[Standing]
) -> tuple[str, str, str]:
    """
    Return who leads; nobody where the judge failed or nothing can be told apart.
    """
    if judge.outcome_on(ranking, dimension) == FAIL:
        return 'Nobody', f'On {dimension} the judge fails its check.', BAD
    if not systems:
        return 'Nobody', f'On {dimension} no system could be ranked.', BAD
    few = summary.few_partners(ranking, dimension)
    where = f'on {dimension}{summary.scope_text(few)}'
    first = systems[0].system
    separation = summary.separation_on(ranking, dimension)
    if dimension == ranking.rated_dimension or separation is None:
        if systems[0].rank_high == 1:
            return first, where, GOOD
        return first, f'{where}; others may be as good', OPEN
    if not separation.n_apart:
        return 'Not settled', f'On {dimension}, {first} scores highest.', OPEN
    if separation.first != first:
        return first, f'{where}, below the floor {separation.first}', BAD
    if separation.not_apart:
        tied = few_names(separation.not_apart, 'or')
        return first, f'{where}, not told apart from {tied}', OPEN
    return first, where, GOOD


def _lead(
    view: RankingView, dimension: str, systems: list[Standing]
) -> tuple[str, str, str]:
    """
    Return how far the first is ahead of the second; nothing where the judge failed.
    """
    ranking, details = view.ranking, view.details.get(dimension)
    if judge.outcome_on(ranking, dimension) == FAIL:
        return 'Not known', 'Its differences say little.', BAD
    if len(systems) < 2:
        return 'Not known', 'Fewer than two systems are ranked.', OPEN
    first, second = (standing.system for standing in systems[:2])
    if ranking.tournament is not None and dimension == ranking.rated_dimension:
        own, other = (rating_text(ranking.tournament, n) for n in (first, second))
        return f'Rating {own}', f'{second}: {other}', PLAIN
    pair = details.by_names.get((first, second)) if details else None
    if pair is None:
        return 'Not known', 'No dialogues to compare.', OPEN
    digits = digits_for([one.score for one in ranking.standings[dimension]])
    ends = 'no interval'
    if pair.low is not None:
        ends = f'95 % {interval(pair.low, pair.high, digits)}'
    return (
        f'{signed(pair.difference, digits)} over {second}',
        f'{"" if pair.apart else "which may be chance; "}{ends}; ahead in '
        f'{percent(pair.win_rate)} of {pair.n} dialogues',
        GOOD if pair.apart else OPEN,
    )


def _trust(view: RankingView, dimension: str, remarks: Sequence[str]) -> Answer:
    """
    Return whether the ranking can be believed, as far as that is known.
    """
    ranking, doubt = view.ranking, view.doubts.get(dimension)
    outcome = judge.outcome_on(ranking, dimension)
    text, news = BELIEVE[outcome]
    parts = []
    if doubt is not None and outcome == FAIL:
        parts.append(doubt.words)
    elif doubt is not None:
        start, news = ('No', BAD) if doubt.is_refuted else ('With doubt', OPEN)
        text = f'{start}: {doubt.words}'
    if agreement := ranking.reference.get(dimension):
        name = ranking.leading_coefficient(dimension)
        value = getattr(agreement, name).value
        reference = 'the planted order' if agreement.kind == 'planted' else 'people'
        parts.append(f'{name.capitalize()} {number(value)} with {reference}')
    parts += remarks
    if n_cautions := len(summary.warnings(ranking)):
        parts.append(f'{n_cautions} caution{"s" if n_cautions > 1 else ""} below')
    return Answer('Believe it?', text, '; '.join(parts), news)
