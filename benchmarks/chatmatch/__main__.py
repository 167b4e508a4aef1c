"""
Read the options, compute the tables that were asked for, and print them.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import benchmarks.chatmatch
from benchmarks.chatmatch import spot_the_bot, tables
from benchmarks.chatmatch.annotators import unmatched_systems
from benchmarks.chatmatch.games import (
    RawValues,
    games_from_dialogues,
    materials_by_id,
    mean_counts,
    raw_values_under,
    read_games,
)
from benchmarks.chatmatch.judgements import Judgements, read_judgements
from parlai_ext.commands.command import Command
from parlai_ext.core.errors import UserError
from parlai_ext.core.machine import Machine
from parlai_ext.core.nouns import Answer, Dialogue, Likelihood, Question
from parlai_ext.models.handle import CONTEXT
from parlai_ext.ranking.agreement import AnnotatorRanks
from parlai_ext.ranking.ratings import rate
from parlai_ext.scoring.chatmatch.concepts import DEFAULT
from parlai_ext.scoring.chatmatch.rules import READINGS, chatmatch_options
from parlai_ext.scoring.chatmatch.scorer import ChatMatch
from parlai_ext.scoring.chatmatch.turns import Material
from parlai_ext.tournament.games import Tournament, award_points

TABLES = {
    'judges': 'agreement among judges (Table 4)',
    'groups': 'groups of k systems (Table 6)',
    'setups': 'bot-bot and self-chats (Table 7)',
    'ablation': 'without each dimension (Table 8)',
    'lengths': 'number of exchanges (Figure 4)',
    'ranks': 'places of the bots (Figure 3)',
    'variety': 'distinct-1, distinct-2 and length (Table 11, row bot-bot)',
    'readings': 'tau of every reading, recogniser and rating',
    'baselines': 'tau of trivial measures',
    'not_here': 'what needs unreleased data (of Tables 5, 7, 9, 10, 11)',
    'spot_the_bot': "tau with Spot The Bot's crowd; --data is its folder",
}
OF_THE_PAPER = tuple(name for name in TABLES if name != 'spot_the_bot')
# tables that compare systems with the judges' ranks
RANKED = (
    'groups',
    'setups',
    'ablation',
    'lengths',
    'ranks',
    'readings',
    'baselines',
)
# tables whose numbers depend on the chosen reading and rating
RATED = ('groups', 'setups', 'ablation', 'lengths', 'ranks')
RECOGNISERS = ('gazetteer', 'capitals', 'none', 'spacy', 'stanza')


class ChatmatchTables(Command):
    """
    Print tables of the ChatMatch paper beside what its released games give here.
    """

    declares = ('--seed', '--batchsize', '--datapath', '--no-cuda', '--fp16')

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.description = benchmarks.chatmatch.__doc__
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        table_help = '; '.join(f'{name}: {text}' for name, text in TABLES.items())
        parser.add_argument(
            '--table',
            nargs='+',
            default=['all'],
            choices=[*TABLES, 'all'],
            help=table_help,
        )
        parser.add_argument('--data', help="folder of the paper's games and judgements")
        parser.add_argument('--judgements', help='.xlsx or .csv (default: in --data)')
        parser.add_argument('--reading', default='released_fixed')
        parser.add_argument('--entities', default='gazetteer')
        parser.add_argument(
            '--concepts', help='default: the lemma_* folders in --data, else words'
        )
        parser.add_argument('--rating', default='openskill')
        parser.add_argument('--group-size', type=int, default=4)
        parser.add_argument('--domain', default='convai2', help='of Spot The Bot')
        parser.add_argument('--out', help='write the tables to this JSON file too')
        parser.add_argument(
            '--judge-model-file', help='for fluency; none leaves it out (default: mini)'
        )

    def run(self) -> dict[str, Any]:
        """
        Print the tables and return them by name.
        """
        names = self._table_names()
        rate(award_points([]), self.opt['rating'])  # refuse an unknown one first
        data_by_name = {}
        for name in names:
            table = self.table(name)
            if name in RANKED:
                systems = {u.speaker for d in self.dialogues for u in d.utterances}
                notes = unmatched_systems(sorted(systems), self.judges)
                table = replace(table, notes=(*table.notes, *notes))
            print(table.to_text() + '\n')
            data_by_name[name] = table.to_json()
        result = {'signature': self.signature(names), 'tables': data_by_name}
        print(f'signature: {result["signature"]}')
        if self.opt['out']:
            text = json.dumps(result, ensure_ascii=False, indent=1, sort_keys=True)
            Path(self.opt['out']).write_text(
                text + '\n', encoding='utf-8', newline='\n'
            )
        return result

    def _table_names(self) -> list[str]:
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
        return names

    def signature(self, names: list[str]) -> str:
        """
        Return everything that determines the numbers of these tables.
        """
        parts = [f'seed:{self.seed}']
        if set(RATED) & set(names):
            rating = rate(award_points([]), self.opt['rating'], seed=self.seed)
            parts += [rating.signature, self.scorer.signature]
        return ' || '.join(parts)

    def table(self, name: str) -> tables.Table:
        """
        Return a table by its name.
        """
        opt = self.opt
        every = {'readings': READINGS, 'recognisers': RECOGNISERS, 'seed': self.seed}
        rated = {'method': opt['rating'], 'seed': self.seed}
        makers: dict[str, Callable[[], tables.Table]] = {
            'judges': lambda: tables.judges_table(self.judgements),
            'groups': lambda: tables.groups_table(
                self.results, self.judges, size=opt['group_size'], **rated
            ),
            'setups': lambda: self.setups_table(rated),
            'ablation': lambda: tables.ablation_table(
                self.results, self.judges, **rated
            ),
            'lengths': lambda: tables.lengths_table(
                self.dialogues, self.raw_values, self.judges, **rated
            ),
            'ranks': lambda: tables.ranks_table(
                self.results, self.dialogues, self.judges, **rated
            ),
            'variety': lambda: tables.variety_table(self.dialogues),
            'readings': lambda: tables.readings_table(
                self.dialogues, self.judges, self.build_scorer, **every
            ),
            'baselines': lambda: tables.baselines_table(self.dialogues, self.judges),
            'not_here': tables.not_here_table,
            'spot_the_bot': lambda: spot_the_bot.crowd_table(
                *spot_the_bot.read(Path(opt['data']), opt['domain']),
                self.build_scorer,
                **every,
            ),
        }
        return makers[name]()

    def setups_table(self, rated: Mapping[str, Any]) -> tables.Table:
        """
        Return Table 7, with the self-chats in the data folder if they are there.
        """
        folder = Path(self.opt['data']) / 'selfchat'
        self_chats = read_games(folder) if folder.is_dir() else []
        scorer = self.build_scorer(
            self.opt['reading'], self.opt['entities'], 'selfchat'
        )
        materials = materials_by_id(self_chats, scorer)
        raw_values = raw_values_under(scorer.options, materials)
        raw = {name: of for one in self_chats for name, of in raw_values(one).items()}
        counts = {
            'bot-bot': mean_counts(self.dialogues, scorer.options, self.materials),
            'self-chat': mean_counts(self_chats, scorer.options, materials),
        }
        return tables.setups_table(self.results, raw, counts, self.judges, **rated)

    @property
    def seed(self) -> int:
        return self.opt['seed'] or 0

    @cached_property
    def dialogues(self) -> list[Dialogue]:
        return read_games(self.data_path('original'))

    @cached_property
    def judgements(self) -> Judgements:
        given = self.opt['judgements']
        return read_judgements(given or self.data_path('human_judgement.xlsx'))

    @cached_property
    def judges(self) -> AnnotatorRanks:
        if 'overall' not in self.judgements:
            raise UserError(
                'the judgements have no overall ranks (dimension `overall`)'
            )
        return self.judgements['overall']

    @cached_property
    def scorer(self) -> ChatMatch:
        return self.build_scorer(self.opt['reading'], self.opt['entities'])

    @cached_property
    def materials(self) -> dict[str, Material]:
        return materials_by_id(self.dialogues, self.scorer)

    @cached_property
    def raw_values(self) -> RawValues:
        return raw_values_under(self.scorer.options, self.materials)

    @cached_property
    def results(self) -> Tournament:
        return award_points(games_from_dialogues(self.dialogues, self.raw_values))

    @cached_property
    def likelihood(self) -> Likelihood | None:
        """
        The language model behind fluency, asked about each text once.
        """
        from parlai_ext.models.parlai_likelihood import load_judge

        name = self.opt['judge_model_file'] or chatmatch_options().judge_model_file
        if name == 'none':
            return None
        machine = Machine.from_options(self.opt)
        judge = load_judge(
            name,
            no_cuda=machine.no_cuda,
            fp16=machine.fp16,
            tokens=machine.batchsize * CONTEXT,
        )
        return CachedLikelihood(judge)

    def build_scorer(
        self, reading: str, entities: str, games: str = 'original'
    ) -> ChatMatch:
        """
        Return the scorer of a reading and an entity recogniser.
        """
        folder = Path(self.opt['data']) / f'lemma_{games}'
        concepts = self.opt['concepts'] or (str(folder) if folder.is_dir() else DEFAULT)
        sources = {'entities': entities, 'concepts': concepts}
        if self.likelihood is None:
            sources['judge_model_file'] = 'none'
        return ChatMatch(chatmatch_options(reading, sources), OneJudge(self.likelihood))

    def data_path(self, name: str) -> Path:
        """
        Return the path of a file or folder that the data folder must hold.
        """
        path = Path(self.opt['data']) / name
        if not path.exists():
            raise UserError(
                f'{path}: not found; --data is the folder that holds {name}'
            )
        return path


class OneJudge:
    """
    `Models` with one judge, whatever its name.
    """

    def __init__(self, judge: Likelihood | None):
        self.judge = judge

    def likelihood(self, name: str) -> Any:
        """
        Return the judge.
        """
        return self.judge


class CachedLikelihood:
    """
    A likelihood that answers a question it has answered before from memory.
    """

    def __init__(self, likelihood: Likelihood):
        self.likelihood = likelihood
        self.signature = likelihood.signature
        self.answers: dict[Question, Answer] = {}

    def answer(self, questions: Sequence[Question]) -> list[Answer]:
        """
        Return one answer for each question, in their order.
        """
        new = [q for q in dict.fromkeys(questions) if q not in self.answers]
        answers = self.likelihood.answer(new) if new else []
        self.answers |= dict(zip(new, answers, strict=True))
        return [self.answers[question] for question in questions]


if __name__ == '__main__':
    parser = ChatmatchTables.parser()
    parser.prog = 'python -m benchmarks.chatmatch'
    ChatmatchTables.execute(vars(parser.parse_args(sys.argv[1:])))
