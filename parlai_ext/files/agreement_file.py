"""
Agreement with people that was measured before, by scorer signature: numbers only.

The files are in ``zoo_configs/agreement/``; `benchmarks/validity` writes the shipped
one. A card of a judge shows the numbers of exactly its signature.
"""

from functools import cache
from pathlib import Path

from parlai_ext import zoo_configs
from parlai_ext.core import frozen
from parlai_ext.files.yaml_file import read_file


@frozen
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
    """
    return {
        scorer['signature']: tuple(MeasuredAgreement(**row) for row in scorer['rows'])
        for scorer in read_file(path).data['scorers']
    }
