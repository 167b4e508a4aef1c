"""
The ranking in plain sentences: who is first, who cannot be told apart, what to doubt.

The sentences are plain text; hidden characters in names are made visible where they are
printed.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from types import MappingProxyType

from parlai_ext.core import grouped, is_floor
from parlai_ext.judge_check import section as judge
from parlai_ext.judge_check.record import FAIL
from parlai_ext.ranking.intervals import FEWEST_FOR_OTHERS, FEWEST_OPENERS, Estimate
from parlai_ext.ranking.standings import (
    DialoguesNeeded,
    Separation,
    Standing,
    best_first,
)
from parlai_ext.report.view import Doubts
from parlai_ext.results.ranking import Agreement, Ranking
from parlai_ext.tournament import section as tournament
from parlai_ext.view import few_names, join_names, number, percent, rough_count

NO_DOUBTS: Doubts = MappingProxyType({})
NUMBERS = ('no', 'one', 'two', 'three', 'four')


def sentences(ranking: Ranking, doubts: Doubts = NO_DOUBTS) -> list[str]:
    """
    Return the findings of a ranking as sentences, most important first.

    :param doubts: what its audit says against it.
    """
    if not ranking.dimensions:
        return ['No dialogue has a score, so there is no ranking.']
    main, *others = ranking.dimensions
    lines = [headline(ranking, doubts)]
    if doubt := doubts.get(main):
        check = ranking.leading_check
        failed = check is not None and check.failed
        lines.append(doubt.sentence if failed else _leaders(ranking))
    if others:
        lines += _other_dimensions_sentences(ranking, others)
    if agreement := ranking.reference.get(main):
        lines.append(f'{main}: {agreement_text(agreement)}.')
    return lines


def headline(ranking: Ranking, doubts: Doubts = NO_DOUBTS) -> str:
    """
    Return the most important finding: what the main dimension says of the first, or
    that the judge failed its check, or that the audit is against it.
    """
    main = ranking.dimensions[0]
    if failure := judge.failure_on(ranking, main):
        return failure
    if doubt := doubts.get(main):
        return doubt.sentence
    sentence = judge.doubt_sentence(ranking.leading_check)
    return f'{_leaders(ranking)} {sentence}' if sentence else _leaders(ranking)


def _leaders(ranking: Ranking) -> str:
    """
    Return which system is first on the main dimension, if any is.
    """
    main = ranking.dimensions[0]
    standings = ranking.standings[main]
    if ranking.tournament is not None:
        return tournament.tournament_sentence(
            ranking.tournament, _most_openers(standings)
        )
    return leader_sentence(
        standings,
        main,
        separation_on(ranking, main),
        ranking.is_imported,
        few_partners(ranking, main),
    )


def few_partners(ranking: Ranking, dimension: str) -> int | None:
    """
    Return how many partners a claim on a dimension is about where they are several, but
    too few to speak for others; else `None`.
    """
    ranked = [one for one in ranking.standings[dimension] if one.rank]
    most = max((one.n_partners or 0 for one in ranked), default=0)
    is_few = ranking.partners == 'fixed' and 1 < most < FEWEST_FOR_OTHERS
    return most if is_few else None


def scope_text(few: int | None) -> str:
    """
    Return which partners a claim is about, as a part of a sentence, where they are few.
    """
    return '' if few is None else f', with these {NUMBERS[few]} partners'


def few_partners_sentence(few: int | None) -> str:
    """
    Return that few partners cannot speak for others; '' where there are enough.
    """
    if few is None:
        return ''
    return f'{NUMBERS[few].capitalize()} partners cannot speak for others.'


def separation_on(ranking: Ranking, dimension: str) -> Separation | None:
    """
    Return what can be told apart on a dimension; `None` with fewer than two systems.
    """
    return (ranking.separation or {}).get(dimension)


def ranked_standings(standings: Sequence[Standing]) -> list[Standing]:
    """
    Return the ranked standings, best first.
    """
    return [one for one in best_first(standings) if one.rank is not None]


def _most_openers(standings: Sequence[Standing]) -> int:
    return max((one.n_openers or 0 for one in standings), default=0)


def leader_sentence(
    standings: Sequence[Standing],
    dimension: str,
    separation: Separation | None,
    is_imported: bool = False,
    few: int | None = None,
) -> str:
    """
    Return which system is first on a dimension, if any is, and which cannot be told
    apart from it; and how many dialogues would settle what is open.

    :param is_imported: no openers are known: a pair's dialogues are counted instead.
    :param few: how many partners this is about, where they cannot speak for others.
    """
    ranked = ranked_standings(standings)
    if not ranked:
        return f'On {dimension} no system could be ranked.'
    if separation is None:
        return f'On {dimension}, {ranked[0].system} is the only ranked system.'
    n_openers = _most_openers(ranked)
    unit = 'dialogue of a pair' if is_imported else 'opener'
    where = f'On {dimension}{scope_text(few)}'
    lines = [_finding(ranked, where, separation, n_openers, unit)]
    if sentence := few_partners_sentence(few):
        lines.append(sentence)
    counted = [one for one in separation.needed if one.reason is None]
    now = max((one.n_partners or 0 for one in ranked), default=0)
    lines += [
        needed_sentence(one, unit, now) for one in counted or separation.needed[-1:]
    ]
    return ' '.join(lines)


def _finding(
    ranked: Sequence[Standing],
    where: str,
    separation: Separation,
    n_openers: int,
    unit: str,
) -> str:
    """
    Return what the data say of the first of these systems.

    :param where: the dimension and, where they are few, the partners.
    """
    top, n_ranked = separation.first, len(ranked)
    if n_openers < FEWEST_OPENERS:
        units = f'{unit} has' if n_openers == 1 else f'{_plural(unit)} have'
        return (
            f'{where}, nothing can be told apart: {n_openers} {units} scores, and '
            f'intervals need {FEWEST_OPENERS} or more.'
        )
    if not separation.n_apart:
        return (
            f'{where}, nothing can be told apart: the scores of the {n_ranked} '
            'systems differ by no more than chance explains.'
        )
    systems = [row.system for row in ranked[1:] if not row.is_floor]
    if systems and set(systems) <= set(separation.not_apart):
        floors = ' but floors' if len(systems) < n_ranked - 1 else ''
        return (
            f'{where}, {top} scores highest of {n_ranked} systems, but cannot '
            f'be told apart from any other{floors}.'
        )
    start = f'{where}, {top} comes first of {n_ranked} systems'
    if separation.not_apart:
        tied = few_names(separation.not_apart, 'or')
        return f'{start}; this run cannot tell it apart from {tied}.'
    return f'{start}, and its lead over every other is more than chance explains.'


def _plural(unit: str) -> str:
    """
    Return the plural of a noun, which may have words after it.

    >>> _plural('dialogue of a pair')
    'dialogues of a pair'
    """
    noun, space, rest = unit.partition(' ')
    return f'{noun}s{space}{rest}'


def needed_sentence(needed: DialoguesNeeded, unit: str, n_partners: int) -> str:
    """
    Return how many dialogues would tell two systems apart, as far as that is known.

    :param n_partners: those of the run.
    """
    pair = f'{needed.better} from {needed.worse}'
    if needed.n_dialogues is None or needed.n_openers is None:
        return f'What would tell {pair} is not known: {needed.reason}.'
    openers = rough_count(needed.n_openers, needed.is_rough)
    dialogues = rough_count(needed.n_dialogues, needed.is_rough)
    partners = str(needed.n_partners)
    if needed.n_partners is not None and needed.n_partners > n_partners:
        partners = rough_count(needed.n_partners, needed.is_rough)
    return (
        f'To tell {pair} would take {openers} {_plural(unit)} with {partners} '
        f'partner{"s" if needed.n_partners != 1 else ""} ({dialogues} dialogues of '
        'each system), if they go on to differ as they do now.'
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
        separation = separation_on(ranking, dimension)
        if separation is not None and not separation.n_apart:
            unclear.append(dimension)
            continue
        if ranked := ranked_standings(ranking.standings[dimension]):
            firsts[ranked[0].system].append(dimension)
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


def warnings(ranking: Ranking) -> Iterator[str]:
    """
    Yield the reasons to doubt the ranking, as sentences.
    """
    if ranking.outdated:
        yield (
            'This ranking is older than dialogues of '
            f'{few_names(ranking.outdated, "and")}: rank the run again.'
        )
    dimensions_by_pair = grouped(
        (pair, dimension)
        for dimension in ranking.dimensions
        for pair in _floors_above(ranking.standings[dimension])
    )
    for (floor, systems), where in dimensions_by_pair.items():
        yield f'On {join_names(where)} the floor {floor} scores above {systems}.'
    as_good = [
        _baselines_as_good(ranking, dimension) for dimension in ranking.dimensions
    ]
    if any(as_good):
        yield (
            'Something trivial agrees with the reference as well as the scorer does: '
            f'{"; ".join(filter(None, as_good))}.'
        )
    yield from judge.cautions(ranking)
    missing = ranking.missing_scores
    not_scored = missing.not_ranked if missing else ()
    yield from (f'{name} is not ranked: scores are missing.' for name in not_scored)
    for name, failures in ranking.failures.items():
        if failures.ranked is False and name not in not_scored:
            share = percent(failures.share)
            yield f'{name} is not ranked: {share} of its dialogues failed.'
    for name, cut in sorted((ranking.truncated or {}).items()):
        if not cut.comparable:
            yield (
                f'The scores of {name} are not comparable: {percent(cut.share)} of its '
                'utterances were, with their contexts, too long for the judge, which '
                'read them in part.'
            )


def _floors_above(standings: Sequence[Standing]) -> list[tuple[str, str]]:
    """
    Return each floor that scores above systems, and these systems as a list in words:
    a sign that the scorer rewards the wrong thing.
    """
    scored = [
        (standing.system, standing.score)
        for standing in standings
        if standing.rank is not None and standing.score is not None
    ]
    systems = [one for one in scored if not is_floor(one[0])]
    return [
        (floor, join_names(below))
        for floor, worth in scored
        if is_floor(floor) and (below := [name for name, own in systems if own < worth])
    ]


def _baselines_as_good(ranking: Ranking, dimension: str) -> str:
    """
    Return the trivial baselines that agree with the reference as well as the scorer
    does, in words; nothing when none does.
    """
    name = ranking.leading_coefficient(dimension)

    def coefficient(agreement: Agreement | None) -> float | None:
        return getattr(agreement, name).value if agreement else None

    scorers_value = coefficient(ranking.reference.get(dimension))
    if scorers_value is None or scorers_value <= 0:
        return ''  # said where the agreement is
    as_good = []
    for baseline, by_dimension in ranking.baseline_reference.items():
        value = coefficient(by_dimension.get(dimension))
        # a strong agreement upside down says as much about the data
        if value is not None and abs(value) >= scorers_value:
            as_good.append(f'{baseline_words(baseline)} {number(value)}')
    if not as_good:
        return ''
    return f'on {dimension} {join_names(as_good)} against {number(scorers_value)}'


def agreement_text(agreement: Agreement) -> str:
    """
    Return how well scores agree with the reference, in words.
    """
    kind = 'the planted order' if agreement.kind == 'planted' else 'people'
    start = f'agreement with {kind}'
    if agreement.spearman.value is None:
        return f'{start} is not known ({agreement.reason or "no reason given"})'
    return (
        f'{start}: Spearman {coefficient_text(agreement.spearman)}, '
        f'Kendall {coefficient_text(agreement.kendall)}, {agreement.n} systems'
    )


def coefficient_text(coefficient: Estimate) -> str:
    """
    Return a coefficient as text, with its interval if it has one.
    """
    value = number(coefficient.value)
    if coefficient.low is None or coefficient.high is None:
        return value
    return f'{value} [{number(coefficient.low)}, {number(coefficient.high)}]'


def baseline_words(name: str) -> str:
    """
    Return a baseline's name as words.
    """
    words = {'distinct_2': 'distinct-2', 'overlap': 'overlap with the partner'}
    return words.get(name, name.replace('_', ' '))
