"""
What annotators said as lines for the terminal and as CSV: the results of an annotation
set, and the ranking of a run's systems by people. No text of a system or a prompt is in
them.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter

from parlai_ext.core.display import DASH, interval, number, percent, wrap_lines
from parlai_ext.people.answer_shares import (
    MEAN,
    OUTCOMES,
    AnnotationResults,
    AnnotatorControls,
    ItemAgreement,
    Share,
)
from parlai_ext.people.given_answers import GivenAnswer
from parlai_ext.people.questionnaire import PAIR, SIDES
from parlai_ext.people.ranking import PeopleRanking, agreement_with_order
from parlai_ext.people.rating_set import RatingKey
from parlai_ext.ranking.agreement import Correlation
from parlai_ext.ranking.annotator_agreement import Alpha, AnnotatorAgreement
from parlai_ext.ranking.standings import Standing, best_first
from parlai_ext.view.table import (
    Cell,
    Column,
    Table,
    interval_cell,
    number_column,
    plain_table,
    shown_table,
)


def share_lines(results: AnnotationResults) -> Iterator[str]:
    """
    Yield the lines of all tables.
    """
    what = 'pairs' if results.kind == PAIR else 'single answers'
    yield (
        f'{results.num_answers} answers of {results.num_annotators} annotators about '
        f'{len(results.items)} {what}'
    )
    yield from _share_table(results).lines()
    yield 'in brackets: 95 % intervals, and counts'
    yield ''
    yield from _agreement_lines(results)
    yield ''
    yield from Table(ANNOTATOR_COLUMNS, results.annotators).lines()
    if results.kind != PAIR:
        yield 'labels by annotator, without controls'
        columns = [ANNOTATOR_COLUMNS[0], *_count_columns(results, shown=True)]
        yield from Table(columns, results.annotators).lines()


def _count(name: str, row: AnnotatorControls | ItemAgreement) -> int:
    return row.counts.get(name, 0)


def _count_columns(results: AnnotationResults, shown: bool = False) -> list[Column]:
    """
    Return a column for each answer, of rows that count them.
    """
    label = '' if results.kind == PAIR else 'label '
    return [
        number_column(
            f'{label}{name}',
            name if shown else None,
            partial(_count, name),
        )
        for name in results.answer_names
    ]


def _share_table(results: AnnotationResults) -> Table:
    """
    Return a row for each system, the best first, with a column for each answer.
    """
    by_system: dict[str, list[Share]] = defaultdict(list)
    for share in results.shares:
        by_system[share.system].append(share)
    names = [share.name for share in next(iter(by_system.values()), [])]
    leading = names.index(OUTCOMES[0] if results.kind == PAIR else MEAN)
    rows = sorted(by_system.values(), key=lambda s: (-s[leading].value, s[0].system))
    answers = [
        number_column(name, name, show=lambda row, k=k: _share_cell(row[k]))
        for k, name in enumerate(names)
    ]
    return Table([Column('system', '', lambda row: row[0].system), *answers], rows)


def _share_cell(share: Share) -> Cell:
    if share.name == MEAN:
        return interval_cell(share)
    ends = DASH
    if share.low is not None and share.high is not None:
        low, high = (min(100, max(0, 100 * end)) for end in (share.low, share.high))
        ends = f'[{low:.0f}, {high:.0f}]'
    return Cell(percent(share.value), (ends, f'({share.count:.0f})'))


def _agreement_lines(results: AnnotationResults) -> Iterator[str]:
    """
    Yield how far annotators agree, and on how many items how many of them do.
    """
    kappa, items = results.kappa, results.items
    ends = f'(95 % interval over prompts {interval(kappa.low, kappa.high)})'
    yield from wrap_lines(f'annotators agree: Fleiss’ kappa {_known(kappa, ends)}')
    alpha = _known(results.alpha, f'({results.alpha.level})')
    yield from wrap_lines(f'Krippendorff’s alpha {alpha}')
    yield 'items whose most frequent answer was given by so many annotators'
    rows: dict[str, tuple[str, ...]] = {n: (n,) for n in results.answer_names}
    if results.kind == PAIR:
        rows = {'one system': SIDES} | {n: (n,) for n in rows if n not in SIDES}
    most = max((one.num_annotators for one in items), default=0)
    votes = []
    for name, leading in rows.items():
        own = [one.votes for one in items if one.leading in leading]
        votes.append((name, *(str(own.count(n)) for n in range(1, most + 1))))
    yield from shown_table(['', *map(str, range(1, most + 1))], votes).lines()
    for words, counted in (
        ('all agree', [i.votes == i.num_annotators > 1 for i in items]),
        ('more than half', [2 * i.votes > i.num_annotators for i in items]),
        ('two answers lead', [i.leading is None for i in items]),
    ):
        yield f'{words}: {sum(counted)} of {len(items)} items'


def _known(one: Alpha | AnnotatorAgreement | Correlation, more: str) -> str:
    """
    Return a number with more about it, or why it is not known.
    """
    if one.value is None:
        return f'is not known ({one.reason})'
    return f'{number(one.value)} {more}'


def _controls_text(one: AnnotatorControls) -> str:
    if not one.decided:
        return 'none answered'
    share = percent(one.failed / one.decided)
    ends = f'{100 * (one.low or 0):.0f} to {100 * (one.high or 0):.0f} %'
    words = f'{one.failed} of {one.decided}, {share}, interval {ends}'
    return f'{words}, as by guessing ({percent(one.chance)})' if one.fails else words


ANNOTATOR_COLUMNS = (
    Column('annotator', 'annotator'),
    number_column('answers', 'answers', attrgetter('num_answers')),
    Column('controls', 'controls failed', _controls_text, in_files=False),
    *map(Column, ('failed', 'decided', 'low', 'high')),
    Column('fails', of=lambda row: 'yes' if row.fails else 'no'),
)


# --------------------------------------------------------------------------------- CSV


def result_tables(
    results: AnnotationResults, answers: Sequence[GivenAnswer], key: RatingKey
) -> dict[str, str]:
    """
    Return the tables as CSV by the names of their files.
    """
    counts = _count_columns(results)

    def system(k: int, row: ItemAgreement | GivenAnswer) -> str:
        return key.items[row.item][k].system

    sides = ('system_a', 'system_b') if results.kind == PAIR else ('system',)
    tables = {
        'systems.csv': Table(
            [
                Column('system'),
                Column('what', of=lambda row: _cell(row.name)),
                Column('count'),
                Column('answers', of=attrgetter('total')),
                *map(Column, ('value', 'low', 'high')),
            ],
            results.shares,
        ),
        'items.csv': Table(
            [
                Column('item'),
                Column('prompt_id', of=lambda row: key.items[row.item][0].opener_id),
                *(Column(side, of=partial(system, k)) for k, side in enumerate(sides)),
                *counts,
                Column('leading', of=lambda row: _cell(row.leading or '')),
                Column('votes'),
            ],
            results.items,
        ),
        'annotators.csv': Table([*ANNOTATOR_COLUMNS, *counts], results.annotators),
        'answers.csv': Table(
            [
                *map(Column, ('annotator', 'item')),
                Column('answer', of=lambda a: _cell(key.questions[0].name(a.answer))),
                Column('flags', of=lambda row: ' '.join(row.flags or ())),
                Column(
                    'systems',
                    of=lambda row: ' '.join(d.system for d in key.items[row.item]),
                ),
            ],
            answers,
        ),
    }
    if results.head_to_head:
        pairs = [
            (*names, *(counts.get(name, 0) for name in OUTCOMES))
            for names, counts in sorted(results.head_to_head.items())
        ]
        columns = ('system', 'opponent', *OUTCOMES)
        tables['head_to_head.csv'] = plain_table(columns, pairs)
    return {name: table.csv() for name, table in tables.items()}


def _cell(name: str) -> str | float | None:
    """
    Return a label such as -1 as a number, which no spreadsheet takes for a formula.
    """
    try:
        return float(name)
    except ValueError:
        return name


# ------------------------------------------------------------------ a ranking by people

RANKING_COLUMNS = (
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
    yield from Table(RANKING_COLUMNS, best_first(ranking.standings)).lines('  ')
    alpha = ranking.alpha
    more = f'({alpha.level}, {alpha.num_units} units of two or more annotators)'
    lines = [f'annotators agree: Krippendorff’s alpha {_known(alpha, more)}']
    for what, halves in (
        ('systems', ranking.halves_systems),
        ('dialogues', ranking.halves_dialogues),
    ):
        more = (
            f'on average over divisions, 95 % of them within {number(halves.low)} to '
            f'{number(halves.high)}, {halves.num_units} points'
        )
        words = f'Spearman {_known(halves, more)}'
        lines.append(f'random halves of the annotators, {what}: {words}')
    if planted:
        one = agreement_with_order(ranking, planted)
        words = _known(one, f'over {one.n} systems')
        lines.append(f'agreement with the planted order: Spearman {words}')
    for line in lines:
        yield from wrap_lines(line, '  ')
