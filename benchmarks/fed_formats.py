"""
Measure FED's agreement with people in the judge's chat template, and less its baseline.

    python -m benchmarks.fed_formats --data ../shared/data [--per-system 15]

Prints, for judged sets, Spearman of FED (dimension Overall; complaints, praise, both)
with people over turns and over systems, in each format and with and without the same
follow-ups where the response is left out. Part of docs/judges_compared.md.
"""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.judges import BOTH, only_overall, values
from benchmarks.support.judged_turns import agreement, all_turns, sampled
from benchmarks.support.measures import print_head, print_row, start
from parlai_ext.models.handle import ModelHandle
from parlai_ext.scoring.fed import Fed

SETS = ('grade_convai2', 'usr_topical', 'dstc9_interactive')
VARIANTS = {
    'plain': {},
    'chat': {'judge_format': 'chat'},
    'plain, less no response': {'less': 'no_response'},
    'chat, less no response': {'judge_format': 'chat', 'less': 'no_response'},
}


def main(opt: argparse.Namespace) -> None:
    """
    Print the table.
    """
    handle = ModelHandle()
    print_head('set', 'FED', 'complaints', 'praise', 'both')
    for name in SETS:
        turns = sampled(all_turns(Path(opt.data), name), opt.per_system)
        human, systems = zip(*((one.human, one.system) for one in turns), strict=True)
        for label, options in VARIANTS.items():
            section = {**BOTH, **options, 'judge_model_file': opt.judge}
            fed = only_overall(Fed.from_section(section, handle), handle)
            scores = fed.checked_scores([turn.item for turn in turns])
            rows = [list(values(fed, score).values()) for score in scores]
            filled = np.array(rows, float).T
            cells = [
                '{:.2f} / {:.2f}'.format(*agreement(column, human, systems))
                for column in filled
            ]
            print_row(name, label, *cells)


if __name__ == '__main__':
    start(main, __doc__, data='../shared/data', per_system=15, judge='smollm2-135m-q4')
