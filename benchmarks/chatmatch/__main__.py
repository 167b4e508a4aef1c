"""
Print the tables of the ChatMatch paper: published and measured side by side.

    python -m benchmarks.chatmatch --data FOLDER [--table groups setups …]

The paper is Yang et al. (2022). --data is the folder of its games and judgements as the
authors released them. docs/tournaments.md explains the tables.
"""

import argparse
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.chatmatch import tables
from benchmarks.chatmatch.games import (
    RawValues,
    games_from_dialogues,
    materials_by_id,
    mean_counts,
    raw_values_under,
    read_games,
)
from benchmarks.chatmatch.judgements import Judgements, read_judgements
from benchmarks.support.measures import start
from parlai_ext.core import Dialogue, UserError
from parlai_ext.models.handle import ModelHandle
from parlai_ext.ranking.games import Tournament, award_points
from parlai_ext.scoring.chatmatch import DEFAULT, READINGS, ChatMatch, Material

RECOGNISERS = ('gazetteer', 'capitals', 'none', 'spacy', 'stanza')


class ReleasedGames:
    """
    The authors' games and judgements, and the tables that come of them; each part is
    read when it is first needed.
    """

    def __init__(self, opt: argparse.Namespace):
        self.opt = opt
        self.models = ModelHandle()

    def groups(self) -> tables.Table:
        """
        Groups of k systems (Table 6).
        """
        return tables.groups_table(self.results, self.rated, self.opt.group_size)

    def setups(self) -> tables.Table:
        """
        Bot-bot and self-chats, which lie in the data folder (Table 7).
        """
        folder = Path(self.opt.data) / 'selfchat'
        chats = read_games(folder) if folder.is_dir() else []
        opt = self.opt
        scorer = self.build_scorer(opt.reading, opt.entities, 'selfchat')
        materials = materials_by_id(chats, scorer)
        raw_values = raw_values_under(scorer.options, materials)
        raw = {name: of for one in chats for name, of in raw_values(one).items()}
        rules = self.scorer.options
        counts = {
            'bot-bot': mean_counts(self.dialogues, rules, self.materials),
            'self-chat': mean_counts(chats, scorer.options, materials),
        }
        return tables.setups_table(self.results, raw, counts, self.rated)

    def readings(self) -> tables.Table:
        """
        Tau of every reading, recogniser and rating, and of trivial measures.
        """
        return tables.readings_table(
            self.dialogues, self.rated, self.build_scorer, READINGS, RECOGNISERS
        )

    @cached_property
    def dialogues(self) -> list[Dialogue]:
        return read_games(self.data_path('original'))

    @cached_property
    def judgements(self) -> Judgements:
        given = self.opt.judgements
        return read_judgements(given or self.data_path('human_judgement.xlsx'))

    @cached_property
    def rated(self) -> tables.Rated:
        if 'overall' not in self.judgements:
            raise UserError(
                'the judgements have no overall ranks (dimension `overall`)'
            )
        judges = self.judgements['overall']
        return tables.Rated(judges, self.opt.rating, self.opt.seed)

    @cached_property
    def scorer(self) -> ChatMatch:
        return self.build_scorer(self.opt.reading, self.opt.entities)

    @cached_property
    def materials(self) -> dict[str, Material]:
        return materials_by_id(self.dialogues, self.scorer)

    @cached_property
    def raw_values(self) -> RawValues:
        return raw_values_under(self.scorer.options, self.materials)

    @cached_property
    def results(self) -> Tournament:
        return award_points(games_from_dialogues(self.dialogues, self.raw_values))

    def build_scorer(
        self, reading: str, entities: str, games: str = 'original'
    ) -> ChatMatch:
        """
        Return the scorer of a reading and an entity recogniser.
        """
        folder = Path(self.opt.data) / f'lemma_{games}'
        concepts = self.opt.concepts or (str(folder) if folder.is_dir() else DEFAULT)
        sources = {'entities': entities, 'concepts': concepts}
        if self.opt.judge_model_file:
            sources['judge_model_file'] = self.opt.judge_model_file
        return ChatMatch({'reading': reading, **sources}, self.models)

    def data_path(self, name: str) -> Path:
        """
        Return the path of a file or folder that the data folder must hold.
        """
        path = Path(self.opt.data) / name
        if not path.exists():
            raise UserError(
                f'{path}: not found; --data is the folder that holds {name}'
            )
        return path


TABLES: dict[str, Callable[[ReleasedGames], tables.Table]] = {
    'judges': lambda games: tables.judges_table(games.judgements),
    'groups': ReleasedGames.groups,
    'setups': ReleasedGames.setups,
    'ablation': lambda games: tables.ablation_table(games.results, games.rated),
    'lengths': lambda games: tables.lengths_table(
        games.dialogues, games.raw_values, games.rated
    ),
    'ranks': lambda games: tables.ranks_table(
        games.results, games.dialogues, games.rated
    ),
    'variety': lambda games: tables.variety_table(games.dialogues),
    'readings': ReleasedGames.readings,
}


def main(opt: argparse.Namespace) -> None:
    """
    Print the tables that were asked for, or all.
    """
    games = ReleasedGames(opt)
    for name in opt.table or TABLES:
        print(*TABLES[name](games).lines(), '', sep='\n')


OPTIONS: dict[str, Any] = {
    'choices': {'table': TABLES},
    'required': ['data'],
    'data': str,
    'table': [],
    'judgements': str,
    'reading': 'released_fixed',
    'entities': 'gazetteer',
    'concepts': str,
    'rating': 'openskill',
    'group_size': 4,
    'judge_model_file': str,
    'seed': 0,
}

if __name__ == '__main__':
    start(main, __doc__, **OPTIONS)
