"""
What annotators said: ratings of dialogues, and comparisons of two; as files.

    judgements.csv    system, dimension, value, rater, dialogue_id: one row for each
                      annotator, dialogue and dimension; of comparisons the share that
                      the dialogue won
    comparisons.csv   one row for each comparison
    judged.jsonl      a judged set of the user's own, for the bench: one line for each
                      dialogue and judged system, with all annotations
    judged.yaml       its card, which `run_bench --sets` and `--judged-card` name
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field, replace
from itertools import compress
from operator import attrgetter

from parlai_ext.core import HumanJudgement, UserError, frozen, grouped, require_known
from parlai_ext.files import COLUMNS
from parlai_ext.people.rating_set import ShownTurn
from parlai_ext.ranking.agreement import near_median
from parlai_ext.store import json_lines_text
from parlai_ext.view import Column, csv_text, spreadsheet_text
from parlai_ext.view.page import terminal_lines

COMPARISON_COLUMNS = (  # the winner of a tie is empty
    *map(Column, ('rater', 'dimension', 'first', 'second', 'winner')),
    Column('first_dialogue_id', of=attrgetter('first_dialogue')),
    Column('second_dialogue_id', of=attrgetter('second_dialogue')),
    Column('item'),
)
TIE = 0.5
FILE, CARD = 'judged.jsonl', 'judged.yaml'
PARTNER = 'user'  # whose turns no scorer of turns judges
MISSING = 'N/A'


@frozen
class Comparison:
    """
    One annotator's choice between dialogues of two systems.

    :param value: 1 if the first is preferred, 0 if the second, 0.5 for a tie.
    :param item: the pair that was shown; the same for all who saw it.
    """

    rater: str
    dimension: str
    first: str
    second: str
    value: float
    first_dialogue: str
    second_dialogue: str
    item: str

    @property
    def winner(self) -> str:
        """
        The preferred system, empty for a tie.
        """
        if self.value == TIE:
            return ''
        return self.first if self.value > TIE else self.second


Judgement = HumanJudgement | Comparison
# system, dialogue, and the turn where turns are judged
Unit = tuple[str, str, int | None]


def judged_units(one: Judgement) -> tuple[tuple[Unit, float], ...]:
    """
    Return what a judgement is of, each with its value: a system ('' as its dialogue),
    dialogue or turn with its rating, or the two dialogues of a comparison with how far
    each is preferred.
    """
    if isinstance(one, HumanJudgement):
        return (((one.system, one.dialogue_id or '', one.utterance_index), one.value),)
    return (
        ((one.first, one.first_dialogue, None), one.value),
        ((one.second, one.second_dialogue, None), 1 - one.value),
    )


@frozen
class Judgements:
    """
    All that was imported: ratings and comparisons, and what a reader should know.

    :param lower_is_better: dimensions of problems, of which fewer are better.
    :param contexts: what the dialogues were about, such as the opener, by their ids:
        dialogues of one context are drawn together for intervals.
    """

    every: Sequence[Judgement] = ()
    contexts: Mapping[str, str] = field(default_factory=dict)
    lower_is_better: frozenset[str] = frozenset()
    notes: Sequence[str] = ()

    @property
    def ratings(self) -> list[HumanJudgement]:
        """
        The ratings among the judgements.
        """
        return [one for one in self.every if isinstance(one, HumanJudgement)]

    @property
    def comparisons(self) -> list[Comparison]:
        """
        The comparisons among the judgements.
        """
        return [one for one in self.every if isinstance(one, Comparison)]

    @property
    def sides(self) -> set[tuple[str, str]]:
        """
        The systems that were judged, each with the id of the dialogue.
        """
        units = (unit for one in self.every for unit, _ in judged_units(one))
        return {(system, dialogue) for system, dialogue, _ in units if dialogue}

    @property
    def dimensions(self) -> tuple[str, ...]:
        """
        What was judged, in the order of the answers.
        """
        return tuple(dict.fromkeys(one.dimension for one in self.every))

    def chosen(self, wanted: Sequence[str], renamed: Mapping[str, str]) -> Judgements:
        """
        Return the judgements on these dimensions alone (none: all), some with other
        names.

        :raises UserError: for a dimension that was not judged, or a name that another
            one has.
        """
        if not wanted and not renamed:
            return self
        kept = [name for name in self.dimensions if not wanted or name in wanted]
        for option, known, given in (
            ('--dimensions', self.dimensions, wanted),
            ('--rename', kept, renamed),
        ):
            for name in given:
                require_known(name, known, f'{option} {name}: not judged')
        names = {name: renamed.get(name, name) for name in kept}
        if len(set(names.values())) < len(names):
            new = ', '.join(names.values())
            raise UserError(f'--rename: two dimensions of one name: {new}')
        return replace(
            self,
            every=[
                replace(one, dimension=names[one.dimension])
                for one in self.every
                if one.dimension in names
            ],
            lower_is_better=frozenset(
                names[n] for n in self.lower_is_better if n in names
            ),
        )

    def without_outliers(self, deviations: float) -> Judgements:
        """
        Return the judgements without the ratings that are far from the others' of the
        same dialogue or turn (`near_median`); a note says how many they were.
        """
        every_rating = self.ratings
        items = grouped(
            ((one.system, one.dialogue_id, one.utterance_index, one.dimension), one)
            for one in every_rating
        )
        kept = [
            rating
            for ratings in items.values()
            for rating in compress(
                ratings, near_median([r.value for r in ratings], deviations)
            )
        ]
        note = (
            f'{len(every_rating) - len(kept)} of {len(every_rating)} ratings left out: '
            f'farther than {deviations:g} deviations from the median of their item'
        )
        every: list[Judgement] = [*kept, *self.comparisons]
        return replace(self, every=every, notes=(*self.notes, note))

    def without_own(self, own: AbstractSet[tuple[str, str | None]]) -> Judgements:
        """
        Return the judgements that no annotator gave on a dialogue of their own, with a
        note on how many others there were.

        :param own: annotators with the dialogues in which they spoke.
        """
        kept = [
            one
            for one in self.every
            if own.isdisjoint(
                (one.rater, name) for (_, name, _), _ in judged_units(one)
            )
        ]
        left_out = len(self.every) - len(kept)
        note = (
            f'{left_out} of {len(self.every)} judgements are of annotators on their '
            'own chats; they are left out'
        )
        notes = (*self.notes, note) if left_out else self.notes
        return replace(self, every=kept, notes=notes)

    def by_dialogue(self) -> list[HumanJudgement]:
        """
        Return one judgement for each annotator, dialogue and dimension, sorted: a
        rating, or the share of comparisons that the dialogue won.
        """
        values = grouped(
            ((system, one.dimension, one.rater or '', dialogue), value)
            for one in self.every
            for (system, dialogue, _), value in judged_units(one)
        )
        return [
            HumanJudgement(
                system, dimension, sum(given) / len(given), rater, dialogue or None
            )
            for (system, dimension, rater, dialogue), given in sorted(values.items())
        ]


def judgements_csv(judgements: Sequence[HumanJudgement]) -> str:
    """
    Return judgements as the CSV that `--human-scores` reads. No spreadsheet takes the
    name of an annotator for a formula.
    """
    rows = (
        (
            j.system,
            j.dimension,
            f'{j.value:.6g}',
            spreadsheet_text(j.rater or ''),
            j.dialogue_id or '',
        )
        for j in judgements
    )
    return csv_text([COLUMNS, *rows])


def judged_lines(
    judgements: Sequence[HumanJudgement],
    turns: Mapping[tuple[str, str], Sequence[ShownTurn]],
) -> str:
    """
    Return the JSON lines of the judged dialogues; the places in a list of annotations
    are the annotators in the order of their names.

    :param turns: of each judged system and dialogue; others are left out.
    """
    annotators = sorted({j.rater or '' for j in judgements})
    dimensions = sorted({j.dimension for j in judgements})
    given_to = grouped(
        ((j.system, j.dialogue_id or ''), ((j.dimension, j.rater or ''), j.value))
        for j in judgements
    )
    records = []
    for system, dialogue in sorted(given_to.keys() & turns.keys()):
        given = dict(given_to[system, dialogue])
        records.append(
            {
                'dialogue_id': dialogue,
                'system': system,
                'dialog': [
                    {'speaker': system if turn.own else PARTNER, 'text': turn.text}
                    for turn in turns[system, dialogue]
                ],
                'annotations': {
                    name: [given.get((name, one), MISSING) for one in annotators]
                    for name in dimensions
                },
            }
        )
    return json_lines_text(records)


def judged_card(dimensions: Sequence[str]) -> str:
    """
    Return the card of the judged set as YAML.
    """
    name = dimensions[0] if len(dimensions) == 1 else 'Overall'
    overall = json.dumps(name) if name in dimensions else None
    lines = terminal_lines('judged_card', file=FILE, overall=overall)
    return '\n'.join(lines) + '\n'
