"""
The shipped files of how well scorers agree with people, as the benchmarks write them.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict

import yaml

from parlai_ext.files.agreement_file import MeasuredAgreement


def agreement_text(
    description: str,
    scorers: Iterable[tuple[str, str, Iterable[MeasuredAgreement]]],
) -> str:
    """
    Return the text of a file.

    :param scorers: label, signature and rows of each scorer.
    """
    entries = [
        {
            'label': label,
            'signature': signature,
            'rows': [
                {
                    key: round(value, 3) if isinstance(value, float) else value
                    for key, value in asdict(row).items()
                    if value is not None and value is not False  # 0.0 is a value
                }
                for row in rows
            ],
        }
        for label, signature, rows in scorers
    ]
    return yaml.safe_dump(
        {'description': description, 'scorers': entries},
        default_flow_style=None,  # rows, which hold no other lists, on a line each
        sort_keys=False,
        width=math.inf,
    )
