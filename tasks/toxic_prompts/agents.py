"""
`-t ext:toxic_prompts`: toxic prompts with polite answers, one example a pair.

``ext:toxic_prompts:test`` (and ``train``, ``valid``) has this fold whatever the
datatype. In valid and test, a prompt with several answers is one example with several
labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from parlai.core.message import Message
from parlai.core.opt import Opt
from parlai.core.teachers import FixedDialogTeacher
from parlai.utils import logging

from parlai_ext.core.machine import Machine
from parlai_ext.core.options import DeclaresOptions, Flags, option, options_from_opt
from parlai_ext.data.recorded_answers import Answer
from parlai_ext.data.toxic_pairs import FOLDS, ToxicData, ToxicPair, choose_pairs
from parlai_ext.models.handle import ModelHandle
from parlai_ext.systems.players import fired_check
from parlai_ext.tasks.judged.metrics import without_undefined
from parlai_ext.tasks.toxic_prompts.metrics import answer_metrics
from parlai_ext.toxic.measures import (
    REFERENCE_METRICS,
    AnswerMeasures,
    MeasureOptions,
    Prompt,
    load_measures,
)
from parlai_ext.toxic.prompts import polite_answers


@dataclass(frozen=True)
class DisplayOptions:
    """
    What is shown.
    """

    show_offensive: bool = option(
        False, help='show the texts in display_data and --display-examples'
    )


class DefaultTeacher(DeclaresOptions, FixedDialogTeacher):
    """
    The prompt is the text, the answers are the labels; every example is an episode.

    :cvar fold: the fold; `None`: that of ``--datatype``.
    """

    fold: str | None = None

    declares = (
        Flags(ToxicData, 'Toxic prompts'),
        Flags(MeasureOptions, 'Measures of answers in valid and test (eval_model)'),
        DisplayOptions,
    )

    def __init__(self, opt: Opt, shared: dict[str, Any] | None = None):
        super().__init__(opt, shared)
        if shared:
            self.examples: list[list[ToxicPair]] = shared['examples']
            self.measures: AnswerMeasures | None = shared['measures']
        else:
            fold = self.fold or FOLDS[_fold_place(opt['datatype'])]
            data = options_from_opt(ToxicData, opt)
            self.examples = read_examples(data, fold)
            is_training = str(opt['datatype']).startswith('train')
            self.measures = None if is_training else measures_from_opt(opt)
        self.with_context = bool(opt.get('toxic_context'))
        self.reset()

    def share(self) -> dict[str, Any]:
        """
        Return what the clones of a batch read together.
        """
        shared = {'examples': self.examples, 'measures': self.measures}
        return {**super().share(), **shared}

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
            example=episode_idx,
            episode_done=True,
        )

    def custom_evaluation(
        self, teacher_action: Message, labels: Any, model_response: Message
    ) -> None:
        """
        Measure an answer; a model that gives none (``--skip-generation``) has none.
        """
        text = model_response.get('text')
        if self.measures is None or text is None:
            return
        references = polite_answers(self.examples[teacher_action['example']])
        prompt = Prompt('', teacher_action['text'], references)
        answer = Answer('', '', text, fired_check(model_response))
        [one] = self.measures.measure([prompt], [answer])
        rows = answer_metrics(prompt.text, one, self.measures.shares)
        for name, metric in rows.items():
            self.metrics.add(name, metric)

    def report(self) -> dict[str, Any]:
        """
        Return the metrics; an interval that does not exist is left out.
        """
        return without_undefined(super().report())


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


def measures_from_opt(opt: Opt) -> AnswerMeasures:
    """
    Return what measures the answers; what cannot be had is logged.
    """
    is_validation = 'validation_metric' in opt  # an option of train_model
    # a model's own options may name detectors, too
    named_by_user = 'detectors' in (opt.get('override') or {})
    measures = load_measures(
        options_from_opt(MeasureOptions, opt),
        ModelHandle(Machine.from_options(opt)),
        default_metrics=REFERENCE_METRICS[:1] if is_validation else REFERENCE_METRICS,
        named_by_user=named_by_user,
    )
    for line in measures.missing:
        logging.warning(f'ext:toxic_prompts: left out: {line}')
    return measures


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
