"""
Pairs of good and bad responses, from which PairEval and DirectEval learn.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from parlai_ext.commands.command import Command
from parlai_ext.core.options import add_flags
from parlai_ext.data.corpora import (
    CORPORA,
    SPLITS,
    annotated_contexts,
    held_out_dialogues,
    read_corpus,
    without_overlap,
)
from parlai_ext.store.atomic import write_file
from parlai_ext.training.pairs import PairOptions, build_pairs, pair_line, planned_pairs


class BuildPairs(Command):
    """
    Make pairs of a good and a bad response from a dialogue corpus.
    """

    description = 'Pairs of good and bad responses, to train a judge on'
    usage = '--corpus NAME --path FOLDER --out pairs.jsonl [option …]'

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument('--corpus', choices=list(CORPORA), help='whose format')
        parser.add_argument('--path', metavar='FOLDER', help='the corpus, or one file')
        parser.add_argument('--split', choices=SPLITS, default='train')
        parser.add_argument(
            '--adversarial',
            metavar='FILE',
            help='train.json or dev.json of DailyDialog++: adversarial responses',
        )
        parser.add_argument(
            '--leave-out',
            metavar='FILE',
            nargs='+',
            help='no dialogue that shares turns with these files is used',
        )
        parser.add_argument('--out', metavar='FILE', help='pairs.jsonl')
        add_flags(parser, PairOptions)

    def run(self) -> Path:
        """
        Write the pairs, print how many there are of which kind, and return the file.
        """
        self.require(
            corpus=f'the format of the dialogues ({", ".join(CORPORA)})',
            path='the dialogues',
            out='the file of the pairs',
        )
        options = self.options(PairOptions)
        name, path = self.opt['corpus'], self.opt['path']
        dialogues = read_corpus(name, path, self.opt['split'])
        file = self.opt['adversarial']
        annotated = annotated_contexts(file) if file else []
        held = [
            turns
            for left_out in self.opt['leave_out'] or ()
            for turns in held_out_dialogues(name, left_out)
        ]
        usable = without_overlap(dialogues, held)
        if held:
            print(f'left out: {len(dialogues) - len(usable)} of {len(dialogues)}')
        fitting = {one.context for one in annotated}
        fitting = set(without_overlap(sorted(fitting), held))
        annotated = [one for one in annotated if one.context in fitting]
        pairs = build_pairs(usable, annotated, options)
        out = Path(self.opt['out'])
        write_file(out, ''.join(map(pair_line, pairs)).encode())
        kinds = Counter(pair.kind for pair in pairs)
        shown = ', '.join(f'{n} {kind}' for kind, n in sorted(kinds.items()))
        print(f'{out}: {len(pairs)} pairs ({shown})')
        asked = planned_pairs(annotated, options)
        for kind, n in kinds.items():
            if n < asked[kind]:
                print(
                    f'{kind}: {file} has {n} pairs for these options, not {asked[kind]}'
                )
        return out
