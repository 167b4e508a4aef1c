"""
Agreement with people that was measured before, by scorer signature: numbers only.

The files are in ``zoo_configs/agreement/``; `benchmarks/validity` writes the shipped
one. A card of a judge shows the numbers of exactly its signature.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from parlai_ext import zoo_configs
from parlai_ext.files.yaml_file import Document, read_file

ROW_KEYS = (
    *('set', 'level', 'quality', 'n', 'of', 'spearman', 'low', 'high', 'fitted'),
    'dimension',
)


@dataclass(frozen=True)
class MeasuredAgreement:
    """
    Spearman of a scorer's main score, or of its score in one dimension, with people on
    one judged set.

    :param level: ``turn``, ``dialogue`` or ``system``.
    :param n: points; `of` is how many items the whole set has.
    :param fitted: something in the scorer was fitted on this set.
    :param dimension: `None` for the main score.
    """

    set: str
    level: str
    quality: str
    n: int
    of: int
    spearman: float
    low: float | None = None
    high: float | None = None
    fitted: bool = False
    dimension: str | None = None


def measured_agreement(signature: str) -> tuple[MeasuredAgreement, ...]:
    """
    Return what the shipped files hold on a scorer of exactly this signature.
    """
    return tuple(
        row
        for path in sorted((zoo_configs.HOME / 'agreement').glob('*.yaml'))
        for row in read_agreement(path).get(signature, ())
    )


@cache
def read_agreement(path: Path) -> dict[str, tuple[MeasuredAgreement, ...]]:
    """
    Return the rows of a file by signature.

    :raises UserError: names file, line and key of the first mistake.
    """
    doc = read_file(path)
    data = doc.mapping(doc.data or {}, (), ('description', 'scorers'), 'agreement')
    by_signature: dict[str, tuple[MeasuredAgreement, ...]] = {}
    for k, scorer in enumerate(doc.typed(data.get('scorers', []), ('scorers',), list)):
        where = ('scorers', k)
        one = doc.mapping(scorer, where, ('label', 'signature', 'rows'), 'a scorer')
        rows = doc.typed(one.get('rows', []), (*where, 'rows'), list)
        by_signature[str(one.get('signature'))] = tuple(
            _row(doc, row, (*where, 'rows', n)) for n, row in enumerate(rows)
        )
    return by_signature


def _row(doc: Document, raw: object, where: tuple[str | int, ...]) -> MeasuredAgreement:
    data = doc.mapping(raw, where, ROW_KEYS, 'a row of agreement')
    for key in ('set', 'level', 'quality', 'n', 'of', 'spearman'):
        if key not in data:
            raise doc.error((*where, key), 'is missing')
    return MeasuredAgreement(**data)


def agreement_text(
    description: str,
    scorers: Iterable[tuple[str, str, Iterable[MeasuredAgreement]]],
) -> str:
    """
    Return the text of a file.

    :param scorers: label, signature and rows of each scorer.
    """
    lines = [f'description: {description}', 'scorers:']
    for label, signature, rows in scorers:
        quoted = signature.replace("'", "''")
        lines += [f'  - label: {label!r}', f"    signature: '{quoted}'", '    rows:']
        for row in rows:
            values = {
                key: value
                for key, value in asdict(row).items()
                if value is not None and value is not False  # 0.0 is a value
            }
            cells = ', '.join(f'{key}: {_cell(value)}' for key, value in values.items())
            lines.append(f'      - {{{cells}}}')
    return '\n'.join(lines) + '\n'


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return 'true'
    if isinstance(value, float):
        return f'{value:.3f}'
    return (
        f"'{value}'"
        if isinstance(value, str) and not value.isidentifier()
        else str(value)
    )
