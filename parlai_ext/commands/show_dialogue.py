"""
Print one dialogue of a run with its scores; needs no model.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from parlai_ext.commands.command import Command
from parlai_ext.commands.options import ScoresChoice
from parlai_ext.core.errors import UserError, nearest
from parlai_ext.core.nouns import Dialogue, ScoredDialogue
from parlai_ext.core.options import option
from parlai_ext.core.progress import bar_of
from parlai_ext.report.dialogue_text import dialogue_lines
from parlai_ext.results.chosen_scores import choose_scores
from parlai_ext.store import RunFolder

NARROWEST = 40  # columns
FEWEST_LETTERS = 4  # of the beginning of an id
MOST_NAMED = 5


@dataclass(frozen=True)
class ShowOptions:
    """
    What is shown.
    """

    dialogue_id: str | None = option(
        None,
        positional=True,
        metavar='ID',
        help='the dialogue, as the page, score files and CSV files name it; the '
        f'first {FEWEST_LETTERS} letters or more will do',
    )
    dimension: str | None = option(None, metavar='NAME', help='show this one alone')


class ShowDialogue(Command):
    """
    Print one dialogue with the scores of a scorer.
    """

    usage = '--run-dir FOLDER ID [option …]'
    declares = ('--run-dir', ShowOptions, ScoresChoice)
    of_run = 'the folder of a run'

    def run(self) -> Dialogue:
        """
        Print the dialogue and return it.

        :raises UserError: for an unknown id, scorer or dimension.
        """

        run = self.existing_run
        given = self.options(ShowOptions)
        if not given.dialogue_id:
            raise UserError('ID is needed: which dialogue to show')
        dialogue, shard = find_dialogue(run, given.dialogue_id)
        scored = self._scored(run, dialogue, shard)
        dimensions = self._dimensions(scored)
        pairing = run.pairing(dialogue.pairing_id)
        width = max(NARROWEST, shutil.get_terminal_size().columns)
        for line in dialogue_lines(dialogue, pairing, scored, dimensions, width):
            print(line)
        return dialogue

    def _scored(
        self, run: RunFolder, dialogue: Dialogue, shard: int
    ) -> ScoredDialogue | None:
        """
        Return the scores of the dialogue; `None` in a run that is not scored.
        """

        scores = self.options(ScoresChoice).scores
        if not scores and not run.score_stores():
            return None
        signature, _ = choose_scores(run, scores)
        by_id = run.scores(signature).by_dialogue(dialogue.pairing_id, shard)
        return by_id.get(dialogue.id)

    def _dimensions(self, scored: ScoredDialogue | None) -> list[str]:
        """
        Return the dimensions to show.
        """
        scores = scored.scores if scored is not None else ()
        known = list(dict.fromkeys(score.dimension for score in scores))
        wanted = self.opt['dimension']
        if wanted is None:
            return known
        if wanted not in known:
            raise UserError(f'--dimension {wanted!r}: {nearest(wanted, known)}')
        return [wanted]


def find_dialogue(run: RunFolder, wanted: str) -> tuple[Dialogue, int]:
    """
    Return the dialogue of this id, or the only one whose id begins so, and the index of
    its shard.

    :raises UserError: when there is none, or several, with near ones.
    """

    shards = run.dialogue_shards()
    ids = []
    begin: list[tuple[Dialogue, int]] = []
    with bar_of('read', sum(shard.n_dialogues for shard in shards), delay=3) as bar:
        for shard in shards:
            for dialogue in run.read_dialogues(shard.pairing_id, shard.index):
                if dialogue.id == wanted:
                    return dialogue, shard.index
                ids.append(dialogue.id)
                if dialogue.id.startswith(wanted) and len(wanted) >= FEWEST_LETTERS:
                    begin.append((dialogue, shard.index))
                bar.update()
    if len(begin) == 1:
        return begin[0]
    if begin:
        names = ', '.join(dialogue.id for dialogue, _ in begin[:MOST_NAMED])
        more = ', …' if len(begin) > MOST_NAMED else ''
        raise UserError(
            f'{run.root}: {len(begin)} dialogues begin with {wanted!r}: {names}{more}'
        )
    raise UserError(f'{run.root} has no dialogue {wanted!r}; {_advice(wanted, ids)}')


def _advice(wanted: str, ids: Sequence[str]) -> str:
    """
    Return what would have been right instead of an unknown id: no list of all ids.
    """
    if len(wanted) < FEWEST_LETTERS and any(one.startswith(wanted) for one in ids):
        return f'of the beginning of an id, {FEWEST_LETTERS} letters or more are needed'
    if close := get_close_matches(wanted, ids, n=1):
        return f'did you mean {close[0]!r}?'
    return f'the page and its CSV files name the {len(ids):,} that there are'
