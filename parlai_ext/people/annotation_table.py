"""
The results of an annotation set as lines for the terminal and as CSV; no text of a
system or a prompt is in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from parlai_ext.core.display import (
    DASH,
    interval,
    number,
    pad_cell,
    percent,
    wrap_lines,
)
from parlai_ext.files.csv_file import spreadsheet_csv
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

NAME_WIDTH = 20


def result_lines(results: AnnotationResults) -> Iterator[str]:
    """
    Yield the lines of all tables.
    """
    what = 'pairs' if results.kind == PAIR else 'single answers'
    yield (
        f'{results.num_answers} answers of {results.num_annotators} annotators about '
        f'{len(results.items)} {what}'
    )
    yield from _share_lines(results)
    yield ''
    yield from _agreement_lines(results)
    yield ''
    yield from _annotator_lines(results.annotators)


def _share_lines(results: AnnotationResults) -> Iterator[str]:
    """
    Yield a line of counts and one of shares with intervals for each system.
    """
    names = list(dict.fromkeys(share.name for share in results.shares))
    width = 13 if results.kind == PAIR else 16
    yield pad_cell('', NAME_WIDTH) + ''.join(f'{name:>{width}}' for name in names)
    for shares in _by_system(results):
        cells = ''.join(f'{_count(share):>{width}}' for share in shares)
        yield (pad_cell(shares[0].system, NAME_WIDTH) + cells).rstrip()
        cells = ''.join(f'{_value(share):>{width}}' for share in shares)
        yield pad_cell('', NAME_WIDTH) + cells
        cells = ''.join(f'{_interval(share):>{width}}' for share in shares)
        yield pad_cell('  95 % interval', NAME_WIDTH) + cells


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


def _count(share: Share) -> str:
    return '' if share.name == MEAN else f'{share.count:.0f}'


def _value(share: Share) -> str:
    return number(share.value) if share.name == MEAN else percent(share.value)


def _interval(share: Share) -> str:
    if share.low is None or share.high is None:
        return DASH
    if share.name == MEAN:
        return interval(share.low, share.high)
    low, high = (min(100, max(0, 100 * end)) for end in (share.low, share.high))
    return f'{low:.0f} to {high:.0f} %'


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
    numbers = range(1, num_annotators + 1)
    yield 'items whose most frequent answer was given by so many annotators'
    yield pad_cell('', NAME_WIDTH) + ''.join(f'{n:>6}' for n in numbers)
    rows: dict[str, tuple[str, ...]] = {name: (name,) for name in results.answer_names}
    if results.kind == PAIR:
        others = [name for name in results.answer_names if name not in SIDES]
        rows = {'one system': SIDES, **{name: (name,) for name in others}}
    for name, leading in rows.items():
        votes = [one.votes for one in results.items if one.leading in leading]
        cells = ''.join(f'{votes.count(n):>6}' for n in numbers)
        yield pad_cell(name, NAME_WIDTH) + cells
    size = len(results.items)
    for words, count in (
        ('all agree', sum(i.votes == i.num_annotators > 1 for i in results.items)),
        ('more than half', sum(2 * i.votes > i.num_annotators for i in results.items)),
        ('two answers lead', sum(i.leading is None for i in results.items)),
    ):
        yield f'{pad_cell(words, NAME_WIDTH)}{count:>6} of {size} items'


def _annotator_lines(annotators: Sequence[AnnotatorControls]) -> Iterator[str]:
    """
    Yield what each annotator made of the control items.
    """
    yield f'{pad_cell("annotator", NAME_WIDTH)}{"answers":>8}  controls failed'
    for one in annotators:
        words = 'none answered'
        if one.decided:
            share = percent(one.failed / one.decided)
            ends = f'{100 * (one.low or 0):.0f} to {100 * (one.high or 0):.0f} %'
            words = f'{one.failed} of {one.decided}, {share}, interval {ends}'
        if one.fails:
            words += f', as by guessing ({percent(one.chance)})'
        yield f'{pad_cell(one.annotator, NAME_WIDTH)}{one.num_answers:>8}  {words}'


# --------------------------------------------------------------------------------- CSV


def result_tables(
    results: AnnotationResults, answers: Sequence[GivenAnswer], key: AnnotationKey
) -> dict[str, str]:
    """
    Return the tables as CSV by the names of their files.
    """
    tables = {
        'systems.csv': _system_rows(results),
        'items.csv': _item_rows(results, key),
        'annotators.csv': _annotator_rows(results.annotators),
        'answers.csv': _answer_rows(answers, key),
    }
    if results.head_to_head:
        tables['head_to_head.csv'] = _head_to_head_rows(results)
    return {name: spreadsheet_csv(rows) for name, rows in tables.items()}


def _figure(value: float | None) -> float | None:
    """
    Return a number with six figures.
    """
    if value is None or value == int(value):
        return value if value is None else int(value)
    return float(f'{value:.6g}')


def _cell(name: str) -> str | float | None:
    """
    Return a label such as -1 as a number, which no spreadsheet takes for a formula.
    """
    try:
        return _figure(float(name))
    except ValueError:
        return name


def _system_rows(results: AnnotationResults) -> Iterator[list[object]]:
    yield ['system', 'what', 'count', 'answers', 'value', 'low', 'high']
    for share in results.shares:
        numbers = map(_figure, (share.count, share.total, share.value))
        ends = map(_figure, (share.low, share.high))
        yield [share.system, _cell(share.name), *numbers, *ends]


def _item_rows(
    results: AnnotationResults, key: AnnotationKey
) -> Iterator[list[object]]:
    sides = ['system_a', 'system_b'] if results.kind == PAIR else ['system']
    names = [f'label {name}' for name in results.answer_names]
    if results.kind == PAIR:
        names = list(results.answer_names)
    yield ['item', 'prompt_id', *sides, *names, 'leading', 'votes']
    for one in results.items:
        shown = key.rating.items[one.item]
        counts = [one.counts.get(name, 0) for name in results.answer_names]
        systems = [dialogue.system for dialogue in shown]
        yield [
            *(one.item, shown[0].opener_id, *systems, *counts),
            *(_cell(one.leading or ''), one.votes),
        ]


def _annotator_rows(
    annotators: Sequence[AnnotatorControls],
) -> Iterator[list[object]]:
    yield ['annotator', 'answers', 'failed', 'decided', 'low', 'high', 'fails']
    for one in annotators:
        ends = map(_figure, (one.low, one.high))
        fails = 'yes' if one.fails else 'no'
        yield [one.annotator, one.num_answers, one.failed, one.decided, *ends, fails]


def _answer_rows(
    answers: Sequence[GivenAnswer], key: AnnotationKey
) -> Iterator[list[object]]:
    yield ['annotator', 'item', 'answer', 'flags', 'systems']
    for one in answers:
        systems = ' '.join(d.system for d in key.rating.items[one.item])
        name = _cell(answer_name(key.rating, one.answer))
        yield [one.annotator, one.item, name, ' '.join(one.flags), systems]


def _head_to_head_rows(results: AnnotationResults) -> Iterator[list[object]]:
    yield ['system', 'opponent', *OUTCOMES]
    for (system, opponent), counts in sorted(results.head_to_head.items()):
        yield [system, opponent, *(counts.get(name, 0) for name in OUTCOMES)]
