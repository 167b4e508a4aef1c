"""
The card of a judge: what it is, what it reads, and how its check went; on the page and
in a terminal.

A judge that fails its check takes the headline away: no system comes first.
"""

from itertools import product
from operator import attrgetter
from statistics import median

from parlai_ext.core import GIVEN_JUDGED, grouped
from parlai_ext.files.agreement_file import measured_agreement
from parlai_ext.judge_check.perturbations import (
    AUTHORS,
    KIND_WORDS,
    PARROTS,
    VERBS,
    is_below,
)
from parlai_ext.judge_check.record import (
    FAIL,
    PASS,
    UNTESTED,
    WEAK,
    DimensionCheck,
    JudgeCheck,
    KindResult,
)
from parlai_ext.report.view import Doubts, RankingView
from parlai_ext.results.ranking import CardModel, JudgeCard, Ranking
from parlai_ext.view import (
    Cell,
    Column,
    Table,
    join_names,
    number,
    number_column,
    without_folders,
)
from parlai_ext.view.page import Section, terminal_lines

# settings of a signature whose names need words
READS = {
    'text_truncate': 'at most {} tokens of context',
    'cut': 'cut at the {}',
    'label_truncate': 'at most {} tokens of what is scored',
    'dtype': '{}',
}
UNCHECKED = 'unchecked'
NOT_RECORDED = 'not recorded'
LEVELS = {'turn': 'over turns', 'dialogue': 'over dialogues', 'system': 'over systems'}
MANY = ((1e9, 'billion'), (1e6, 'million'), (1e3, 'thousand'))


def outcome_on(ranking: Ranking, dimension: str) -> str:
    """
    Return ``pass``, ``weak``, ``fail`` or ``unchecked``.
    """
    check = ranking.check_on(dimension)
    return UNCHECKED if check is None else check.outcome


def failure_on(ranking: Ranking, dimension: str) -> str | None:
    """
    Return what stands above the leaderboard of a dimension on which the judge failed,
    and in place of "… comes first".
    """
    check = ranking.check_on(dimension)
    if check is None or not check.failed:
        return None
    does = check.reasons[0].removeprefix('it ')
    return f'This judge {does}; the order below says little about quality.'


def terminal_card(ranking: Ranking, doubts: Doubts) -> list[str]:
    """
    Return the card for a terminal, some lines.

    :param doubts: what the audit says against the ranking.
    """
    return terminal_lines(
        'judge',
        ranking=ranking,
        doubt=doubts.get(ranking.leading_dimension),
        shares={
            f'how often {AUTHORS[source]} score above': [
                f'{_label(kind, kind.kind.replace("_", " "))} {number(kind.share)}'
                for kind in kinds
            ]
            for source, kinds in _tested(ranking.leading_check).items()
        },
        others=grouped((outcome_on(ranking, n), n) for n in ranking.dimensions[1:]),
        agreement=agreement_with_people(ranking),
        judge_text=judge_text,
        reads_text=reads_text,
    )


def judge_text(card: JudgeCard) -> str:
    """
    Return the scorer and its models with their sizes in one line.
    """
    if not card.models:
        return f'{card.scorer}, without a model'
    models = []
    for model in card.models:
        commit = '' if model.commit is None else f', commit {model.commit[:10]}'
        models.append(f'{model_text(model)} ({size_text(model)}{commit})')
    return f'{card.scorer} with {join_names(models)}'


def model_text(model: CardModel) -> str:
    """
    Return a model's name, folders of this machine left out.
    """
    return f'a {model.kind} model' if not model.name else without_folders(model.name)


def size_text(model: CardModel) -> str:
    """
    Return how many parameters a model has.

    >>> size_text(CardModel('likelihood', 'm', 134_515_008, {}))
    '135 million parameters'
    """
    n = model.num_parameters
    if n is None:
        return f'size {NOT_RECORDED}'
    for unit, word in MANY:
        if n >= unit:
            return f'{n / unit:.3g} {word} parameters'
    return f'{n} parameters'


def reads_text(model: CardModel) -> str:
    """
    Return what a model reads, as its signature says it.
    """
    return ', '.join(
        READS.get(key, f'{key.replace("_", " ")} {{}}').format(value)
        for key, value in model.reads.items()
    )


def agreement_with_people(ranking: Ranking) -> str:
    """
    Return how well the judge agrees with people: in this run, and on judged sets, as
    far as either was measured.
    """
    texts = []
    dimension = ranking.leading_dimension
    agreement = ranking.reference.get(dimension)
    if agreement and agreement.kind == 'human':
        name = ranking.leading_coefficient(dimension)
        value = getattr(agreement, name).value
        if value is not None:
            over = f'over the {agreement.n} systems of this run'
            texts.append(f'{name.capitalize()} {number(value)} {over}')
    if on_sets := agreement_on_sets(ranking.scorer_signature):
        texts.append(on_sets)
    return '; '.join(texts) or 'not measured for this judge'


def agreement_on_sets(signature: str) -> str | None:
    """
    Return how well a scorer of exactly this signature agreed with people on judged
    sets, those left out on which it was fitted; `None` where that is not known.
    """
    rows = measured_agreement(signature.removesuffix(GIVEN_JUDGED))
    known = grouped(
        ((row.dimension, row.level), row.spearman) for row in rows if not row.fitted
    )
    texts = []
    dimensions = dict.fromkeys(row.dimension for row in rows)
    for dimension, (level, what) in product(dimensions, LEVELS.items()):
        values = sorted(known.get((dimension, level), ()))
        if not values:
            continue
        span, sets = number(values[0]), '1 set'
        if len(values) > 1:
            span += f' to {number(values[-1])}, median {number(median(values))}'
            sets = f'{len(values)} sets'
        name = '' if dimension is None else f'{dimension} '
        texts.append(f'{name}{what}: {span} ({sets})')
    if not texts:
        return None
    return f'Spearman on judged sets, {"; ".join(texts)}: docs/validity.md'


def _tested(check: DimensionCheck | None) -> dict[str, list[KindResult]]:
    """
    Return what was tried on the originals of each author: at the end all parrots
    together, and of the single kinds of parrots the one above which they score least.
    """
    by_author = grouped(
        (kind.source, kind)
        for kind in (check.kinds if check else ())
        if kind.outcome != UNTESTED
    )
    tested = {}
    for author, kinds in by_author.items():
        parrots = [kind for kind in kinds if kind.kind in PARROTS]
        others = [kind for kind in kinds if kind.kind not in PARROTS]
        tested[author] = others + sorted(parrots, key=attrgetter('share'))[:1]
    return tested


def _words(kind: KindResult) -> str:
    """
    Return what a copy of a kind is, which older checks may call otherwise.
    """
    return KIND_WORDS.get(kind.kind, kind.kind.replace('_', ' '))


def _label(kind: KindResult, name: str) -> str:
    """
    Return the name of a kind that was tried, with what a single parrot is there for.
    """
    return f'of these least: {name}' if kind.kind in PARROTS else name


# -------------------------------------------------------------------- on the page


def judge_section(view: RankingView) -> Section:
    """
    Return the section about the judge.

    A doubt stands in the place of the outcome of a check that did not fail.
    """
    ranking = view.ranking
    doubt = view.doubts.get(ranking.leading_dimension)
    card = ranking.judge
    models = card.models if card else ()
    outcome = outcome_on(ranking, ranking.leading_dimension)
    data = {
        'outcome': doubt.words if doubt and outcome != FAIL else outcome,
        'rows': [
            *([('Audit', doubt.sentence)] if doubt else []),
            ('Judge', judge_text(card) if card else NOT_RECORDED),
            *(('Reads', reads_text(model)) for model in models if model.reads),
            ('Agreement with people', agreement_with_people(ranking)),
            ('Speed', view.speed or NOT_RECORDED),
        ],
        'bars': {
            f'{AUTHORS[source]} {VERBS[source]}': [
                (kind, _label(kind, _words(kind))) for kind in kinds
            ]
            for source, kinds in _tested(ranking.leading_check).items()
        },
        'check': ranking.judge_check,
        # a rating and its only dimension have one check
        'checks': {
            one.dimension: (one, Table(KIND_COLUMNS, one.kinds))
            for name in ranking.dimensions
            if (one := ranking.check_on(name))
        },
    }
    return Section('judge', 'Judge', data)


def _share_cell(kind: KindResult) -> Cell:
    ends = () if kind.low is None else (f'[{number(kind.low)}, {number(kind.high)}]',)
    return Cell(number(kind.share), (*ends, f'{kind.n} pairs'))


def _outcome_cell(kind: KindResult) -> Cell:
    style = {PASS: 'good', UNTESTED: ''}.get(kind.outcome, 'warn')
    below = () if kind.required else ('not required',)
    if kind.required and kind.outcome == WEAK and is_below(kind):
        below = ('one parrot of many: counts at 0.50 or less',)
    return Cell('', below, ((kind.outcome, style),))


KIND_COLUMNS = (
    Column(
        'kind',
        'Copy',
        show=_words,
    ),
    Column('source', 'Original by'),
    number_column('share', 'Original above', show=_share_cell),
    Column('outcome', 'Result', show=_outcome_cell),
)


def check_lines(check: JudgeCheck) -> list[str]:
    """
    Return the outcomes as lines of text, one for each dimension that does not pass, and
    what a prompted judge does when it is asked again, or the other way round.
    """
    return terminal_lines('judge_check', check=check)
