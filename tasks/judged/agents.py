"""
Judged sets as tasks: `parlai eval_model -m ext:fed -t ext:judged:fed_turn`.

Every card in ``zoo_configs/judged`` is a task; ``-t ext:judged`` is ``fed_turn``. A set
of dialogues gives whole dialogues; the scorer's agent cuts them into turns for a scorer
of turns. How a scorer agrees with people is told by ParlAI metrics that collect points;
the coefficient comes at the end.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import pandas as pd
from parlai.core.message import Message
from parlai.core.metrics import Metric, SumMetric
from parlai.core.opt import Opt
from parlai.utils import logging

from parlai_ext.core import UserError, frozen, option, optional, require_known
from parlai_ext.data.judged import card_names, quality_pairs, read_card
from parlai_ext.ranking.agreement import Correlation, correlate_items
from parlai_ext.scoring.score_run import ALL, AUTO, WHOLE
from parlai_ext.tasks.items_teacher import ItemsTeacher, PointsMetric
from parlai_ext.tasks.judged.fetch import judged_place

COEFFICIENTS = ('pearson', 'spearman', 'kendall')

NUMBERS = {
    coefficient + ending: (coefficient, bound)
    for coefficient in COEFFICIENTS
    for ending, bound in {'': 'value', '_low': 'low', '_high': 'high'}.items()
}
# level -> what is added to the name of a row
ROWS = {'item': '', 'dialogue': ', dialogues', 'system': ', systems'}


class Point(NamedTuple):
    """
    A score and the mean human value of one item.

    :param item: its number in the set.
    :param group: items of a group are drawn together.
    :param dialogue: the item's dialogue, where the set says so.
    """

    judged_set: str
    item: int
    system: str
    dialogue: str
    group: int
    score: float
    human: float


class CorrelationMetric(PointsMetric):
    """
    One number of the agreement of collected points: a coefficient or an end of its
    interval.

    Points of several sets are not pooled: the value is the mean over the sets, without
    an interval.

    :param name: one of `NUMBERS`, or ``n``: how many are compared.
    :param level: a key of `ROWS`: what is compared.
    """

    __slots__ = ()

    def number(self) -> float | None:
        """
        Return the number, or `None` when it does not exist.
        """
        of_sets = correlations(self.points, self.level)
        if self.name == 'n':
            return sum(one['pearson'].n for one in of_sets)
        coefficient, bound = NUMBERS[self.name]
        if bound != 'value' and len(of_sets) > 1:
            return None
        numbers = [getattr(one[coefficient], bound) for one in of_sets]
        known = [number for number in numbers if number is not None]
        return fmean(known) if known else None


@lru_cache(maxsize=64)
def correlations(
    points: tuple[Point, ...], level: str
) -> tuple[dict[str, Correlation], ...]:
    """
    Return the correlations over the items, dialogues or systems of each set; all
    numbers of a row are worked out once.
    """
    found = []
    frame = pd.DataFrame([*points], columns=Point._fields)
    for _, own in frame.groupby('judged_set', sort=False):
        systems = own['system'].tolist() if level == 'system' else None
        if level == 'dialogue':
            by_dialogue = own.groupby(['system', 'dialogue'], sort=False)
            own = by_dialogue.agg({'score': fmean, 'human': fmean, 'group': 'first'})
        scores, human, groups = (own[n].tolist() for n in ('score', 'human', 'group'))
        found.append(
            correlate_items(
                scores, human, groups=groups, systems=systems, coefficients=COEFFICIENTS
            )
        )
    return tuple(found)


def metrics(
    name: str, points: Sequence[Point], texts: int, levels: Sequence[str] = ('item',)
) -> dict[str, Metric]:
    """
    Return the metrics of one item: a row ``name`` in ParlAI's table, and a row for each
    further level.

    `dropped` counts items without a score or a human value, `strings` the answers in
    words.

    :param points: the item's point, or nothing if it lacks a score or a human value.
    """
    rows = {}
    for level in levels:
        row = name + ROWS[level]
        for number in ('n', *NUMBERS):
            rows[f'{row}/{number}'] = CorrelationMetric(number, level, points)
    rows[f'{name}/n'] = SumMetric(len(points))
    rows[f'{name}/dropped'] = SumMetric(1 - len(points))
    rows[f'{name}/strings'] = SumMetric(texts)
    return rows


# --- the task -----------------------------------------------------------------------

FEWEST_SYSTEMS = 3
TURNS = (AUTO, WHOLE, ALL)


@frozen
class JudgedOptions:
    """
    Where a judged set is, and how its dialogues are judged.
    """

    title = 'Judged sets'
    judged_path: str | None = optional(
        help='a folder; official files are found in it by name'
    )
    judged_file: str | None = optional(help='the file with the judgements')
    judged_card: str | None = optional(
        help='a card of your own (YAML), in place of the shipped'
    )
    judged_turns: str = option(
        AUTO,
        help='how a scorer of turns judges a dialogue: all (the mean over all of '
        'its speaker), a number (over so many of them, which are drawn), whole '
        '(the last turn after all others), or auto: whole where a scorer can judge '
        'dialogues, else all',
    )
    judged_seed: int = option(0, low=0, help='for the turns that are drawn')


class JudgedTeacher(ItemsTeacher):
    """
    The items of one judged set.

    The ``scores`` that the scorer acts are collected, and reported as correlations with
    people.

    :cvar set_name: the card of the set.
    """

    set_name = 'fed_turn'

    declares = (JudgedOptions,)
    shared = ('items', 'judged_set', 'groups')
    hidden = ('labels', 'eval_labels')

    def __init__(self, opt: Opt, shared: dict[str, Any] | None = None):
        super().__init__(opt, shared)
        self.id = f'ext:judged:{self.set_name}'
        self.levels = ['item']
        of_dialogues = any(item.dialogue for item in self.judged_set.items)
        if self.judged_set.level == 'turn' and of_dialogues:
            self.levels.append('dialogue')
        if self.judged_set.counts()['systems'] >= FEWEST_SYSTEMS:
            self.levels.append('system')
        turns = str(opt.get('judged_turns') or AUTO)
        most = int(turns) if turns.isdecimal() else 0
        if not most and turns not in TURNS:
            known = f'{", ".join(TURNS)} or a number'
            raise UserError(f'--judged-turns {turns}: {known}')
        # how a dialogue is judged: as `judged_scoring_items` takes it
        self.judged_turns = (
            ALL if most else turns,
            most or None,
            opt.get('judged_seed') or 0,
        )

    def read(self, opt: Opt) -> None:
        """
        Read the set from the file that the user names, from the user's folder, or else
        from the file that is fetched, and log where it differs from its card.

        :raises UserError: for one file for several tasks.
        """
        card = read_card(opt.get('judged_card') or self.set_name)
        if opt.get('judged_file'):
            if ',' in str((opt.get('override') or {}).get('task') or ''):
                raise UserError(
                    '--judged-file is the file of one set; --judged-path names a '
                    'folder with the files of several'
                )
            place: Path | None = Path(opt['judged_file'])
        else:
            folder = opt.get('judged_path')
            place = judged_place(card, Path(folder) if folder else None)
        self.judged_set = card.read(place)
        self.items, self.groups = self.judged_set.items, self.judged_set.groups()
        counts = self.judged_set.counts()
        logging.info(
            f'{counts["items"]} judged {card.level}s; {counts["texts"]} answers in '
            'words are no numbers and left out'
        )
        for difference in card.count_differences(self.judged_set):
            logging.warning(f'ext:judged:{self.set_name}: it has {difference}')

    def get(self, episode_idx: int, entry_idx: int = 0) -> Message:
        """
        Return the last utterance with the earlier ones as its ``context``.
        """
        item = self.items[episode_idx]
        message = Message(
            text=item.utterances[-1],
            context=list(item.utterances[:-1]),
            speaker=item.system,
            speakers=list(item.speakers),
            references=list(item.references),
            facts=item.facts,
            persona=list(item.persona),
            item=episode_idx,
            num_items=len(self.items),
            labels=[''],  # without a label teachers.py:541 collects no metrics
            episode_done=True,
        )
        if item.response is None:
            message['dialogue'] = (item.id, *self.judged_turns)
        return message

    def observe(self, observation: Message) -> Message:
        """
        Take the scores of an item, without the scorer's own averages.
        """
        seen = Message({k: v for k, v in observation.items() if k != 'metrics'})
        return super().observe(seen)

    def custom_evaluation(
        self, teacher_action: Message, labels: Any, model_response: Message
    ) -> None:
        """
        Collect the scores of one item together with the judgements of people.
        """
        scores = model_response.get('scores')
        if scores is None:
            if self.opt.get('ignore_agent_reply'):  # display_data
                return
            who = model_response.get('id')
            raise UserError(f'{self.id}: {who} is no scorer; -m ext:fed would do')
        place = teacher_action['item']
        item = self.items[place]
        human = {name: item.human(name) for name in self.judged_set.qualities}
        for pair in quality_pairs(scores, human, self.judged_set):
            points = []
            if pair.score is not None and pair.human is not None:
                about = (self.judged_set.name, place, item.system, item.dialogue)
                points = [Point(*about, self.groups[place], pair.score, pair.human)]
            given = item.annotations.get(pair.quality, ())
            texts = len(given) - len(item.numbers(pair.quality))
            for key, metric in metrics(pair.name, points, texts, self.levels).items():
                self.metrics.add(key, metric)
        if (cut := model_response.get('num_truncated')) is not None:
            self.metrics.add('cut_contexts', SumMetric(int(cut > 0)))


class DefaultTeacher(JudgedTeacher):
    """
    ``-t ext:judged`` is ``-t ext:judged:fed_turn``.
    """


def __getattr__(name: str) -> Any:
    """
    Return the teacher of a card, by the name that ParlAI makes of the task.

    :raises UserError: for a task without a card, with the nearest name.
    """
    if not name.endswith('Teacher'):
        raise AttributeError(name)
    # FedTurnTeacher is of fed_turn
    letters = (f'_{c.lower()}' if c.isupper() else c for c in name[:-7])
    card = ''.join(letters).strip('_')
    require_known(card, card_names(), f'-t ext:judged:{card}: no such set')
    members = {'set_name': card, '__doc__': read_card(card).title}
    globals()[name] = type(name, (JudgedTeacher,), members)
    return globals()[name]
