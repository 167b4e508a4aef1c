"""
`-t ext:toxic_prompts`: toxic prompts with polite answers, one example a pair.

``ext:toxic_prompts:test`` (and ``train``, ``valid``) has this fold whatever the
datatype. In valid and test, a prompt with several answers is one example with several
labels.

The values of measures are collected; means over prompts and their intervals come at the
end.
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import pandas as pd
from parlai.core.message import Message
from parlai.core.opt import Opt
from parlai.utils import logging

from parlai_ext.core import (
    FOLDS,
    Flags,
    frozen,
    grouped,
    option,
    options_from_opt,
    options_of,
)
from parlai_ext.data.corpora import (
    Prompt,
    RecordedAnswer,
    ToxicData,
    choose_pairs,
)
from parlai_ext.engines import Machine
from parlai_ext.models.handle import ModelHandle
from parlai_ext.ranking.comparison import prompt_means
from parlai_ext.ranking.intervals import Estimate
from parlai_ext.systems.fetch.public_sets import with_public_sets
from parlai_ext.systems.players import fired_check
from parlai_ext.tasks.items_teacher import ItemsTeacher, PointsMetric
from parlai_ext.toxic.comparison import MOST, bleu_values, polite_answers
from parlai_ext.toxic.measures import (
    BLEU,
    REFERENCE_METRICS,
    AnswerMeasures,
    MeasureOptions,
    load_measures,
)

SHARE, MEAN, CORPUS = 'share', 'mean', 'corpus'
NUMBERS = {'mean': 'value', 'low': 'low', 'high': 'high'}


class AnswerPoint(NamedTuple):
    """
    What an answer to a prompt adds: the value of a measure, or the counts of BLEU.
    """

    prompt: str
    values: tuple[float, ...]


class AnswerMetric(PointsMetric):
    """
    The mean of a measure over prompts, an end of its interval, or ``prompts``: how many
    there are.

    Prompts of several tasks are pooled. The level says what the values are: a share, a
    mean, or BLEU's counts, whose number is of all answers together.
    """

    __slots__ = ()

    def number(self) -> float | None:
        """
        Return the number, or `None` when it does not exist.
        """
        measure, n = measured(self.points, self.level)
        number = n if self.name == 'prompts' else getattr(measure, NUMBERS[self.name])
        return None if number is None else float(number)


@lru_cache(maxsize=64)
def measured(points: tuple[AnswerPoint, ...], level: str) -> tuple[Estimate, int]:
    """
    Return the measure of collected values, and how many prompts they are of.
    """
    values = pd.Series([p.values for p in points], [p.prompt for p in points])
    most = math.inf
    if level == CORPUS:
        means, most = bleu_values(values), MOST[BLEU]
    else:
        means = values.str[0].groupby(level=0, sort=False).mean()
    [measure] = prompt_means(means.to_numpy()[None], shares=level == SHARE, most=most)
    return measure, len(means)


@frozen
class DisplayOptions:
    """
    What is shown.
    """

    show_offensive: bool = option(
        False, help='show the texts in display_data and --display-examples'
    )


class DefaultTeacher(ItemsTeacher):
    """
    The prompt is the text, the answers are the labels; an item is the pairs of an
    example.

    :cvar fold: the fold; `None`: that of ``--datatype``.
    """

    fold: str | None = None
    shared = ('items', 'measures')

    declares = (
        Flags(ToxicData, 'Toxic prompts'),
        Flags(MeasureOptions, 'Measures of answers in valid and test (eval_model)'),
        DisplayOptions,
    )

    def __init__(self, opt: Opt, shared: dict[str, Any] | None = None):
        super().__init__(opt, shared)
        # several tasks at once: each has rows of its own in the table, by its fold and
        # by the options in its own name, such as ext:toxic_prompts:toxic_data=FOLDER
        user = opt.get('override') or opt
        usual = {one.dest(): one.default for one in options_of(ToxicData).values()}
        own = [
            f'{key}={opt[key]}'
            for key, default in usual.items()
            if opt.get(key) not in (None, default, user.get(key))
        ]
        self.id = ':'.join(filter(None, ('ext:toxic_prompts', self.fold, *own)))

    def read(self, opt: Opt) -> None:
        """
        Read the pairs of each example, and load what measures the answers. What is left
        out or cannot be had is logged.
        """
        word = str(opt['datatype']).split(':')[0]
        fold = self.fold or (word if word in FOLDS else FOLDS[0])
        chosen = choose_pairs(with_public_sets(options_from_opt(ToxicData, opt)), fold)
        for reason, n in chosen.left_out.items():
            logging.info(f'ext:toxic_prompts, {fold}: {n} pairs left out: {reason}')
        by_prompt = grouped(
            (number if fold == 'train' else (pair.context, pair.prompt), pair)
            for number, pair in enumerate(chosen.pairs)
        )
        self.items = list(by_prompt.values())
        self.measures: AnswerMeasures | None = None
        if word == 'train':
            return
        one = 'validation_metric' in opt  # an option of train_model
        self.measures = load_measures(
            options_from_opt(MeasureOptions, opt),
            ModelHandle(options_from_opt(Machine, opt)),
            default_metrics=REFERENCE_METRICS[:1] if one else REFERENCE_METRICS,
            # a model's own options may name detectors, too
            named_by_user='detectors' in (opt.get('override') or {}),
        )
        for line in self.measures.missing:
            logging.warning(f'ext:toxic_prompts: left out: {line}')

    def get(self, episode_idx: int, entry_idx: int = 0) -> Message:
        """
        Return a prompt with its answers as labels; ``''`` where there is no answer.
        """
        pairs = self.items[episode_idx]
        before = pairs[0].context if self.opt.get('toxic_context') else ()
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
        references = polite_answers(self.items[teacher_action['example']])
        prompt = Prompt('', teacher_action['text'], references)
        answer = RecordedAnswer('', '', text, fired_check(model_response))
        row = self.measures.measure([(prompt, answer)]).iloc[0].dropna()
        for measure, value in row.items():
            kind = SHARE if measure in self.measures.shares else MEAN
            level, values = (CORPUS, value) if measure == BLEU else (kind, (value,))
            for name in (*NUMBERS, 'prompts'):
                metric = AnswerMetric(name, level, [AnswerPoint(prompt.text, values)])
                self.metrics.add(f'{measure}/{name}', metric)


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
