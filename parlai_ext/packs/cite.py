"""
What a paper says of a published run: a citation, the numbers with their intervals and
what they rest on.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote

from parlai_ext.core import frozen, optional, require_known
from parlai_ext.judge_check.section import UNCHECKED, outcome_on
from parlai_ext.packs.pack import Pack
from parlai_ext.ranking.standings import Standing, best_first
from parlai_ext.results.rank import rank_by_own_rule
from parlai_ext.results.ranking import Ranking
from parlai_ext.view import number

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


@frozen
class Citation:
    """
    A citation of a pack, as lines: facts, rows of a LaTeX table, a BibTeX entry.
    """

    facts: tuple[str, ...]
    latex: tuple[str, ...]
    bibtex: tuple[str, ...]


def cite_pack(pack: Pack, options: CiteOptions) -> list[Citation]:
    """
    Return a citation for each scorer of a pack. All numbers are made again from its
    scores.

    :raises UserError: for a system or a dimension that it does not have.
    """
    citations = []
    for signature in pack.index.scores.values():
        ranking = rank_by_own_rule(pack.run, signature)
        dimension = options.dimension or ranking.dimensions[0]
        problem = f'--dimension {dimension!r}: no scores'
        require_known(dimension, ranking.dimensions, problem)
        rows = best_first(ranking.standings[dimension])
        if options.system is not None:
            problem = f'--system {options.system!r}: no target of the pack'
            require_known(options.system, [row.system for row in rows], problem)
            rows = [row for row in rows if row.system == options.system]
        # unlike all other numbers of a citation, the counts of a judge check cannot be
        # made again from the scores
        outcome = outcome_on(ranking, dimension)
        if outcome != UNCHECKED:
            outcome += ' (self-reported)'
        citations.append(
            Citation(
                (
                    *_facts(pack, ranking.signature, f'{outcome} on {dimension}'),
                    f'intervals     {_scope(ranking, rows)}',
                    *(_fact(row) for row in rows),
                ),
                tuple(_latex(dimension, rows)),
                tuple(_bibtex(pack, outcome, options)),
            )
        )
    return citations


def _facts(pack: Pack, signature: str, outcome: str) -> list[str]:
    """
    Return what the numbers rest on, as lines.
    """

    def listed(values: Mapping[str, str]) -> str:
        return ', '.join(f'{name} {value}' for name, value in values.items())

    index, protocol = pack.index, pack.run.plan.protocol
    openers = 'unknown, since the dialogues were imported'
    if pack.run.manifest.scheme.is_played:
        openers = (
            f'{index.openers.n} of {index.openers.source}, hash {index.openers.hash}; '
            f'{protocol.num_turns} utterances a dialogue'
        )
    return [
        f'pack          {index.protocol}, id {pack.id}',
        f'signature     {signature}',
        f'partners      lock {index.partner_lock}: {listed(index.partners)}',
        f'openers       {openers}',
        f'judge check   {outcome}',
        f'environment   {listed(index.environment)}',
    ]


def _scope(ranking: Ranking, rows: Sequence[Standing]) -> str:
    """
    Return what the intervals of these rows are about, and what they assume.
    """
    if rows[0].dimension == ranking.rated_dimension:
        return '1.96 standard deviations of the rating, where it has one'
    is_wide = any(row.low is not None for row in rows)
    scope = f'95 %, for {"partners like these" if is_wide else "these partners only"}'
    if ranking.stopping:
        scope += ', as if the number of openers had been fixed beforehand'
    return scope


def _fact(row: Standing) -> str:
    rank = 'not ranked' if row.rank is None else f'rank {row.open_ranks()}'
    unscored = f' ({row.n_unscored} without a score)' if row.n_unscored else ''
    return (
        f'{row.dimension}       {row.system}: {number(row.score, 3)} '
        f'{row.interval(3)}, {rank}, n = {row.n_dialogues}{unscored}'
    )


def _latex(dimension: str, rows: Sequence[Standing]) -> Iterator[str]:
    """
    Yield rows of a LaTeX table: system, score, 95 % interval, rank, dialogues.
    """
    head = ('System', dimension, '95 % interval', 'Rank', 'n')
    yield ' & '.join(map(latex_text, head)) + r' \\'
    for row in rows:
        cells = (row.system, number(row.score, 3), row.interval(3), row.open_ranks())
        shown = [*map(latex_text, cells), str(row.n_dialogues)]
        yield ' & '.join(shown) + r' \\'


def latex_text(text: str) -> str:
    """
    Return a text in which LaTeX sees no command.

    >>> latex_text('50% of a_b')
    '50\\\\% of a\\\\_b'
    """
    printable = ''.join(c if c.isprintable() else ' ' for c in text)
    return ''.join(ESCAPES.get(char, char) for char in printable)


def _bibtex(pack: Pack, outcome: str, options: CiteOptions) -> list[str]:
    """
    Return a BibTeX entry; fields that nobody gave are left out.
    """
    index = pack.index
    key = re.sub('[^A-Za-z0-9]+', '-', index.protocol).strip('-') or 'pack'
    version = index.environment.get('parlai_ext', '?')
    note = (
        f'parlai_ext {version}, pack {pack.id[:16]}, partners {index.partner_lock}, '
        f'openers {index.openers.hash}, judge check: {outcome}'
    )
    # without what may not stand in \\url{…}; it may be encoded already
    url = options.url and quote(options.url, safe="%/:=&?~#+!$,;'@()*[]")
    fields = {
        'author': options.author,
        'title': f'{{{latex_text(f"Results of {index.protocol}")}}}',
        'year': options.year and str(options.year),
        'howpublished': url and f'\\url{{{url}}}',
        'note': latex_text(note),
    }
    lines = [
        f'  {name} = {{{latex_text(value) if name in ("author", "year") else value}}},'
        for name, value in fields.items()
        if value
    ]
    return [f'@misc{{{key}-{pack.id[:8]},', *lines, '}']
