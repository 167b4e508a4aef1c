"""
Cite a published run: what a paper has to say of it, the numbers with their intervals
and what they rest on.
"""

import re
from urllib.parse import quote

from parlai_ext.commands.command import Command, print_lines
from parlai_ext.commands.verify_run import PackOptions
from parlai_ext.core import frozen, optional, require_known
from parlai_ext.packs.pack import Pack
from parlai_ext.packs.verify import open_right_pack
from parlai_ext.ranking.standings import best_first
from parlai_ext.report.judge import UNCHECKED, outcome_on
from parlai_ext.results.ranking import Ranking, rank_by_own_rule
from parlai_ext.view.page import terminal_lines

ESCAPES = {
    '\\': r'\textbackslash{}',
    '~': r'\textasciitilde{}',
    '^': r'\textasciicircum{}',
    '<': r'\textless{}',
    '>': r'\textgreater{}',
    '|': r'\textbar{}',
    '–': '--',
    '−': '$-$',
    **{char: f'\\{char}' for char in '&%$#_{}'},
}


@frozen
class CiteOptions:
    """
    What a citation is about, and what a pack does not know.
    """

    system: str | None = optional(
        metavar='NAME', help='only this system (default: all)'
    )
    dimension: str | None = optional(
        metavar='NAME', help='of the scores (default: the first)'
    )
    author: str | None = optional(metavar='TEXT', help='for the BibTeX entry')
    year: int | None = optional(metavar='YEAR', help='for the BibTeX entry')
    url: str | None = optional(metavar='URL', help='where the pack can be had')


def latex_text(text: str) -> str:
    """
    Return a text in which LaTeX sees no command.

    >>> latex_text('50% of a_b')
    '50\\\\% of a\\\\_b'
    """
    printable = ''.join(c if c.isprintable() else ' ' for c in text)
    return ''.join(ESCAPES.get(char, char) for char in printable)


class CiteRun(Command):
    """
    Print the signature, the partners' lock, the numbers, BibTeX and LaTeX of a pack.
    """

    usage = 'PACK [--system NAME] [--url URL] [option …]'
    declares = (PackOptions, CiteOptions)

    def run(self) -> object:
        """
        Print and return a citation for each scorer of the pack, as lines: facts, rows
        of a LaTeX table, a BibTeX entry. All numbers are made again from its scores.

        :raises UserError: for a system or a dimension that it does not have.
        """
        options = self.options(CiteOptions)
        with open_right_pack(self.opt['pack']) as pack:
            rankings = [rank_by_own_rule(pack.run, one) for one in pack.signatures]
        citations = [citation_lines(pack, ranking, options) for ranking in rankings]
        for lines in citations:
            print_lines([*lines, ''])
        return citations


def citation_lines(pack: Pack, ranking: Ranking, options: CiteOptions) -> list[str]:
    """
    Return the citation of a pack by one of its rankings.
    """
    dimension = options.dimension or ranking.dimensions[0]
    problem = f'--dimension {dimension!r}: no scores'
    require_known(dimension, ranking.dimensions, problem)
    rows = best_first(ranking.standings[dimension])
    if options.system is not None:
        problem = f'--system {options.system!r}: no target of the pack'
        require_known(options.system, [row.system for row in rows], problem)
        rows = [row for row in rows if row.system == options.system]
    # unlike all other numbers of a citation, the counts of a judge check cannot be made
    # again from the scores
    outcome = outcome_on(ranking, dimension)
    if outcome != UNCHECKED:
        outcome += ' (self-reported)'
    name = re.sub('[^A-Za-z0-9]+', '-', pack.manifest.protocol.name).strip('-')
    return terminal_lines(
        'citation',
        pack=pack,
        ranking=ranking,
        dimension=dimension,
        rows=rows,
        outcome=outcome,
        options=options,
        # without what may not stand in \\url{…}; it may be encoded already
        url=options.url and quote(options.url, safe="%/:=&?~#+!$,;'@()*[]"),
        key=name or 'pack',
        latex=latex_text,
    )
