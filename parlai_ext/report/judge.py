"""
The card of a judge: what it is, what it reads, and how its check went; on the page and
in a terminal.

A judge that fails its check takes the headline away: no system comes first.
"""

from collections.abc import Mapping
from itertools import product
from statistics import median

from parlai_ext.core import GIVEN_JUDGED, grouped
from parlai_ext.files.agreement_file import measured_agreement
from parlai_ext.judge_check.marks import (
    ALL_PARROTS,
    AUTHORS,
    KIND_WORDS,
    VERBS,
    is_below,
)
from parlai_ext.judge_check.perturbations import PARROTS
from parlai_ext.judge_check.record import (
    FAIL,
    PASS,
    UNTESTED,
    WEAK,
    DimensionCheck,
    JudgeCheck,
    KindResult,
)
from parlai_ext.report.view import Doubt, RankingView
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


def terminal_card(ranking: Ranking, doubt: Doubt | None) -> list[str]:
    """
    Return the card for a terminal, some lines.

    :param doubt: what the audit says against the ranking.
    """
    check = ranking.leading_check
    others = ranking.dimensions[1:]
    return terminal_lines(
        'judge',
        card=ranking.judge,
        check=check,
        doubt=doubt,
        shares=_shares(check) if check else {},
        others={
            'fails': [n for n in others if outcome_on(ranking, n) == FAIL],
            'is weak': [n for n in others if outcome_on(ranking, n) == WEAK],
        },
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
    dimension = next(iter(ranking.dimensions), '')
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
    Return what was tried on the originals of each author, parrots together.
    """
    return grouped(
        (kind.source, kind)
        for kind in (check.kinds if check else ())
        if kind.outcome != UNTESTED and kind.kind not in PARROTS
    )


def _shares(check: DimensionCheck) -> Mapping[str, str]:
    """
    Return by its title, one for each author of originals, the share of each kind; of
    the parrots that of all together, and the lowest.
    """

    def text(kind: KindResult) -> str:
        share = f'{kind.kind.replace("_", " ")} {number(kind.share)}'
        if kind.kind != ALL_PARROTS:
            return share
        single = [
            one
            for one in check.kinds
            if one.kind in PARROTS and one.source == kind.source and one.n
        ]
        lowest = min(single, key=lambda one: one.share or 0.0)
        return f'{share} (lowest: {text(lowest)})'

    return {
        f'how often {AUTHORS[source]} score above': ', '.join(map(text, kinds))
        for source, kinds in _tested(check).items()
    }


# -------------------------------------------------------------------- on the page


def judge_section(view: RankingView) -> Section:
    """
    Return the section about the judge.

    A doubt stands in the place of the outcome of a check that did not fail.
    """
    ranking = view.ranking
    doubt = view.doubts.get(next(iter(ranking.dimensions), ''))
    card, check = ranking.judge, ranking.leading_check
    models = card.models if card else ()
    outcome = UNCHECKED if check is None else check.outcome
    data = {
        'outcome': doubt.tag if doubt and outcome != FAIL else outcome,
        'rows': [
            *([('Audit', doubt.sentence)] if doubt else []),
            ('Judge', judge_text(card) if card else NOT_RECORDED),
            *(('Reads', reads_text(model)) for model in models if model.reads),
            ('Agreement with people', agreement_with_people(ranking)),
            ('Speed', view.speed or NOT_RECORDED),
        ],
        'bars': {
            f'{AUTHORS[source]} {VERBS[source]}': kinds
            for source, kinds in _tested(check).items()
        },
        'check': ranking.judge_check,
        'words': KIND_WORDS,
        'checks': [
            (one, Table(KIND_COLUMNS, one.kinds))
            for name in ranking.dimensions
            if (one := ranking.check_on(name))
        ],
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
        show=lambda kind: KIND_WORDS.get(kind.kind, kind.kind.replace('_', ' ')),
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
    return terminal_lines('judge_check', check=check, probes=check.probes)
