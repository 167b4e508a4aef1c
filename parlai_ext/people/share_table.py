"""
The results of an annotation set as lines for the terminal and as CSV; no text of a
system or a prompt is in them.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from operator import attrgetter, itemgetter

from parlai_ext.core.display import DASH, interval, number, percent, wrap_lines
from parlai_ext.people.answer_shares import (
    MEAN,
    OUTCOMES,
    AnnotationResults,
    AnnotatorControls,
    Share,
)
from parlai_ext.people.given_answers import GivenAnswer
from parlai_ext.people.questionnaire import PAIR, SIDES
from parlai_ext.people.rating_set import RatingKey
from parlai_ext.view.table import (
    Cell,
    Column,
    Table,
    interval_cell,
    number_column,
    plain_table,
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
        counts = [
            number_column(name, name, partial(_count, name))
            for name in results.answer_names
        ]
        yield 'labels by annotator, without controls'
        yield from Table([ANNOTATOR_COLUMNS[0], *counts], results.annotators).lines()


def _count(name: str, row: AnnotatorControls) -> int:
    return row.counts[name]


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
    kappa, alpha = results.kappa, results.alpha
    words = f'is not known ({kappa.reason})'
    if kappa.value is not None:
        ends = interval(kappa.low, kappa.high)
        words = f'{number(kappa.value)} (95 % interval over prompts {ends})'
    yield from wrap_lines(f'annotators agree: Fleiss’ kappa {words}')
    words = f'is not known ({alpha.reason})'
    if alpha.value is not None:
        words = f'{number(alpha.value)} ({alpha.level})'
    yield from wrap_lines(f'Krippendorff’s alpha {words}')
    num_annotators = max((one.num_annotators for one in results.items), default=0)
    yield 'items whose most frequent answer was given by so many annotators'
    rows: dict[str, tuple[str, ...]] = {name: (name,) for name in results.answer_names}
    if results.kind == PAIR:
        others = [name for name in results.answer_names if name not in SIDES]
        rows = {'one system': SIDES, **{name: (name,) for name in others}}
    numbers, votes = range(1, num_annotators + 1), []
    for name, leading in rows.items():
        own = [one.votes for one in results.items if one.leading in leading]
        votes.append((name, *(own.count(n) for n in numbers)))
    counts = [number_column(str(n), str(n), itemgetter(n)) for n in numbers]
    yield from Table([Column('answer', '', itemgetter(0)), *counts], votes).lines()
    size = len(results.items)
    for words, count in (
        ('all agree', sum(i.votes == i.num_annotators > 1 for i in results.items)),
        ('more than half', sum(2 * i.votes > i.num_annotators for i in results.items)),
        ('two answers lead', sum(i.leading is None for i in results.items)),
    ):
        yield f'{words}: {count} of {size} items'


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
    Column('controls', 'controls failed', _controls_text),
)


# --------------------------------------------------------------------------------- CSV

SYSTEM_COLUMNS = ('system', 'what', 'count', 'answers', 'value', 'low', 'high')
CONTROL_COLUMNS = ('annotator', 'answers', 'failed', 'decided', 'low', 'high', 'fails')
ANSWER_COLUMNS = ('annotator', 'item', 'answer', 'flags', 'systems')


def result_tables(
    results: AnnotationResults, answers: Sequence[GivenAnswer], key: RatingKey
) -> dict[str, str]:
    """
    Return the tables as CSV by the names of their files.
    """
    systems = [
        (*(s.system, _cell(s.name), s.count, s.total), *(s.value, s.low, s.high))
        for s in results.shares
    ]
    annotators = [
        (
            *(one.annotator, one.num_answers, one.failed, one.decided),
            *(one.low, one.high, 'yes' if one.fails else 'no'),
            *(one.counts[name] for name in results.answer_names),
        )
        for one in results.annotators
    ]
    given = []
    for one in answers:
        names = ' '.join(shown.system for shown in key.items[one.item])
        answer, flags = (
            _cell(key.questions[0].name(one.answer)),
            ' '.join(one.flags or ()),
        )
        given.append((one.annotator, one.item, answer, flags, names))
    tables: dict[str, tuple[Sequence[str], Sequence[Sequence[object]]]] = {
        'systems.csv': (SYSTEM_COLUMNS, systems),
        'items.csv': _item_table(results, key),
        'annotators.csv': ((*CONTROL_COLUMNS, *_count_columns(results)), annotators),
        'answers.csv': (ANSWER_COLUMNS, given),
    }
    if results.head_to_head:
        pairs = [
            (system, opponent, *(counts.get(name, 0) for name in OUTCOMES))
            for (system, opponent), counts in sorted(results.head_to_head.items())
        ]
        tables['head_to_head.csv'] = ('system', 'opponent', *OUTCOMES), pairs
    return {name: plain_table(*table).csv() for name, table in tables.items()}


def _item_table(
    results: AnnotationResults, key: RatingKey
) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
    """
    Return the columns and rows of how often each answer was given about each item.
    """
    is_pair = results.kind == PAIR
    sides = ('system_a', 'system_b') if is_pair else ('system',)
    rows = []
    for one in results.items:
        shown = key.items[one.item]
        counts = [one.counts.get(name, 0) for name in results.answer_names]
        systems = [dialogue.system for dialogue in shown]
        leading = _cell(one.leading or '')
        rows.append(
            (one.item, shown[0].opener_id, *systems, *counts, leading, one.votes)
        )
    return (
        'item',
        'prompt_id',
        *sides,
        *_count_columns(results),
        'leading',
        'votes',
    ), rows


def _count_columns(results: AnnotationResults) -> list[str]:
    label = '' if results.kind == PAIR else 'label '
    return [f'{label}{name}' for name in results.answer_names]


def _cell(name: str) -> str | float | None:
    """
    Return a label such as -1 as a number, which no spreadsheet takes for a formula.
    """
    try:
        return float(name)
    except ValueError:
        return name
