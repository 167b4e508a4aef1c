"""
Print one dialogue of a run with its scores, or list those that there are; needs no
model.
"""

import shutil
from collections.abc import Iterator
from difflib import get_close_matches

from parlai_ext.commands.command import Command, print_lines
from parlai_ext.commands.options import ScoresChoice
from parlai_ext.core import (
    Dialogue,
    ScoredDialogue,
    UserError,
    dialogue_means,
    frozen,
    optional,
    require_known,
)
from parlai_ext.store import RunFolder, ShardKey
from parlai_ext.view import (
    MAX_CHARACTERS,
    Column,
    Table,
    few_names,
    number_column,
    wrap_lines,
)
from parlai_ext.view.page import terminal_lines
from parlai_ext.view.progress import bar_of

NARROWEST = 40  # columns
FEWEST_LETTERS = 4  # of the beginning of an id
MOST_LISTED = 20  # dialogues, where none are asked for


@frozen
class ShowOptions:
    """
    What is shown.
    """

    dialogue_id: str | None = optional(
        positional=True,
        metavar='ID',
        help='the dialogue, as the page, score files and CSV files name it; the '
        f'first {FEWEST_LETTERS} letters or more will do (none: list dialogues)',
    )
    dimension: str | None = optional(metavar='NAME', help='show this one alone')
    system: str | None = optional(metavar='NAME', help='list dialogues of this one')
    worst: int | None = optional(
        low=1, metavar='N', help='list the N with the lowest mean scores'
    )
    best: int | None = optional(
        low=1, metavar='N', help='list the N with the highest mean scores'
    )


@frozen
class ListedDialogue:
    """
    What the list says of a dialogue; its mean score is of ``system``.
    """

    id: str
    system: str
    partner: str
    dimension: str | None
    score: float | None


class ShowDialogue(Command):
    """
    Print one dialogue with the scores of a scorer; without an ID, list dialogues.
    """

    usage = '--run-dir FOLDER [ID] [option …]'
    declares = (ShowOptions, ScoresChoice)
    of_run = 'the folder of a run'

    def run(self) -> object:
        """
        Print the dialogue, or the list, and return it.

        :raises UserError: for an unknown id, system, scorer or dimension.
        """
        run = self.existing_run
        given = self.options(ShowOptions)
        if not given.dialogue_id:
            return self._list(given)
        if given.system or given.worst or given.best:
            raise UserError('ID: not with --system, --worst or --best, which list')
        dialogue, shard = find_dialogue(run, given.dialogue_id)
        scored = run.scores(self._signature()).by_dialogue(shard).get(dialogue.id)
        pairing = run.pairing(dialogue.pairing_id)
        means = {
            name: dialogue_means(dialogue, scored, name)
            for name in pairing.speakers
            if scored is not None
        }
        width = max(NARROWEST, shutil.get_terminal_size().columns)
        for line in terminal_lines(
            'dialogue',
            dialogue=dialogue,
            pairing=pairing,
            dimensions=self._dimensions(scored),
            means=means,
            scored=scored,
        ):
            text = line.lstrip(' ')
            indent = line.removesuffix(text)
            # a long text is cut already, and says so: no line is cut once more
            for part in wrap_lines(text, indent, width, limit=2 * MAX_CHARACTERS):
                print(part)
        return dialogue

    def _signature(self) -> str:
        """
        Return the signature of the chosen scores; '' in a run that is not scored.
        """
        from parlai_ext.results.ranking import choose_scores

        run, scores = self.existing_run, self.options(ScoresChoice).scores
        if not scores and not run.score_stores():
            return ''
        return choose_scores(run, scores)[0]

    def _list(self, given: ShowOptions) -> list[ListedDialogue]:
        """
        Print a line for each dialogue: the first ones, the best or the worst.
        """
        if given.worst and given.best:
            raise UserError('--worst and --best: one of them is expected')
        run, listed = self.existing_run, list(self._listed(given.system))
        if given.system and not listed:
            names = {name for p in run.pairings for name in p.speakers}
            require_known(given.system, names, f'--system {given.system!r}')
        if number := given.worst or given.best:
            sign = 1 if given.worst else -1
            listed = [one for one in listed if one.score is not None]
            listed.sort(key=lambda one: (sign * (one.score or 0), one.id))
            if not listed:
                raise UserError(f'{run.root}: --worst and --best need scores')
        chosen = listed[: number or MOST_LISTED]
        columns = [
            Column('id', 'dialogue'),
            Column('system', 'system'),
            Column('partner', 'with'),
            number_column('score', next((o.dimension for o in chosen), None), digits=3),
        ]
        print_lines(Table(columns, chosen).lines())
        print(f'{len(chosen)} of {len(listed):,}; others: --system, --worst, --best')
        return chosen

    def _listed(self, system: str | None) -> Iterator[ListedDialogue]:
        """
        Yield a line for each dialogue, with the target's mean score; another one for
        the partner, if it has a score.

        :param system: yield the lines of this one only.
        """
        from parlai_ext.report.page import dialogues_with_sides

        rows = dialogues_with_sides(self.existing_run, self._signature())
        for dialogue, scored, sides in rows:
            known = self._dimensions(scored)
            # that of the whole reply, where a scorer has it
            dimension = max(known, key='Overall'.__eq__, default=None)
            for name, partner in sides:
                means = dialogue_means(dialogue, scored, name) if scored else {}
                score = means.get(dimension or '')
                told = score is not None or (name, partner) == sides[0]
                if name == system or (told and system is None):
                    yield ListedDialogue(dialogue.id, name, partner, dimension, score)

    def _dimensions(self, scored: ScoredDialogue | None) -> list[str]:
        """
        Return the dimensions to show.
        """
        scores = scored.scores if scored is not None else ()
        known = list(dict.fromkeys(score.dimension for score in scores))
        wanted = self.opt['dimension']
        if wanted is None:
            return known
        require_known(wanted, known, f'--dimension {wanted!r}')
        return [wanted]


def find_dialogue(run: RunFolder, wanted: str) -> tuple[Dialogue, ShardKey]:
    """
    Return the dialogue of this id, or the only one whose id begins so, and its shard.

    :raises UserError: when there is none, or several, with near ones.
    """
    shards = run.dialogue_shards()
    ids = []
    begin = []
    with bar_of('read', sum(shard.n_dialogues for shard in shards), delay=3) as bar:
        for shard in shards:
            for dialogue in run.read_dialogues(shard):
                if dialogue.id == wanted:
                    return dialogue, shard
                ids.append(dialogue.id)
                if dialogue.id.startswith(wanted) and len(wanted) >= FEWEST_LETTERS:
                    begin.append((dialogue, shard))
                bar.update()
    if len(begin) == 1:
        return begin[0]
    if begin:
        names = few_names([dialogue.id for dialogue, _ in begin], 'and')
        raise UserError(
            f'{run.root}: {len(begin)} dialogues begin with {wanted!r}: {names}'
        )
    if len(wanted) < FEWEST_LETTERS and any(one.startswith(wanted) for one in ids):
        hint = f'of the beginning of an id, {FEWEST_LETTERS} letters or more are needed'
    elif close := get_close_matches(wanted, ids, n=1):
        hint = f'did you mean {close[0]!r}?'
    else:  # no list of all ids
        hint = f'the page and its CSV files name the {len(ids):,} that there are'
    raise UserError(f'{run.root} has no dialogue {wanted!r}; {hint}')
