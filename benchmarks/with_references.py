"""
Test how far scorers with references agree with people.

Also where no judged response is the reference itself, as a person's reply among the
systems is:

    python -m benchmarks.with_references --judged-path FOLDER [--scorers NAME …]
        [--sets NAME …] [--items 300] [--others-only]

Prints the tables of docs/learned_references.md: for each scorer and set the
Spearman of turns and of systems' means with the overall quality, of all items (drawn at
random) and of those whose response is no reference (all with --others-only),
and the scores' mean and spread; of `learned_references` its two parts, too.
"""

import argparse
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.support.judged_turns import agreement
from benchmarks.support.measures import start
from parlai_ext.bench.plan import parse_variant
from parlai_ext.commands.run_bench import read_judged_sets
from parlai_ext.core.machine import Machine
from parlai_ext.data.judged.judged_set import JudgedItem, JudgedSet
from parlai_ext.models.handle import ModelHandle
from parlai_ext.ranking.baselines import words_of
from parlai_ext.scoring.base import ItemScore
from parlai_ext.scoring.judged_items import judged_scoring_items
from parlai_ext.scoring.registry import find_scorer

SETS = ('topical_dstc10', 'esl', 'usr_topical', 'usr_persona', 'zhao_dailydialog')
SETS += ('dstc7_human_eval',)


def main(args: argparse.Namespace) -> None:
    sets, _ = read_judged_sets(args.judged_path, args.sets)
    models = ModelHandle(Machine(no_cuda=True, batchsize=16))
    for name in args.scorers:
        section = parse_variant(name).section
        scorer = find_scorer(section['name']).from_section(section, models)
        for judged in sets.values():
            items = drawn_items(judged, args.items, args.others_only)
            asked = [judged_scoring_items(one, scorer)[0] for one in items]
            scores = scorer.checked_scores(asked)
            print_agreement(f'{name}, {judged.name}', judged.overall, items, scores)
            if section['name'] == 'learned_references':
                parts = {'learned': slice(3), 'BERTScore': slice(-1, None)}
                for part, places in parts.items():
                    alone = [
                        ItemScore({'Overall': sum(one.evidence[places])})
                        for one in scores
                    ]
                    print_agreement(f'  {part}', judged.overall, items, alone)


def drawn_items(judged: JudgedSet, count: int, others_only: bool) -> list[JudgedItem]:
    """
    Return items with references and a number of the overall quality, drawn at random.
    """
    items = [
        one
        for one in judged.items
        if one.references and one.human(judged.overall or '') is not None
    ]
    items = [one for one in items if not (others_only and is_reference(one))]
    random.Random(0).shuffle(items)
    return items[:count]


def print_agreement(
    label: str,
    quality: str | None,
    items: Sequence[JudgedItem],
    scores: Sequence[ItemScore],
) -> None:
    """
    Print the agreement of all items that have a score, and of those that are no
    reference.
    """
    rows = [
        (item, score.values['Overall'], item.human(quality or ''))
        for item, score in zip(items, scores, strict=True)
        if score.values['Overall'] is not None
    ]
    others = [row for row in rows if not is_reference(row[0])]
    for what, some in (('all', rows), ('no reference', others)):
        of, own, human = zip(*some, strict=True)
        names = [item.system for item in of]
        turns, systems = agreement(own, human, names)
        print(
            f'{label}: {what} ({len(some)}): turns {turns:.2f}, systems {systems:.2f} '
            f'({len(set(names))}), mean {np.mean(own):.3f}, spread {np.std(own):.3f}',
            flush=True,
        )


def is_reference(item: JudgedItem) -> bool:
    """
    True if the response is one of the references, but for case and punctuation.
    """
    own = words_of(item.response or '')
    return any(words_of(reference) == own for reference in item.references)


if __name__ == '__main__':
    start(
        main,
        __doc__,
        required=['judged_path'],
        judged_path=Path,
        scorers=['bertscore'],
        sets=SETS,
        items=300,
        others_only=False,
    )
