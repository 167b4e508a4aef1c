"""
Amounts of time, memory and money, and a pilot's forecast, in words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MINUTE, HOUR, DAY = 60, 3600, 86400
KILO = 1000


def duration(seconds: float) -> str:
    """
    Return a time with about two digits.

    >>> duration(7.42), duration(150), duration(7560), duration(400_000)
    ('7.4 s', '2.5 min', '2.1 h', '4.6 days')
    """
    for unit, name in ((DAY, 'days'), (HOUR, 'h'), (MINUTE, 'min')):
        if seconds >= 1.5 * unit:
            return f'{seconds / unit:.1f} {name}'
    return f'{seconds:.0f} s' if seconds >= 10 else f'{seconds:.2g} s'


def size(n_bytes: float) -> str:
    """
    Return a size with about two digits.

    >>> size(900), size(2_340_000), size(18.9e9)
    ('0.0 MB', '2.3 MB', '18.9 GB')
    """
    if n_bytes >= KILO**3:
        return f'{n_bytes / KILO**3:.1f} GB'
    return f'{n_bytes / KILO**2:.1f} MB'


def money(dollars: float) -> str:
    """
    Return an amount to the cent, smaller ones to two digits.

    >>> money(12.3), money(0.00123), money(0)
    ('$12.30', '$0.0012', '$0.00')
    """
    return f'${dollars:.2g}' if 0 < dollars < 0.01 else f'${dollars:,.2f}'


def in_words(found: Mapping[str, Any]) -> str:
    """
    Return a forecast as lines to print: one for each system, then the totals.
    """
    head = (
        *('system', 'replies', 'batch', 'replies/s', 'load', 'weights'),
        *('tokens', 'money'),
    )
    rows = [head, *(_row(name, one) for name, one in found['systems'].items())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = [
        '  '.join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return '\n'.join([_pilot(found), *table, *totals(found), *_cautions(found)])


def totals(found: Mapping[str, Any]) -> list[str]:
    """
    Return what the whole run takes: time, memory, money, disk.
    """
    collect, score = found['collect_seconds'], found['score_seconds']
    per_hour = found['dialogues_per_hour']
    rate = f', {per_hour:,.0f} dialogues an hour' if per_hour else ''
    lines = [
        f'collect    {duration(collect)} for {found["dialogues"]:,} dialogues{rate}'
    ]
    if score is not None:
        lines += [
            f'score      {duration(score)} for {found["judged"]:,} utterances',
            f'together   {duration(collect + score)}',
        ]
    lines.append(
        f'memory     {size(found["weights_bytes"])} of weights, '
        f'{size(found["two_largest_bytes"])} the two largest; '
        f'at most {size(found["peak_bytes"])}'
        + (
            f' and {size(found["peak_gpu_bytes"])} on the GPU'
            if found['peak_gpu_bytes']
            else ''
        )
    )
    lines.append(f'money      {_money(found)}')
    return [*lines, f'disk       about {size(found["disk_bytes"])}']


def _pilot(found: Mapping[str, Any]) -> str:
    pilot = found['pilot']
    paid = f' and {money(pilot["cost"])}' if pilot['cost'] else ''
    return (
        f'pilot of {found["protocol"]}: {pilot["dialogues"]} dialogues in '
        f'{duration(pilot["seconds"])}{paid}; none of them is kept'
    )


def _money(found: Mapping[str, Any]) -> str:
    if found['prompt_tokens'] is None:
        return 'none of the systems costs any'
    if found['cost'] is None:
        return 'unknown, no prices were given'
    priced = {
        name: one['spent']['cost']
        for name, one in found['systems'].items()
        if one['spent'] and one['spent']['cost']
    }
    parts = ', '.join(f'{name} {money(cost)}' for name, cost in priced.items())
    return money(found['cost']) + (f' ({parts})' if parts else '')


def _row(name: str, one: Mapping[str, Any]) -> tuple[str, ...]:
    spent, pace = one['spent'], one['replies_per_second']
    loads = f' x{one["loads"]}' if one['loads'] > 1 else ''
    tokens = cost = '-'
    if spent is not None:
        read, written = spent['prompt_tokens'] or 0, spent['completion_tokens'] or 0
        tokens = f'{read / KILO:,.0f}k+{written / KILO:,.0f}k'
        cost = 'unknown' if spent['cost'] is None else money(spent['cost'])
    return (
        name,
        f'{one["replies"]:,}',
        str(one['batch']),
        f'{pace:,.3g}' if pace and pace < KILO else f'{pace or 0:,.0f}',
        duration(one['load_seconds']) + loads,
        size(one['weights_bytes']),
        tokens,
        cost,
    )


def _cautions(found: Mapping[str, Any]) -> list[str]:
    lines = [f'not measured: {line}' for line in found['problems']]
    for name, one in found['systems'].items():
        if one['from_cache']:
            of = f'{one["from_cache"]:.0f} of {one["measured_replies"]} replies'
            lines.append(f'{name}: {of} came from its cache; others take longer')
    return lines
