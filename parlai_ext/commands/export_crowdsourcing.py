"""
`export_crowdsourcing`: a run as the input of ParlAI's crowdsourcing tasks.
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from parlai_ext.commands.command import Command
from parlai_ext.core import frozen, option, optional
from parlai_ext.people.rating_set import (
    LIKERT,
    PAIR,
    acute_files,
    check_targets,
    draw_items,
    judged_dialogues,
    matchups_by_openness,
    model_chat_files,
    read_questionnaire,
    stream_turns,
    turn_annotation_files,
)
from parlai_ext.store import write_texts
from parlai_ext.view import count_of

if TYPE_CHECKING:
    from parlai_ext.ranking.standings import Standing


# each format with the questionnaire that it asks
ACUTE, TURNS, CHAT = 'acute_eval', 'turn_annotations', 'model_chat'
ASKED = {ACUTE: 'acute', TURNS: 'likert_2022', CHAT: 'likert_2022'}
OPEN_FIRST, COMPLETE = 'open_first', 'complete'


@frozen
class ExportOptions:
    """
    Which task the files are for, and how many dialogues go into it.
    """

    format: str = option(
        ACUTE,
        choices=tuple(ASKED),
        help='acute_eval: pairs of dialogues; turn_annotations: turns of dialogues; '
        'model_chat: people talk with the systems',
    )
    out: str | None = optional(
        metavar='FOLDER',
        help='where the files go (default: RUN/people/<format>)',
    )
    matchups: str = option(
        OPEN_FIRST,
        choices=(OPEN_FIRST, COMPLETE),
        help='open_first: pairs of systems whose order the ranking leaves open, then '
        'the others; complete: all evenly',
    )
    num_items: int = option(100, low=1, help='pairs of dialogues, or dialogues')
    pairs_per_matchup: int = option(
        10, low=1, help='with open_first: pairs of each two systems'
    )
    questionnaire: str | None = optional(
        metavar='NAME|FILE', help='what is asked (acute, likert_2022)'
    )
    ask: str | None = optional(
        metavar='DIMENSION',
        help='the question of acute_eval, which asks one (default: the first)',
    )
    systems: tuple[str, ...] = option(
        (), metavar='NAME,…', help='only these targets (default: all)'
    )
    chat_turns: int = option(
        6, low=1, help='model_chat: turns of a person, at least (Sato et al. 2022: 6)'
    )
    seed: int = option(0, low=0, help='draws the dialogues')


class ExportCrowdsourcing(Command):
    """
    Write the files that ParlAI's crowdsourcing tasks read.
    """

    usage = '--run-dir FOLDER --format NAME [option …]'
    declares = (ExportOptions,)
    of_run = 'the folder of a run'

    def run(self) -> object:
        """
        Return the paths of the files.
        """
        run = self.existing_run
        given = self.options(ExportOptions)
        check_targets(run, given.systems)
        files = self._files(given)
        out = Path(given.out or run.root / 'people' / given.format)
        paths = write_texts(out, files)
        print(*paths, sep='\n')
        return paths

    def _files(self, given: ExportOptions) -> dict[str, str]:
        """
        Return the files of the task by their names.

        :raises UserError: for a questionnaire of the wrong kind.
        """
        run = self.existing_run
        asked = read_questionnaire(given.questionnaire or ASKED[given.format])
        kind = PAIR if given.format == ACUTE else LIKERT
        asked.require(kind, given.format)
        if given.format == CHAT:
            from parlai_ext.isolation.policy import require_named

            names = given.systems or tuple(run.manifest.targets)
            bots = [run.plan.roster.system(name) for name in names]
            opts = {system.name: system.opt for system in bots}
            for system in bots:  # ParlAI will load what the file says
                require_named(system)
            return model_chat_files(opts, asked, given.chat_turns)
        dialogues, _ = judged_dialogues(run, given.systems)
        whole = [
            dialogue
            for dialogue, turns in stream_turns(run, dialogues)
            if turns and all(a.own != b.own for a, b in pairwise(turns))
        ]
        if num_left_out := len(dialogues) - len(whole):
            print(
                'note: left out, as speakers do not alternate: '
                f'{count_of(num_left_out, "dialogue")}'
            )
        matchups = []
        if given.format == ACUTE and given.matchups == OPEN_FIRST:
            systems = sorted({d.system for d in whole})
            matchups = matchups_by_openness(systems, self._standings())
            matchups = matchups[: max(1, given.num_items // given.pairs_per_matchup)]
        items = draw_items(whole, kind, given.num_items, given.seed, matchups)
        turns = dict(stream_turns(run, {d for item in items for d in item.dialogues}))
        if given.format == TURNS:
            return turn_annotation_files(items, turns)
        asked = asked.only([given.ask]) if given.ask else asked
        return acute_files(items, turns, asked.questions[0])

    def _standings(self) -> Sequence['Standing']:
        """
        Return the ranking by the first dimension; nothing in a run that is not ranked.
        """
        from parlai_ext.results.ranking import NAME, read_ranking

        run = self.existing_run
        if not (run.root / NAME).is_file():
            print('note: the run is not ranked yet: all pairs of systems are open')
            return ()
        ranking = read_ranking(run)
        return ranking.standings[ranking.dimensions[0]]
