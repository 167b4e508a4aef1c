"""
The ranking in plain sentences: who is first, who cannot be told apart, what to doubt.

The sentences are plain text; hidden characters in names are made visible where they are
printed.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import MappingProxyType

from parlai_ext.core import frozen, is_floor
from parlai_ext.judge_check import section as judge
from parlai_ext.judge_check.record import FAIL, WEAK
from parlai_ext.ranking.intervals import FEWEST_FOR_OTHERS, FEWEST_OPENERS
from parlai_ext.ranking.standings import (
    DialoguesNeeded,
    Separation,
    Standing,
    best_first,
)
from parlai_ext.report.view import Doubts
from parlai_ext.results.ranking import Agreement, Ranking
from parlai_ext.tournament import section as tournament
from parlai_ext.view import (
    few_names,
    join_names,
    number,
    rough_count,
    with_interval,
)
from parlai_ext.view.page import terminal_lines

NO_DOUBTS: Doubts = MappingProxyType({})
NUMBERS = ('no', 'one', 'two', 'three', 'four')


def sentences(ranking: Ranking, doubts: Doubts = NO_DOUBTS) -> list[str]:
    """
    Return the findings of a ranking as sentences, most important first: the headline
    says who is first on the main dimension, or that the judge failed its check, or that
    the audit is against it.

    :param doubts: what its audit says against it.
    """
    if not ranking.dimensions:
        return ['No dialogue has a score, so there is no ranking.']
    main, *others = ranking.dimensions
    check, doubt = ranking.leading_check, doubts.get(main)
    if ranking.tournament is not None:
        n_openers = leaders_on(ranking, main).n_openers
        leaders = tournament.tournament_sentence(ranking.tournament, n_openers)
    else:
        leaders = leader_sentence(ranking, main)
    if failure := judge.failure_on(ranking, main):
        lines = [failure, *([doubt.sentence] if doubt else [])]
    elif doubt:
        lines = [doubt.sentence, leaders]
    elif check is None:
        unknown = 'whether it prefers sense is not known'
        lines = [f'{leaders} The judge was not checked: {unknown}.']
    elif check.outcome == WEAK:
        lines = [f'{leaders} The judge is weak: {check.reasons[0]}.']
    else:
        lines = [leaders]
    if others:
        lines += _other_dimensions_sentences(ranking, others)
    if agreement := ranking.reference.get(main):
        lines.append(f'{main}: {agreement_text(agreement)}.')
    return lines


@frozen
class Leaders:
    """
    Who is first on a dimension, and what the data can say of that.

    :param where: the dimension and, where they are few, the partners.
    :param few_partners: how many they are, where they cannot speak for others; else ''.
    :param ranked: the ranked systems, best first.
    :param separation: what can be told apart; `None` with fewer than two systems.
    """

    where: str
    few_partners: str
    ranked: list[Standing]
    separation: Separation | None

    @property
    def systems(self) -> list[Standing]:
        """
        The ranked systems without floors, unless there is nothing else.
        """
        return [one for one in self.ranked if not one.is_floor] or self.ranked

    @property
    def n_openers(self) -> int:
        """
        Over how many distinct openers the systems have scores.
        """
        return max((one.n_openers or 0 for one in self.ranked), default=0)

    @property
    def n_partners(self) -> int:
        """
        With how many partners the systems have scores.
        """
        return max((one.n_partners or 0 for one in self.ranked), default=0)

    @property
    def never_vary(self) -> bool:
        """
        True if the first and another system have the same score over every opener, so
        that neither has an interval.
        """
        constant = [one for one in self.ranked if one.low_fixed is None]
        return len(constant) > 1 and constant[0] is self.ranked[0]


def leaders_on(ranking: Ranking, dimension: str) -> Leaders:
    """
    Return who is first on a dimension of a ranking.
    """
    ordered = best_first(ranking.standings[dimension])
    ranked = [one for one in ordered if one.rank is not None]
    separation = (ranking.separation or {}).get(dimension)
    leaders = Leaders(dimension, '', ranked, separation)
    n_partners = leaders.n_partners
    if ranking.partners != 'fixed' or not 1 < n_partners < FEWEST_FOR_OTHERS:
        return leaders
    few = f'{NUMBERS[n_partners]} partners'
    return replace(leaders, where=f'{dimension}, with these {few}', few_partners=few)


def leader_sentence(ranking: Ranking, dimension: str) -> str:
    """
    Return which system is first on a dimension, if any is, and which cannot be told
    apart from it; and how many dialogues would settle what is open.
    """
    leaders = leaders_on(ranking, dimension)
    ranked, separation = leaders.ranked, leaders.separation
    if not ranked:
        return f'On {dimension} no system could be ranked.'
    if separation is None:
        return f'On {dimension}, {ranked[0].system} is the only ranked system.'
    # of imported dialogues no openers are known
    units = 'dialogues of a pair' if ranking.is_imported else 'openers'
    lines = [f'On {leaders.where}, {_finding(leaders, separation, units)}']
    if few := leaders.few_partners:
        lines.append(f'{few.capitalize()} cannot speak for others.')
    counted = [one for one in separation.needed if one.reason is None]
    lines += [
        needed_sentence(one, units, leaders.n_partners)
        for one in counted or separation.needed[-1:]
    ]
    return ' '.join(lines)


def _finding(leaders: Leaders, separation: Separation, units: str) -> str:
    """
    Return what the data say of the first of these systems.

    :param units: over which they have scores.
    """
    ranked, first, n_openers = leaders.ranked, separation.first, leaders.n_openers
    if n_openers < FEWEST_OPENERS:
        return (
            f'nothing can be told apart: intervals need {FEWEST_OPENERS} or more '
            f'{units} with scores, not {n_openers}.'
        )
    if not separation.n_apart:
        return (
            f'nothing can be told apart: the scores of the {len(ranked)} systems '
            'differ by no more than chance explains.'
        )
    systems = [row.system for row in ranked[1:] if not row.is_floor]
    if systems and set(systems) <= set(separation.not_apart):
        floors = ' but floors' if len(systems) < len(ranked) - 1 else ''
        return (
            f'{first} scores highest of {len(ranked)} systems, but cannot be told '
            f'apart from any other{floors}.'
        )
    start = f'{first} comes first of {len(ranked)} systems'
    if leaders.never_vary:
        unknown = 'what chance does to its lead is not known'
        return f'{start}; as scores do not vary with the opener, {unknown}.'
    if separation.not_apart:
        tied = few_names(separation.not_apart, 'or')
        return f'{start}; this run cannot tell it apart from {tied}.'
    return f'{start}, and its lead over every other is more than chance explains.'


def needed_sentence(needed: DialoguesNeeded, units: str, n_partners: int) -> str:
    """
    Return how many dialogues would tell two systems apart, as far as that is known.

    :param units: what is counted besides partners.
    :param n_partners: those of the run.
    """
    pair = f'{needed.better} from {needed.worse}'
    if needed.n_dialogues is None or needed.n_openers is None:
        return f'What would tell {pair} is not known: {needed.reason}.'
    openers = rough_count(needed.n_openers, needed.is_rough)
    dialogues = rough_count(needed.n_dialogues, needed.is_rough)
    n_needed = needed.n_partners or n_partners
    partners = str(n_needed)
    if n_needed > n_partners:
        partners = rough_count(n_needed, needed.is_rough)
    partners += ' partner' if n_needed == 1 else ' partners'
    if n_needed < n_partners:  # as in all-play-all, where each meets all but itself
        partners += ' that both met'
    return (
        f'To tell {pair} would take {openers} {units} with {partners} ({dialogues} '
        'dialogues of each system), if they go on to differ as they do now.'
    )


def _other_dimensions_sentences(
    ranking: Ranking, dimensions: Sequence[str]
) -> Iterator[str]:
    """
    Yield which system is first on each of the other dimensions, on which of them
    nothing can be told apart, and on which the judge fails its check.
    """
    firsts = defaultdict(list)
    unclear, failed, unranked = [], [], []
    for dimension in dimensions:
        if judge.outcome_on(ranking, dimension) == FAIL:
            failed.append(dimension)
            continue
        leaders = leaders_on(ranking, dimension)
        if leaders.separation is not None and not leaders.separation.n_apart:
            unclear.append(dimension)
        elif leaders.ranked:
            firsts[leaders.ranked[0].system].append(dimension)
        else:
            unranked.append(dimension)
    if firsts:
        parts = [f'{name} on {join_names(where)}' for name, where in firsts.items()]
        start = 'Highest on the other dimensions, alone or tied'
        yield f'{start}: {"; ".join(parts)}.'
    if unclear:
        yield f'Nothing can be told apart on {join_names(unclear)}.'
    if unranked:
        yield f'No system could be ranked on {join_names(unranked)}.'
    if failed:
        yield f'The judge fails its check on {join_names(failed)}.'


def warnings(ranking: Ranking) -> list[str]:
    """
    Return the reasons to doubt the ranking, as sentences.
    """
    # the dimensions on which a floor scores above systems, by the floor and these
    # systems in words: a sign that the scorer rewards the wrong thing
    floors = defaultdict(list)
    # the trivial baselines that agree with the reference as well as the scorer does
    as_good = []
    for dimension in ranking.dimensions:
        scored = [
            (one.system, one.score)
            for one in ranking.standings[dimension]
            if one.rank is not None and one.score is not None
        ]
        for floor, worth in scored:
            below = [n for n, own in scored if own < worth and not is_floor(n)]
            if is_floor(floor) and below:
                floors[floor, join_names(below)].append(dimension)
        name = ranking.leading_coefficient(dimension)
        agreement = ranking.reference.get(dimension)
        own_value = getattr(agreement, name).value if agreement else None
        if own_value is None or own_value <= 0:
            continue  # said where the agreement is
        better = []
        for baseline, by_dimension in ranking.baseline_reference.items():
            other = by_dimension.get(dimension)
            value = getattr(other, name).value if other else None
            # a strong agreement upside down says as much about the data
            if value is not None and abs(value) >= own_value:
                better.append(f'{baseline_words(baseline)} {number(value)}')
        if better:
            against = f'{join_names(better)} against {number(own_value)}'
            as_good.append(f'on {dimension} {against}')
    missing = ranking.missing_scores
    lines = terminal_lines(
        'cautions',
        ranking=ranking,
        floors=floors,
        as_good=as_good,
        unscored=missing.not_ranked if missing else (),
        few_names=few_names,
    )
    return list(filter(None, lines))


def agreement_text(agreement: Agreement) -> str:
    """
    Return how well scores agree with the reference, in words.
    """
    kind = 'the planted order' if agreement.kind == 'planted' else 'people'
    start = f'agreement with {kind}'
    if agreement.spearman.value is None:
        return f'{start} is not known ({agreement.reason or "no reason given"})'
    return (
        f'{start}: Spearman {with_interval(agreement.spearman)}, '
        f'Kendall {with_interval(agreement.kendall)}, {agreement.n} systems'
    )


def baseline_words(name: str) -> str:
    """
    Return a baseline's name as words.
    """
    words = {'distinct_2': 'distinct-2', 'overlap': 'overlap with the partner'}
    return words.get(name, name.replace('_', ' '))
