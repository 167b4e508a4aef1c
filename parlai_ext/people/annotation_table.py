"""
The results of an annotation set as lines for the terminal and as CSV; no text of a
system or a prompt is in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from operator import attrgetter, itemgetter

from parlai_ext.core.display import DASH, interval, number, percent, wrap_lines
from parlai_ext.people.annotation_results import (
    MEAN,
    OUTCOMES,
    AnnotationResults,
    AnnotatorControls,
    Share,
    answer_name,
)
from parlai_ext.people.annotation_set import AnnotationKey
from parlai_ext.people.annotation_sheets import GivenAnswer
from parlai_ext.people.draw_items import SIDES
from parlai_ext.people.questionnaire import PAIR
from parlai_ext.view.table import (
    Cell,
    Column,
    Table,
    interval_cell,
    number_column,
    plain_table,
)


def result_lines(results: AnnotationResults) -> Iterator[str]:
    """
    Yield the lines of all tables.
    """
    what = 'pairs' if results.kind == PAIR else 'single answers'
    yield (
        f'{results.num_answers} answers of {results.num_annotators} annotators about '
        f'{len(results.items)} {what}'
    )
    yield from share_table(results).lines()
    yield 'in brackets: 95 % intervals, and counts'
    yield ''
    yield from _agreement_lines(results)
    yield ''
    yield from Table(ANNOTATOR_COLUMNS, results.annotators).lines()


def share_table(results: AnnotationResults) -> Table:
    """
    Return a row for each system, with a column for each answer.
    """
    names = list(dict.fromkeys(share.name for share in results.shares))
    answers = [
        number_column(name, name, show=lambda row, k=k: _share_cell(row[k]))
        for k, name in enumerate(names)
    ]
    system = Column('system', '', lambda row: row[0].system)
    return Table([system, *answers], _by_system(results))


def _share_cell(share: Share) -> Cell:
    if share.name == MEAN:
        return interval_cell(share)
    ends = DASH
    if share.low is not None and share.high is not None:
        low, high = (min(100, max(0, 100 * end)) for end in (share.low, share.high))
        ends = f'[{low:.0f}, {high:.0f}]'
    return Cell(percent(share.value), (ends, f'({share.count:.0f})'))


def _by_system(results: AnnotationResults) -> list[list[Share]]:
    """
    Return the shares of each system, the best systems first.
    """
    by_system: dict[str, list[Share]] = {}
    for share in results.shares:
        by_system.setdefault(share.system, []).append(share)
    leading = OUTCOMES[0] if results.kind == PAIR else MEAN

    def goodness(shares: list[Share]) -> float:
        return next(share.value for share in shares if share.name == leading)

    return sorted(by_system.values(), key=lambda s: (-goodness(s), s[0].system))


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
    votes = [
        (name, [one.votes for one in results.items if one.leading in leading])
        for name, leading in rows.items()
    ]
    counts = [
        number_column(str(n), str(n), partial(_votes_of, n))
        for n in range(1, num_annotators + 1)
    ]
    yield from Table([Column('answer', '', itemgetter(0)), *counts], votes).lines()
    size = len(results.items)
    for words, count in (
        ('all agree', sum(i.votes == i.num_annotators > 1 for i in results.items)),
        ('more than half', sum(2 * i.votes > i.num_annotators for i in results.items)),
        ('two answers lead', sum(i.leading is None for i in results.items)),
    ):
        yield f'{words}: {count} of {size} items'


def _votes_of(number: int, row: tuple[str, list[int]]) -> int:
    return row[1].count(number)


ANNOTATOR_COLUMNS = (
    Column('annotator', 'annotator'),
    number_column('answers', 'answers', attrgetter('num_answers')),
    Column('controls', 'controls failed', lambda one: _controls_text(one)),
)


def _controls_text(one: AnnotatorControls) -> str:
    if not one.decided:
        return 'none answered'
    share = percent(one.failed / one.decided)
    ends = f'{100 * (one.low or 0):.0f} to {100 * (one.high or 0):.0f} %'
    words = f'{one.failed} of {one.decided}, {share}, interval {ends}'
    return f'{words}, as by guessing ({percent(one.chance)})' if one.fails else words


# --------------------------------------------------------------------------------- CSV


def result_tables(
    results: AnnotationResults, answers: Sequence[GivenAnswer], key: AnnotationKey
) -> dict[str, str]:
    """
    Return the tables as CSV by the names of their files.
    """
    tables = {
        'systems.csv': plain_table(
            ('system', 'what', 'count', 'answers', 'value', 'low', 'high'),
            (
                (one.system, _cell(one.name), one.count, one.total, *_measure(one))
                for one in results.shares
            ),
        ),
        'items.csv': item_table(results, key),
        'annotators.csv': plain_table(
            ('annotator', 'answers', 'failed', 'decided', 'low', 'high', 'fails'),
            (
                (
                    *(one.annotator, one.num_answers, one.failed, one.decided),
                    *(one.low, one.high, 'yes' if one.fails else 'no'),
                )
                for one in results.annotators
            ),
        ),
        'answers.csv': answer_table(answers, key),
    }
    if results.head_to_head:
        tables['head_to_head.csv'] = plain_table(
            ('system', 'opponent', *OUTCOMES),
            (
                (system, opponent, *(counts.get(name, 0) for name in OUTCOMES))
                for (system, opponent), counts in sorted(results.head_to_head.items())
            ),
        )
    return {name: table.csv() for name, table in tables.items()}


def _measure(share: Share) -> tuple[float | None, ...]:
    return share.value, share.low, share.high


def _cell(name: str) -> str | float | None:
    """
    Return a label such as -1 as a number, which no spreadsheet takes for a formula.
    """
    try:
        return float(name)
    except ValueError:
        return name


def item_table(results: AnnotationResults, key: AnnotationKey) -> Table:
    """
    Return how often each answer was given about each item.
    """
    is_pair = results.kind == PAIR
    sides = ('system_a', 'system_b') if is_pair else ('system',)
    names = [name if is_pair else f'label {name}' for name in results.answer_names]
    rows = []
    for one in results.items:
        shown = key.rating.items[one.item]
        counts = [one.counts.get(name, 0) for name in results.answer_names]
        systems = [dialogue.system for dialogue in shown]
        leading = _cell(one.leading or '')
        rows.append(
            (one.item, shown[0].opener_id, *systems, *counts, leading, one.votes)
        )
    return plain_table(('item', 'prompt_id', *sides, *names, 'leading', 'votes'), rows)


def answer_table(answers: Sequence[GivenAnswer], key: AnnotationKey) -> Table:
    """
    Return every answer that was given.
    """
    rows = []
    for one in answers:
        systems = ' '.join(d.system for d in key.rating.items[one.item])
        name = _cell(answer_name(key.rating, one.answer))
        rows.append((one.annotator, one.item, name, ' '.join(one.flags), systems))
    return plain_table(('annotator', 'item', 'answer', 'flags', 'systems'), rows)
