"""
Pairs of good and bad responses, from which PairEval and DirectEval learn.
"""

from collections import Counter
from dataclasses import asdict
from pathlib import Path

from parlai_ext.commands.command import Command
from parlai_ext.core import UserError, frozen, option, optional
from parlai_ext.data.corpora import (
    CORPORA,
    SPLITS,
    annotated_contexts,
    held_out_dialogues,
    read_corpus,
    without_overlap,
)
from parlai_ext.store import json_lines_text, write_text
from parlai_ext.training.pairs import PairOptions, build_pairs, planned_pairs
from parlai_ext.view.page import print_report


@frozen
class PairSources:
    """
    The dialogues from which pairs are made, and the file of the pairs.
    """

    corpus: str = option(choices=tuple(CORPORA), help='the format of the dialogues')
    path: str = option(metavar='FOLDER', help='the corpus, or one file')
    out: str = option(metavar='FILE', help='pairs.jsonl')
    split: str = option('train', choices=SPLITS, help='of the corpus (train)')
    adversarial: str | None = optional(
        metavar='FILE',
        help='train.json or dev.json of DailyDialog++: adversarial responses',
    )
    leave_out: tuple[str, ...] = option(
        (),
        nargs='+',
        metavar='FILE',
        help='no dialogue that shares turns with these files is used',
    )


class BuildPairs(Command):
    """
    Make pairs of a good and a bad response from a dialogue corpus.
    """

    usage = '--corpus NAME --path FOLDER --out pairs.jsonl [option …]'
    declares = (PairSources, PairOptions)

    def run(self) -> object:
        """
        Write the pairs, print how many there are of which kind, and return the file.
        """
        given, options = self.options(PairSources), self.options(PairOptions)
        name, file, path = given.corpus, given.adversarial, Path(given.path)
        if given.split != 'train' and path.is_file() and path.suffix != '.zip':
            raise UserError(
                f'--split {given.split}: --path names one file, all of which is used; '
                'leave --split out, and name the file of that split'
            )
        dialogues = read_corpus(name, given.path, given.split)
        annotated = annotated_contexts(file) if file else []
        held = [
            turns
            for left_out in given.leave_out
            for turns in held_out_dialogues(name, left_out)
        ]
        usable = without_overlap(dialogues, held)
        fitting = {*without_overlap([one.context for one in annotated], held)}
        annotated = [one for one in annotated if one.context in fitting]
        pairs = build_pairs(usable, annotated, options)
        out = Path(given.out)
        write_text(out, json_lines_text(map(asdict, pairs)))
        print_report(
            'built_pairs',
            n_dialogues=len(dialogues),
            n_left_out=len(dialogues) - len(usable) if held else None,
            kinds=Counter(pair.kind for pair in pairs),
            asked=planned_pairs(annotated, options),
            adversarial=file,
            out=out,
        )
        return out
