"""
Table 3 of bipartite-play: schemes of pairing beside each other, each a run.

    python -m benchmarks.pairings RUN RUN RUN [--human-scores people.csv]
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import Any

from parlai_ext import zoo_configs
from parlai_ext.commands.command import Command
from parlai_ext.commands.options import HumanScores, ScoresChoice
from parlai_ext.core import UserError, option, read_options
from parlai_ext.files import read_file
from parlai_ext.results.ranking import Ranking, choose_scores, rank_run
from parlai_ext.scoring.likelihood import FedOptions, load_followups
from parlai_ext.store import RunFolder
from parlai_ext.view import DASH, Column, Table, interval_cell, number


@dataclass(frozen=True)
class PairingRuns:
    """
    The runs that are set beside each other.
    """

    runs: tuple[str, ...] = option(
        (), positional=True, nargs='*', metavar='RUN', help='folders of scored runs'
    )


@dataclass(frozen=True)
class PairingRow:
    """
    A scored run, or what was published of its scheme.

    :param complaints: by dimension, how many complaints a score adds up; empty where a
        score is no such sum.
    """

    scheme: str
    ranking: Ranking
    complaints: Mapping[str, int]


class ComparePairings(Command):
    """
    Set runs of the same systems with other pairings beside each other: how well each
    scheme agrees with people, and the scores of each system.

    Nothing is written. The numbers of Sato et al. (2022) stand beside.
    """

    usage = 'RUN RUN … [--human-scores FILE]'
    declares = (PairingRuns, HumanScores, ScoresChoice)

    def run(self) -> list[Ranking]:
        """
        Print both tables and return the ranking of each run.

        :raises UserError: for fewer than two runs, or one without scores.
        """
        given = self.options(PairingRuns)
        if len(given.runs) < 2:
            raise UserError('two runs or more: python -m benchmarks.pairings RUN RUN …')
        human = self.human_judgements
        rows = []
        for path in given.runs:
            run = RunFolder.existing(path)
            signature, _ = choose_scores(run, self.opt['scores'])
            rule = run.scores(signature).about().ranking
            ranking = rank_run(run, signature, human=human, **rule)
            scheme = run.manifest.protocol.pairing
            rows.append(PairingRow(scheme, ranking, summed_complaints(run, signature)))
        published = read_file(zoo_configs.path('published', 'bipartite_play')).data
        print('Spearman with the reference, 95 % interval over systems:')
        print(*agreement_of_pairings(rows, published['table_3']).lines('  '), sep='\n')
        print('\nmean scores (in brackets: for each follow-up that is added up):')
        print(*scores_of_pairings(rows, published['scores']).lines('  '), sep='\n')
        return [row.ranking for row in rows]


def summed_complaints(run: RunFolder, signature: str) -> dict[str, int]:
    """
    Return how many complaints a FED score of a run adds up, by dimension; nothing
    where a score is no sum over complaints alone, or they cannot be fetched.
    """
    about = run.scores(signature).about()
    section = dict(about.config or run.manifest.protocol.scorer)
    if section.pop('name', None) != 'fed':
        return {}
    options = read_options(FedOptions, section, 'scorer: ')
    if (options.polarity, options.followup_reduction) != ('negative', 'sum'):
        return {}
    try:
        sides = load_followups(options.followups).dimensions
    except UserError:
        return {}
    return {name: len(side.negative) for name, side in sides.items()}


def agreement_of_pairings(
    rows: Sequence[PairingRow], published: Mapping[str, Mapping[str, float]]
) -> Table:
    """
    Return Table 3: a row for each run, with the published row of its scheme below.
    """
    lines: list[dict[str, Any]] = []
    for row in rows:
        line: dict[str, Any] = {'': row.scheme, 'systems': DASH}
        for name, agreement in row.ranking.reference.items():
            line['systems'] = str(agreement.n)
            line[name] = interval_cell(agreement.spearman, 2)
        lines.append(line)
        paper = published.get(row.scheme, {})
        numbers = {name: number(value) for name, value in paper.items()}
        if paper:
            lines.append({'': '  published', 'systems': '11', **numbers})
    return _table(rows, 'systems', lines)


def scores_of_pairings(
    rows: Sequence[PairingRow], published: Mapping[str, Any]
) -> Table:
    """
    Return the score of each system in each run, and for each follow-up beside it.
    """

    def score_text(value: float | None, complaints: int | None) -> str:
        if value is None or not complaints:
            return number(value)
        return f'{number(value)} ({number(value / complaints)})'

    systems = dict.fromkeys(
        standing.system
        for row in rows
        for standings in row.ranking.standings.values()
        for standing in standings
    )
    lines = [
        {
            '': system,
            'pairing': row.scheme,
            **{
                name: score_text(standing.score, row.complaints.get(name))
                for name, standings in row.ranking.standings.items()
                for standing in standings
                if standing.system == system
            },
        }
        for system in systems
        for row in rows
    ]
    lines.append(
        {
            '': f'published: {published["system"]}',
            'pairing': published['pairing'],
            **{
                name: score_text(value, published['complaints'][name])
                for name, value in published['sum'].items()
            },
        }
    )
    return _table(rows, 'pairing', lines)


def _table(
    rows: Sequence[PairingRow], second: str, lines: Sequence[Mapping[str, Any]]
) -> Table:
    """
    Return lines with two columns before those of all dimensions.
    """
    dimensions = dict.fromkeys(d for row in rows for d in row.ranking.dimensions)
    columns = [
        Column(head, head, show=methodcaller('get', head, DASH))
        for head in ('', second, *dimensions)
    ]
    return Table(columns, lines)


if __name__ == '__main__':
    parser = ComparePairings.parser()
    parser.prog = 'python -m benchmarks.pairings'
    ComparePairings.execute(vars(parser.parse_args(sys.argv[1:])))
