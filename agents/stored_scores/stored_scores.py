"""
Stored scores as a scorer: `parlai eval_model -m ext:stored_scores -t ext:judged:…`.

    {"scores": {"interesting": 0.3, "fluent": -0.1}}

The file holds one object an item, in the order of the judged set: a list, or one object
after another. It shows how well any metric agrees with people, and needs no model.
"""

from typing import Any

from parlai.core.agents import Agent
from parlai.core.message import Message
from parlai.core.opt import Opt

from parlai_ext.core import (
    DeclaresOptions,
    UserError,
    errors_about,
    frozen,
    optional,
    parse_json_values,
)
from parlai_ext.core.records import WrongType, record_from_json
from parlai_ext.files import read_utf8

KEYS = ('scores', 'score')
Scores = dict[str, float | None]


@frozen
class StoredOptions:
    """
    Where the scores are.
    """

    title = 'Stored Scores Agent'
    scores_file: str | None = optional(help='JSON, an object with scores an item')


class StoredScoresAgent(DeclaresOptions, Agent):
    """
    Observes an item's number ``item``, acts its stored ``scores``.
    """

    declares = (StoredOptions,)

    def __init__(self, opt: Opt, shared: Any = None):
        super().__init__(opt, shared)
        self.id = 'StoredScores'
        self.stored: list[Scores] = (
            shared['stored'] if shared else read_scores(opt.get('scores_file'))
        )

    def share(self) -> dict[str, object]:
        """
        Clones read one list.
        """
        return {**super().share(), 'stored': self.stored}

    def act(self) -> Message:
        """
        Return the scores of the item that was observed last.
        """
        act = Message(id=self.id, episode_done=False)
        seen = self.observation
        if not seen or seen.is_padding():
            return act
        item, path = seen.get('item'), self.opt.get('scores_file')
        if item is None:
            raise UserError(
                f'{self.id}: its task must number items, as ext:judged does'
            )
        if len(self.stored) != (there := seen['num_items']):
            raise UserError(
                f'--scores-file {path}: it has {len(self.stored)} objects, and the '
                f'task has {there} items; those of this level would do'
            )
        act['scores'] = dict(self.stored[item])
        return act


def read_scores(path: str | None) -> list[Scores]:
    """
    Return the scores of a file, in its order, by dimension; `None` stands for no score.

    :raises UserError: for a file that is not there or not of this shape.
    """
    if not path:
        raise UserError('--scores-file is needed: JSON, an object with scores an item')
    with errors_about('--scores-file'):
        text = read_utf8(path)
        try:
            records = list(parse_json_values(text))
        except ValueError as e:
            raise UserError(f'{path}: not JSON: {e}') from None
        if len(records) == 1 and isinstance(records[0], list):
            records = records[0]
        scores = []
        for number, raw in enumerate(records, 1):
            named = [raw[key] for key in KEYS if isinstance(raw, dict) and key in raw]
            given = named[0] if named else None
            try:
                one = record_from_json(Scores, given, 'key scores')
            except WrongType as error:
                raise UserError(f'{path}: object {number}: {error}') from None
            scores.append(one)
        return scores
