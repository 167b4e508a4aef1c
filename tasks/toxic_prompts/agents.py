"""
`-t ext:toxic_prompts`: toxic prompts with polite answers, one example a pair.

``ext:toxic_prompts:test`` (and ``train``, ``valid``) has this fold whatever the
datatype. In valid and test, a prompt with several answers is one example with several
labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from parlai.core.message import Message
from parlai.core.opt import Opt
from parlai.core.params import ParlaiParser
from parlai.core.teachers import FixedDialogTeacher
from parlai.utils import logging

from parlai_ext.core.options import add_flags, options_from_opt
from parlai_ext.data.toxic_pairs import FOLDS, ToxicData, ToxicPair, choose_pairs

TITLE = 'Toxic prompts'


class DefaultTeacher(FixedDialogTeacher):
    """
    The prompt is the text, the answers are the labels; every example is an episode.

    :cvar fold: the fold; `None`: that of ``--datatype``.
    """

    fold: str | None = None

    @classmethod
    def add_cmdline_args(
        cls, parser: ParlaiParser, partial_opt: Opt | None = None
    ) -> ParlaiParser:
        """
        Add the options that name the files and choose pairs.
        """
        super().add_cmdline_args(parser, partial_opt)
        add_flags(parser, ToxicData, title=TITLE)
        parser.add_argument(
            '--show-offensive',
            type='bool',
            default=False,
            help='show the texts in display_data and --display-examples',
        )
        return parser

    def __init__(self, opt: Opt, shared: dict[str, Any] | None = None):
        super().__init__(opt, shared)
        self.id = 'ext:toxic_prompts'
        if shared:
            self.examples: list[list[ToxicPair]] = shared['examples']
        else:
            fold = self.fold or FOLDS[_fold_place(opt['datatype'])]
            data = options_from_opt(ToxicData, opt)
            self.examples = read_examples(data, fold)
        self.with_context = bool(opt.get('toxic_context'))
        self.reset()

    def share(self) -> dict[str, Any]:
        """
        Return what the clones of a batch read together.
        """
        return {**super().share(), 'examples': self.examples}

    def num_episodes(self) -> int:
        """
        Return the number of examples.
        """
        return len(self.examples)

    def num_examples(self) -> int:
        """
        Return the number of examples.
        """
        return len(self.examples)

    def get(self, episode_idx: int, entry_idx: int = 0) -> Message:
        """
        Return a prompt with its answers as labels; ``''`` where there is no answer.
        """
        pairs = self.examples[episode_idx]
        before = pairs[0].context if self.with_context else ()
        return Message(
            text='\n'.join((*before, pairs[0].prompt)),
            labels=[pair.answer or '' for pair in pairs],
            pair_ids=[pair.id for pair in pairs],
            features=[dict(pair.features) for pair in pairs],
            prompt=pairs[0].prompt,
            episode_done=True,
        )


class TrainTeacher(DefaultTeacher):
    """
    The training fold.
    """

    fold = 'train'


class ValidTeacher(DefaultTeacher):
    """
    The validation fold.
    """

    fold = 'valid'


class TestTeacher(DefaultTeacher):
    """
    The test fold.
    """

    fold = 'test'


def read_examples(data: ToxicData, fold: str) -> list[list[ToxicPair]]:
    """
    Return the pairs of each example, and log how many pairs are left out, and why.
    """
    chosen = choose_pairs(data, fold)
    for reason, n in chosen.left_out.items():
        logging.info(f'ext:toxic_prompts, {fold}: {n} pairs left out: {reason}')
    if fold == 'train':
        return [[pair] for pair in chosen.pairs]
    return by_prompt(chosen.pairs)


def by_prompt(pairs: Sequence[ToxicPair]) -> list[list[ToxicPair]]:
    """
    Return the pairs of each prompt, in the order in which prompts come first.
    """
    groups: dict[tuple[Any, ...], list[ToxicPair]] = {}
    for pair in pairs:
        groups.setdefault((pair.context, pair.prompt), []).append(pair)
    return list(groups.values())


def _fold_place(datatype: str) -> int:
    word = datatype.split(':')[0]
    return FOLDS.index(word) if word in FOLDS else 0
