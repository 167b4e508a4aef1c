"""
What annotators' answers about recorded answers come to, as in Zhang et al. (2021).

Pairs: how often each system won, was tied, unrelated, or lost (Table 6); each answer
about a pair counts for both of its systems, and shares are of all that was answered
about a system. Single answers: how often each label was given, and the mean label.
Both: how far annotators agree (Fleiss, Krippendorff), on how many items how many of
them agree (Table 5), and which annotators cannot be told from guessing by their control
items.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import product
from operator import attrgetter

import numpy as np

from parlai_ext.core import frozen, grouped, require_known
from parlai_ext.people.given_answers import GivenAnswer, annotator_notes
from parlai_ext.people.ranking import sparse_tables
from parlai_ext.people.rating_set import PAIR, SIDES, TIED, UNRELATED, RatingKey
from parlai_ext.ranking.agreement import (
    AnnotatorAgreement,
    fleiss_kappa,
    krippendorff_alpha,
)
from parlai_ext.ranking.intervals import (
    Sampling,
    draw_ratios,
    known_intervals,
    wilson_interval,
)
from parlai_ext.view import (
    DASH,
    Cell,
    Column,
    Table,
    interval_cell,
    number_column,
    percent,
    shown_table,
)
from parlai_ext.view.page import terminal_lines

OUTCOMES = WINS, TIES, UNRELATEDS, LOSES = ('wins', 'tied', 'unrelated', 'loses')
# what an answer about a pair says of its two systems
OUTCOMES_OF = {
    **dict(zip(SIDES, ((WINS, LOSES), (LOSES, WINS)), strict=True)),
    TIED: (TIES, TIES),
    UNRELATED: (UNRELATEDS, UNRELATEDS),
}
FLAGGED, MEAN = 'flagged', 'mean'


@frozen
class Share:
    """
    How often something was said of a system, of how many answers about it.

    :param value: the share; of `MEAN` the mean label.
    """

    system: str
    name: str
    count: float
    total: int
    value: float
    low: float | None
    high: float | None


@frozen
class AnnotatorControls:
    """
    What an annotator said of control items, and how often each answer of the others.

    :param failed: items on which the bad answer was preferred, or given the best label.
    :param decided: items with an answer for one side; of single answers all.
    :param chance: the share of failed items of one who guesses.
    :param counts: answers about other items, by name (Figure 2).
    """

    annotator: str
    num_answers: int
    failed: int
    decided: int
    chance: float
    low: float | None
    high: float | None
    counts: Counter[str]

    @property
    def fails(self) -> bool:
        """
        True if the annotator cannot be told from one who guesses, or does worse.
        """
        return self.high is not None and self.high >= self.chance


@frozen
class ItemAgreement:
    """
    What annotators said of one item.

    :param leading: the answer that most gave; `None` where two lead.
    :param votes: how many gave it.
    """

    item: str
    counts: Mapping[str, int]
    leading: str | None
    votes: int
    num_annotators: int


@frozen
class AnnotationResults:
    """
    All that is reported of an annotation set.

    :param answer_names: the answers in the order of tables.
    :param num_answers, num_annotators: that the results are of; controls do not count.
    :param annotators: all of them, also those who were left out.
    :param head_to_head: (system, opponent) -> how often each outcome was.
    """

    kind: str
    answer_names: Sequence[str]
    num_answers: int
    num_annotators: int
    annotators: Sequence[AnnotatorControls]
    shares: Sequence[Share]
    items: Sequence[ItemAgreement]
    kappa: AnnotatorAgreement
    alpha: AnnotatorAgreement
    head_to_head: Mapping[tuple[str, str], Mapping[str, int]]
    notes: Sequence[str]


def annotation_results(
    answers: Sequence[GivenAnswer],
    key: RatingKey,
    *,
    drop_failed: bool = False,
    min_agreeing: Mapping[str, int] | None = None,
    bootstraps: int,
    seed: int = 0,
) -> AnnotationResults:
    """
    Return the tables of all answers.

    :param drop_failed: leave out annotators who cannot be told from guessing.
    :param min_agreeing: count only the `agreed_items`.
    :raises UserError: for an answer that there is not.
    """
    annotators = control_table(answers, key)
    notes = []
    if drop_failed and (bad := {one.annotator for one in annotators if one.fails}):
        notes.append(f'left out by their control items: {len(bad)} of the annotators')
        answers = [answer for answer in answers if answer.annotator not in bad]
    answers = [answer for answer in answers if not key.is_control(answer.item)]
    notes += annotator_notes(answers)
    items = item_agreements(answers, key)
    if min_agreeing:
        agreed = agreed_items(items, min_agreeing, key.named_answers)
        notes.append(
            f'{len(agreed)} of {len(items)} items have enough equal answers; the '
            'others are left out'
        )
        items, names = agreed, {one.item for one in agreed}
        answers = [answer for answer in answers if answer.item in names]
    sampling = Sampling(bootstraps, seed)
    return AnnotationResults(
        key.kind,
        list(key.named_answers),
        len(answers),
        len({answer.annotator for answer in answers}),
        annotators,
        _shares(answers, key, sampling),
        items,
        *annotator_agreement(answers, key, sampling),
        head_to_head(answers, key) if key.kind == PAIR else {},
        notes,
    )


def annotator_agreement(
    answers: Sequence[GivenAnswer], key: RatingKey, sampling: Sampling
) -> tuple[AnnotatorAgreement, AnnotatorAgreement]:
    """
    Return Fleiss' kappa of the answers, for which prompts are drawn anew, and
    Krippendorff's alpha.
    """
    possible = [*key.named_answers.values()]
    given = grouped(
        (a.item, (a.annotator, float(possible.index(a.answer)))) for a in answers
    )
    by_item = {item: dict(own) for item, own in given.items()}
    prompts = {item: key.items[item][0].opener_id for item in by_item}
    return (
        fleiss_kappa(by_item, prompts, sampling),
        krippendorff_alpha(by_item, 'nominal' if key.kind == PAIR else 'ordinal'),
    )


# ----------------------------------------------------------------- systems (Table 6)


def head_to_head(
    answers: Sequence[GivenAnswer], key: RatingKey
) -> dict[tuple[str, str], Counter[str]]:
    """
    Return how often each outcome was, for each system against each other one.
    """
    table: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for answer in answers:
        one, other = (shown.system for shown in key.items[answer.item])
        its, others = OUTCOMES_OF[answer.answer]
        table[one, other][its] += 1
        table[other, one][others] += 1
    return table


def _shares(
    answers: Sequence[GivenAnswer], key: RatingKey, sampling: Sampling
) -> list[Share]:
    """
    Return what was said of each system, as shares of all answers about it. What was
    never seen to vary cannot be drawn anew: there, each prompt counts once.
    """
    if not answers:
        return []
    names = [*key.named_answers, MEAN]
    if key.kind == PAIR:
        names = [*OUTCOMES, *([FLAGGED] if key.flag else [])]
    said = [
        (shown.system, shown.opener_id, answer.annotator, worth)
        for answer in answers
        for shown, worth in zip(
            key.items[answer.item], answer_worth(answer, key), strict=True
        )
    ]
    *columns, worths = zip(*said, strict=True)
    values = ([w.get(name, 0.0) for w in worths] for name in names)
    systems, totals, *counts = sparse_tables(*columns, [1.0] * len(said), *values)
    tables = [table for of_system in zip(*counts, strict=True) for table in of_system]
    every = [total for total in totals for _ in names]
    draws = draw_ratios(tables, every, sampling)
    shares = []
    for (system, name), table, answered, n, ends in zip(
        product(systems, names),
        tables,
        every,
        draws.num_openers.tolist(),
        known_intervals(draws),
        strict=True,
    ):
        count, total = float(table.sum()), int(answered.sum())
        if name != MEAN and count in (0, total):
            ends = wilson_interval(count / total * n, n)
        shares.append(Share(system, name, count, total, count / total, *ends))
    return shares


def answer_worth(answer: GivenAnswer, key: RatingKey) -> list[dict[str, float]]:
    """
    Return, for each dialogue of the item, what an answer counts of each name.
    """
    if key.kind == PAIR:
        return [
            {outcome: 1.0, FLAGGED: float(side in (answer.flags or ()))}
            for side, outcome in zip(SIDES, OUTCOMES_OF[answer.answer], strict=True)
        ]
    (question,) = key.questions
    label = question.name(answer.answer)
    return [{label: 1.0, MEAN: question.value(answer.answer)}]


# ------------------------------------------------------------------ items (Table 5)


def item_agreements(
    answers: Sequence[GivenAnswer], key: RatingKey
) -> list[ItemAgreement]:
    """
    Return what was said of each item, in the order of the key.
    """
    (question,) = key.questions
    given = grouped((answer.item, question.name(answer.answer)) for answer in answers)
    agreements = []
    for item in key.items:
        if counts := Counter(given.get(item)):
            votes = max(counts.values())
            leading = [name for name, count in counts.items() if count == votes]
            first = leading[0] if len(leading) == 1 else None
            agreements.append(ItemAgreement(item, counts, first, votes, counts.total()))
    return agreements


def agreed_items(
    items: Sequence[ItemAgreement],
    limits: Mapping[str, int],
    answer_names: Collection[str],
) -> list[ItemAgreement]:
    """
    Return the items whose most frequent answer so many annotators gave.

    :param limits: how many by answer, and no item with another answer; '': how many
        whatever the answer.
    :raises UserError: for an answer that there is not.
    """
    for name in filter(None, limits):
        require_known(name, answer_names, f'--min-agreeing {name}: no answer')
    of_any = limits.get('', np.inf)
    return [one for one in items if one.votes >= limits.get(one.leading or '', of_any)]


# ------------------------------------------------------------- annotators (controls)


def control_table(
    answers: Sequence[GivenAnswer], key: RatingKey
) -> list[AnnotatorControls]:
    """
    Return what each annotator said of the control items.

    Of a pair only an answer for one side decides: who guesses fails half of those. Of
    single answers the best label fails: who guesses fails one of the number of labels.
    """
    pair = key.kind == PAIR
    (question,) = key.questions
    possible = key.answers_to(question)
    chance = 0.5 if pair else 1 / len(possible)
    best = '' if pair else max(possible, key=question.value)

    def is_failed(answer: GivenAnswer) -> bool:
        if not pair:
            return answer.answer == best
        preferred = key.items[answer.item][SIDES.index(answer.answer)]
        return preferred.system in key.controls

    rows = []
    by_annotator = grouped((answer.annotator, answer) for answer in answers)
    for annotator, given in sorted(by_annotator.items()):
        controls = [answer for answer in given if key.is_control(answer.item)]
        decided = [a for a in controls if not pair or a.answer in SIDES]
        failed, n = sum(map(is_failed, decided)), len(decided)
        low, high = wilson_interval(failed, n) if n else (None, None)
        others = (a.answer for a in given if not key.is_control(a.item))
        counts = Counter(map(question.name, others))
        rows.append(
            AnnotatorControls(
                annotator, len(given), failed, n, chance, low, high, counts
            )
        )
    return rows


def share_lines(results: AnnotationResults) -> list[str]:
    """
    Return the lines of all tables.
    """
    columns = [ANNOTATOR_COLUMNS[0], *_count_columns(results, shown=True)]
    # one annotator agrees with nobody
    shared = [one for one in results.items if one.num_annotators > 1]
    counts = [(one.votes, one.num_annotators) for one in shared]
    return terminal_lines(
        'shares',
        results=results,
        is_pair=results.kind == PAIR,
        shares=_share_table(results),
        votes=_vote_table(results),
        agreeing={
            'all agree': sum(votes == n for votes, n in counts),
            'more than half': sum(2 * votes > n for votes, n in counts),
            'two answers lead': sum(one.leading is None for one in shared),
        },
        num_shared=len(shared),
        annotators=Table(ANNOTATOR_COLUMNS, results.annotators),
        labels=Table(columns, results.annotators),
    )


def _count_columns(results: AnnotationResults, shown: bool = False) -> list[Column]:
    """
    Return a column for each answer, of rows that count them.
    """
    label = '' if results.kind == PAIR else 'label '

    def column(name: str) -> Column:
        heading = name if shown else None
        return number_column(label + name, heading, lambda row: row.counts.get(name, 0))

    return list(map(column, results.answer_names))


def _share_table(results: AnnotationResults) -> Table:
    """
    Return a row for each system, the best first, with a column for each answer.
    """
    by_system = grouped((share.system, share) for share in results.shares)
    names = [share.name for share in next(iter(by_system.values()), [])]
    leading = names.index(OUTCOMES[0] if results.kind == PAIR else MEAN)
    rows = sorted(by_system.values(), key=lambda s: (-s[leading].value, s[0].system))
    answers = [
        number_column(name, name, show=lambda row, k=k: _share_cell(row[k]))
        for k, name in enumerate(names)
    ]
    return Table([Column('system', '', lambda row: row[0].system), *answers], rows)


def _share_cell(share: Share) -> Cell:
    if share.name == MEAN:
        return interval_cell(share)
    ends = DASH
    if share.low is not None and share.high is not None:
        ends = f'[{100 * share.low:.0f}, {100 * share.high:.0f}]'
    return Cell(percent(share.value), (ends, f'({share.count:.0f})'))


def _vote_table(results: AnnotationResults) -> Table:
    """
    Return a row for each answer: of how many items so many annotators gave it, where it
    leads.
    """

    def row_of(answer: str | None) -> str | None:
        return 'one system' if answer in SIDES else answer

    votes = grouped((row_of(one.leading), one.votes) for one in results.items)
    most = max((one.num_annotators for one in results.items), default=0)
    numbers = range(1, most + 1)
    names = dict.fromkeys(map(row_of, results.answer_names))
    rows = [(name, *map(votes.get(name, []).count, numbers)) for name in names]
    return shown_table(['', *map(str, numbers)], rows)


def _controls_text(one: AnnotatorControls) -> str:
    if not one.decided:
        return 'none decided'
    ends = f'[{100 * (one.low or 0):.0f}, {100 * (one.high or 0):.0f}]'
    words = f'{one.failed} of {one.decided}, {percent(one.failed / one.decided)} {ends}'
    return f'{words}, as by guessing ({percent(one.chance)})' if one.fails else words


ANNOTATOR_COLUMNS = (
    Column('annotator', 'annotator'),
    number_column('answers', 'answers', attrgetter('num_answers')),
    Column('controls', 'controls failed', _controls_text, in_files=False, widest=60),
    *map(Column, ('failed', 'decided', 'low', 'high')),
    Column('fails', of=lambda row: 'yes' if row.fails else 'no'),
)


# --------------------------------------------------------------------------------- CSV


SHARE_COLUMNS = (
    Column('system'),
    Column('what', of=lambda row: _cell(row.name)),
    Column('count'),
    Column('answers', of=attrgetter('total')),
    *map(Column, ('value', 'low', 'high')),
)


def result_tables(
    results: AnnotationResults, answers: Sequence[GivenAnswer], key: RatingKey
) -> dict[str, str]:
    """
    Return the tables as CSV by the names of their files.
    """
    tables = {
        'systems.csv': Table(SHARE_COLUMNS, results.shares),
        'items.csv': _item_table(results, key),
        'annotators.csv': Table(
            [*ANNOTATOR_COLUMNS, *_count_columns(results)], results.annotators
        ),
        'answers.csv': _answer_table(answers, key),
    }
    if results.head_to_head:
        pairs = [
            (*names, *(counts.get(name, 0) for name in OUTCOMES))
            for names, counts in sorted(results.head_to_head.items())
        ]
        columns = ('system', 'opponent', *OUTCOMES)
        tables['head_to_head.csv'] = shown_table(columns, pairs)
    return {name: table.csv() for name, table in tables.items()}


def _answer_table(answers: Sequence[GivenAnswer], key: RatingKey) -> Table:
    """
    Return a row for each answer.
    """

    def systems(row: GivenAnswer) -> str:
        return ' '.join(shown.system for shown in key.items[row.item])

    columns = [
        *map(Column, ('annotator', 'item')),
        Column('answer', of=lambda row: _cell(key.questions[0].name(row.answer))),
        Column('flags', of=lambda row: ' '.join(row.flags or ())),
        Column('systems', of=systems),
    ]
    return Table(columns, answers)


def _item_table(results: AnnotationResults, key: RatingKey) -> Table:
    """
    Return a row for each item: its prompt and systems, and how often each answer was
    given.
    """

    def system(k: int, name: str) -> Column:
        return Column(name, of=lambda row: key.items[row.item][k].system)

    sides = ('system_a', 'system_b') if results.kind == PAIR else ('system',)
    columns = [
        Column('item'),
        Column('prompt_id', of=lambda row: key.items[row.item][0].opener_id),
        *(system(k, side) for k, side in enumerate(sides)),
        *_count_columns(results),
        Column('leading', of=lambda row: _cell(row.leading or '')),
        Column('votes'),
    ]
    return Table(columns, results.items)


def _cell(name: str) -> str | float | None:
    """
    Return a label such as -1 as a number, which no spreadsheet takes for a formula.
    """
    try:
        return float(name)
    except ValueError:
        return name
