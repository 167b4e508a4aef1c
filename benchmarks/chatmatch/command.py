"""
The tables of the ChatMatch paper on its authors' games: paper and measured, together.
"""

from __future__ import annotations

import argparse
import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parlai_ext.commands.command import Command
from parlai_ext.commands.options import add_options
from parlai_ext.core.errors import UserError
from parlai_ext.core.options import machine_options, positive

if TYPE_CHECKING:
    from benchmarks.chatmatch.tables import RawOf, Table
    from parlai_ext.core.nouns import Dialogue, Likelihood
    from parlai_ext.ranking.agreement import AnnotatorRanks
    from parlai_ext.ranking.tournament import Tournament
    from parlai_ext.scoring.chatmatch.scorer import ChatMatch

TABLES = {
    'judges': 'agreement among judges (Table 4)',
    'groups': 'groups of k systems (Table 6)',
    'setups': 'bot-bot and self-chats (Table 7)',
    'ablation': 'without each dimension (Table 8)',
    'lengths': 'number of exchanges (Figure 4)',
    'readings': 'tau of every reading, recogniser and rating',
    'baselines': 'tau of trivial measures',
    'not_here': 'what needs data nobody has (of Tables 5, 7, 9, 10, 11)',
    'spot_the_bot': "tau with Spot The Bot's crowd; --data is its folder",
}
OF_THE_PAPER = tuple(name for name in TABLES if name != 'spot_the_bot')
RANKED = ('groups', 'setups', 'ablation', 'lengths', 'readings', 'baselines')
RECOGNISERS = ('gazetteer', 'capitals', 'none', 'spacy', 'stanza')


class ChatmatchTables(Command):
    """
    Print tables of the ChatMatch paper beside what its released games give here.
    """

    description = "The ChatMatch paper's tables: paper and measured side by side"

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        what = '; '.join(f'{name}: {text}' for name, text in TABLES.items())
        parser.add_argument(
            '--table', nargs='+', default=['all'], choices=[*TABLES, 'all'], help=what
        )
        parser.add_argument('--data', help="folder of the paper's games and judgements")
        parser.add_argument('--judgements', help='.xlsx or .csv (default: in --data)')
        parser.add_argument('--reading', default='released_fixed')
        parser.add_argument('--entities', default='gazetteer')
        parser.add_argument(
            '--concepts', help='default: the lemma_* folders in --data, else words'
        )
        parser.add_argument('--rating', default='openskill')
        parser.add_argument('--group-size', type=positive, default=4)
        parser.add_argument('--domain', default='convai2', help='of Spot The Bot')
        parser.add_argument('--out', help='write the tables to this JSON file too')
        add_options(
            parser, '--seed', '--batchsize', '--datapath', '--no-cuda', '--fp16'
        )
        parser.add_argument(
            '--judge-model-file', help='for fluency; none leaves it out (default: mini)'
        )

    def run(self) -> dict[str, Any]:
        """
        Return the tables by name, and print them.
        """
        from benchmarks.chatmatch.text import data, noted, text
        from parlai_ext.ranking.ratings import rate
        from parlai_ext.ranking.tournament import tournament

        asked = self.opt['table']
        names = [
            n for n in TABLES if n in asked or 'all' in asked and n in OF_THE_PAPER
        ]
        if names != ['not_here'] and not self.opt['data']:
            raise UserError('--data is needed: the folder of the games')
        if 'spot_the_bot' in names and len(names) > 1:
            raise UserError(
                '--table spot_the_bot has a --data of its own; ask it alone'
            )
        rate(tournament([]), self.opt['rating'])  # an unknown one is refused first
        found = {}
        for name in names:
            table: Table = getattr(self, f'_{name}')()
            if name in RANKED:
                table = noted(table, self.dialogues, self.judges)
            print(text(table) + '\n')
            found[name] = data(table)
        print(f'signature: {self.signature(names)}')
        result = {'signature': self.signature(names), 'tables': found}
        if self.opt['out']:
            written = json.dumps(result, ensure_ascii=False, indent=1, sort_keys=True)
            Path(self.opt['out']).write_text(
                written + '\n', encoding='utf-8', newline='\n'
            )
        return result

    def signature(self, names: list[str]) -> str:
        """
        Return what fixes the numbers of these tables.
        """
        from parlai_ext.ranking.ratings import rate
        from parlai_ext.ranking.tournament import tournament

        parts = [f'seed:{self.seed}']
        if {'groups', 'setups', 'ablation', 'lengths'} & {*names}:
            rating = rate(tournament([]), self.opt['rating'], seed=self.seed)
            parts += [rating.signature, self.scorer.signature]
        return ' || '.join(parts)

    def _judges(self) -> Table:
        from benchmarks.chatmatch.tables import judges_table

        return judges_table(self.said)

    def _groups(self) -> Table:
        from benchmarks.chatmatch.tables import groups_table

        size = self.opt['group_size']
        return groups_table(self.results, self.judges, size=size, **self.rated)

    def _setups(self) -> Table:
        from benchmarks.chatmatch.games import counts, materials, raw_maker
        from benchmarks.chatmatch.tables import setups_table

        alone = self.self_chats
        scorer = self.built(self.opt['reading'], self.opt['entities'], 'selfchat')
        beside = {'bot-bot': self.beside, 'self-chat': materials(alone, scorer)}
        raw_of = raw_maker(scorer.rules, beside['self-chat'])
        raw = {name: values for one in alone for name, values in raw_of(one).items()}
        counted = {
            'bot-bot': counts(self.dialogues, scorer.rules, beside['bot-bot']),
            'self-chat': counts(alone, scorer.rules, beside['self-chat']),
        }
        return setups_table(self.results, raw, counted, self.judges, **self.rated)

    def _ablation(self) -> Table:
        from benchmarks.chatmatch.tables import ablation_table

        return ablation_table(self.results, self.judges, **self.rated)

    def _lengths(self) -> Table:
        from benchmarks.chatmatch.tables import lengths_table

        return lengths_table(self.dialogues, self.raw_of, self.judges, **self.rated)

    def _readings(self) -> Table:
        from benchmarks.chatmatch.grid import grid_table
        from parlai_ext.scoring.chatmatch.rules import READINGS

        return grid_table(
            self.dialogues,
            self.judges,
            self.built,
            readings=READINGS,
            recognisers=RECOGNISERS,
            seed=self.seed,
        )

    def _baselines(self) -> Table:
        from benchmarks.chatmatch.tables import baselines_table

        return baselines_table(self.dialogues, self.judges)

    def _not_here(self) -> Table:
        from benchmarks.chatmatch.tables import not_here_table

        return not_here_table()

    def _spot_the_bot(self) -> Table:
        from benchmarks.chatmatch.spot_the_bot import RATINGS, crowd_table, read
        from parlai_ext.scoring.chatmatch.rules import READINGS

        dialogues, votes = read(Path(self.opt['data']), self.opt['domain'])
        return crowd_table(
            dialogues,
            votes,
            self.built,
            readings=list(READINGS),
            recognisers=RECOGNISERS,
            ratings=RATINGS,
            seed=self.seed,
        )

    @cached_property
    def seed(self) -> int:
        return self.opt['seed'] or 0

    @property
    def rated(self) -> dict[str, Any]:
        return {'method': self.opt['rating'], 'seed': self.seed}

    @cached_property
    def dialogues(self) -> list[Dialogue]:
        from benchmarks.chatmatch.games import read_games

        return read_games(self.inside('original'))

    @cached_property
    def self_chats(self) -> list[Dialogue]:
        from benchmarks.chatmatch.games import read_games

        folder = Path(self.opt['data']) / 'selfchat'
        return read_games(folder) if folder.is_dir() else []

    @cached_property
    def said(self) -> dict[str, AnnotatorRanks]:
        from benchmarks.chatmatch.judgements import read_judgements

        given = self.opt['judgements']
        return read_judgements(given or self.inside('human_judgement.xlsx'))

    @cached_property
    def judges(self) -> AnnotatorRanks:
        if 'overall' not in self.said:
            raise UserError(
                'the judgements have no overall ranks (dimension `overall`)'
            )
        return self.said['overall']

    @cached_property
    def scorer(self) -> ChatMatch:
        return self.built(self.opt['reading'], self.opt['entities'])

    @cached_property
    def beside(self) -> dict[str, Any]:
        from benchmarks.chatmatch.games import materials

        return materials(self.dialogues, self.scorer)

    @cached_property
    def raw_of(self) -> RawOf:
        from benchmarks.chatmatch.games import raw_maker

        return raw_maker(self.scorer.rules, self.beside)

    @cached_property
    def results(self) -> Tournament:
        from benchmarks.chatmatch.tables import games_of
        from parlai_ext.ranking.tournament import tournament

        return tournament(games_of(self.dialogues, self.raw_of))

    @cached_property
    def likelihood(self) -> Likelihood | None:
        """
        The language model behind fluency, asked about each text once.
        """
        from benchmarks.chatmatch.grid import Remembered
        from parlai_ext.models.parlai_likelihood import load_judge
        from parlai_ext.scoring.chatmatch.scorer import JUDGE
        from parlai_ext.scoring.score_run import CONTEXT

        name = self.opt['judge_model_file'] or JUDGE
        if name == 'none':
            return None
        tokens = (self.opt['batchsize'] or 64) * CONTEXT
        return Remembered(load_judge(name, **machine_options(self.opt), tokens=tokens))

    def built(self, reading: str, entities: str, games: str = 'original') -> ChatMatch:
        """
        Return the scorer of a reading and a recogniser.
        """
        from parlai_ext.scoring.chatmatch.dictionaries import DEFAULT, load_dictionaries
        from parlai_ext.scoring.chatmatch.entities import load_recogniser
        from parlai_ext.scoring.chatmatch.rules import rules_of
        from parlai_ext.scoring.chatmatch.scorer import ChatMatch

        folder = Path(self.opt['data']) / f'lemma_{games}'
        concepts = self.opt['concepts'] or (str(folder) if folder.is_dir() else DEFAULT)
        recogniser = load_recogniser(entities)
        dictionaries = load_dictionaries(concepts)
        return ChatMatch(rules_of(reading), dictionaries, recogniser, self.likelihood)

    def inside(self, name: str) -> Path:
        """
        Return what the data folder must hold.
        """
        path = Path(self.opt['data']) / name
        if not path.exists():
            raise UserError(
                f'{path}: not found; --data is the folder that holds {name}'
            )
        return path
