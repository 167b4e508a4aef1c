"""
The ranking by people as a table for the terminal.
"""

from collections.abc import Iterator, Mapping

from parlai_ext.core.display import number, wrap_lines
from parlai_ext.people.ranking import PeopleRanking, agreement_with_order
from parlai_ext.ranking.standings import Standing, best_first
from parlai_ext.view.table import Column, Table, number_column

COLUMNS = (
    Column('rank', 'rank', show=Standing.open_ranks),
    number_column('group', 'group'),
    Column('system', 'system'),
    number_column('score', 'score'),
    Column('low', '95 % interval', show=Standing.interval),
)


def people_lines(
    ranking: PeopleRanking, planted: Mapping[str, float] | None = None
) -> Iterator[str]:
    """
    Yield the lines of one dimension: the systems, and how far annotators agree.

    :param planted: the order that was planted in the run, larger is better.
    """
    yield ranking.dimension
    yield from wrap_lines(
        f'{ranking.num_answers} answers of {ranking.num_annotators} annotators to '
        f'{ranking.num_items} items; score: {ranking.method}',
        '  ',
    )
    yield from Table(COLUMNS, best_first(ranking.standings)).lines('  ')
    alpha = ranking.alpha
    words = f'is not known ({alpha.reason})'
    if alpha.value is not None:
        words = (
            f'{number(alpha.value)} ({alpha.level}, {alpha.num_units} units of two or '
            'more annotators)'
        )
    yield from wrap_lines(f'annotators agree: Krippendorff’s alpha {words}', '  ')
    for what, halves in (
        ('systems', ranking.halves_systems),
        ('dialogues', ranking.halves_dialogues),
    ):
        words = f'not known ({halves.reason})'
        if halves.value is not None:
            words = (
                f'Spearman {number(halves.value)} on average over divisions, 95 % of '
                f'them within {number(halves.low)} to {number(halves.high)}, '
                f'{halves.num_units} points'
            )
        yield from wrap_lines(f'random halves of the annotators, {what}: {words}', '  ')
    if planted:
        correlation = agreement_with_order(ranking, planted)
        value = number(correlation.value)
        if correlation.reason:
            value = f'not known ({correlation.reason})'
        yield from wrap_lines(
            f'agreement with the planted order: Spearman {value}, '
            f'{correlation.n} systems',
            '  ',
        )
