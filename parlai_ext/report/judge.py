"""
The card of a judge: what it is, what it reads, and how its check went.

A judge that fails its check takes the headline away: no system comes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from statistics import median
from typing import TYPE_CHECKING, Any

from parlai_ext.core.display import join_names, number, percent, wrap_lines
from parlai_ext.core.signature import GIVEN_JUDGED
from parlai_ext.files.agreement_file import measured_agreement
from parlai_ext.judge_check.record import (
    FAIL,
    KIND_WORDS,
    PARROT_WORDS,
    PARROTS,
    SOURCES,
    UNTESTED,
    WEAK,
    DimensionCheck,
    KindResult,
    PromptProbes,
    headline_sentence,
)
from parlai_ext.report.recipe import without_folders
from parlai_ext.results.judge_card import CardModel, JudgeCard
from parlai_ext.results.ranking import Ranking

if TYPE_CHECKING:
    from parlai_ext.report.audit_doubt import AuditDoubt

# settings of a signature whose names need words
READS = {
    'text_truncate': 'at most {} tokens of context',
    'cut': 'cut at the {}',
    'label_truncate': 'at most {} tokens of what is scored',
    'dtype': '{}',
}
UNCHECKED = 'unchecked'
NOT_MEASURED = 'not measured for this judge'
NOT_RECORDED = 'not recorded'
LEVELS = {'turn': 'over turns', 'dialogue': 'over dialogues', 'system': 'over systems'}
MANY = ((1e9, 'billion'), (1e6, 'million'), (1e3, 'thousand'))


def outcome_on(ranking: Ranking, dimension: str) -> str:
    """
    Return ``pass``, ``weak``, ``fail`` or ``unchecked``.
    """
    if ranking.judge_check is None:
        return UNCHECKED
    check = ranking.judge_check.check_of(dimension)
    return UNCHECKED if check is None else check.outcome


def failure_sentence(check: DimensionCheck) -> str:
    """
    Return the headline in place of "… comes first".
    """
    return headline_sentence(check) or (
        f'This judge fails its check: {check.reasons[0]}; the order below says little '
        'about quality.'
    )


def failure_on(ranking: Ranking, dimension: str) -> str | None:
    """
    Return what stands above the leaderboard of a dimension on which the judge failed.
    """
    check = ranking.judge_check and ranking.judge_check.check_of(dimension)
    return failure_sentence(check) if check and check.failed else None


def doubt_sentence(check: DimensionCheck | None) -> str | None:
    """
    Return what a headline adds about a judge that is weak or was not checked.
    """
    if check is None:
        return 'The judge was not checked: whether it prefers sense is not known.'
    if check.outcome == WEAK:
        return f'The judge is weak: {check.reasons[0]}.'
    return None


def cautions(ranking: Ranking) -> list[str]:
    """
    Return more reasons to doubt the judge.
    """
    lines = []
    near = ranking.judge.nearness if ranking.judge else None
    if near is not None and near.mean < near.threshold:
        lines.append(
            'These dialogues look unlike those on which this judge was tried (nearness '
            f'{number(near.mean)}, under {number(near.threshold)}; the nearest are '
            f'those of {near.corpus}): how well it agrees with people here is not '
            'known.'
        )
    check = ranking.leading_check
    if check is not None and check.human_anchor and check.human_anchor.warning:
        lines.append(check.human_anchor.warning)
    probes = ranking.judge_check.probes if ranking.judge_check else None
    if probes is not None and probes.n_changed:
        lines.append(
            f'Asked again, the judge gave another score to {probes.n_changed} of '
            f'{probes.n_repeated} responses{_change_text(probes)}.'
        )
    if probes is not None and probes.same_model:
        systems = join_names(probes.same_model)
        lines.append(f'The judge scores its own model: {systems}.')
    if probes is not None and probes.same_family:
        systems = join_names(
            [f'{name} ({common})' for name, common in probes.same_family.items()]
        )
        lines.append(f'The judge scores models of its own family: {systems}.')
    return lines


def _change_text(probes: PromptProbes) -> str:
    """
    Return by how much a judge changes its scores when it is asked again.
    """
    if probes.mean_change is None:
        return ''
    return f', by {number(probes.mean_change)} standard deviations on average'


# ----------------------------------------------------------------------- as lines


def terminal_lines(ranking: Ranking, doubt: AuditDoubt | None = None) -> Iterator[str]:
    """
    Yield the card for a terminal, some lines.

    :param doubt: what the audit says against the ranking.
    """
    if ranking.judge is not None:
        yield from wrap_lines(f'judge: {judge_text(ranking.judge)}')
        for model in ranking.judge.models:
            if model.reads:
                yield from wrap_lines(f'it reads: {reads_text(model)}', '  ')
    check = ranking.leading_check
    if check is None:
        yield 'judge check: none was made'
    else:
        about = f'judge check on {check.dimension}: {check.outcome}'
        if doubt is not None:
            about += f', but {doubt.words}'
        yield from wrap_lines(about)
        for start, shares in _shares(check).items():
            yield from wrap_lines(f'{start}: {shares}', '  ')
    yield from wrap_lines(f'agreement with people: {agreement_with_people(ranking)}')


def judge_text(card: JudgeCard) -> str:
    """
    Return the scorer and its models with their sizes in one line.
    """
    if not card.models:
        return f'{card.scorer}, without a model'
    models = [
        f'{model_text(model)} ({size_text(model)}{commit_text(model)})'
        for model in card.models
    ]
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


def commit_text(model: CardModel) -> str:
    """
    Return ``, commit …`` of a model from a hub, else ''.
    """
    return '' if model.commit is None else f', commit {model.commit[:10]}'


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
    texts = (agreement_in_run(ranking), agreement_on_sets(ranking.scorer_signature))
    return '; '.join(text for text in texts if text) or NOT_MEASURED


def agreement_in_run(ranking: Ranking) -> str | None:
    """
    Return how well the judge agrees with the run's human scores; `None` without any.
    """
    if not ranking.dimensions:
        return None
    agreement = ranking.reference.get(ranking.dimensions[0])
    if agreement is None or agreement.kind != 'human':
        return None
    name = ranking.leading_coefficient(ranking.dimensions[0])
    value = getattr(agreement, name).value
    if value is None:
        return None
    over = f'over the {agreement.n} systems of this run'
    return f'{name.capitalize()} {number(value)} {over}'


def agreement_on_sets(signature: str) -> str | None:
    """
    Return how well a scorer of exactly this signature agreed with people on judged
    sets, those left out on which it was fitted; `None` where that is not known.
    """
    rows = measured_agreement(signature.removesuffix(GIVEN_JUDGED))
    texts = []
    dimensions = dict.fromkeys(row.dimension for row in rows)
    for dimension, (level, what) in product(dimensions, LEVELS.items()):
        values = sorted(
            row.spearman
            for row in rows
            if (row.dimension, row.level) == (dimension, level) and not row.fitted
        )
        if values:
            span = number(values[0])
            if len(values) > 1:
                span = (
                    f'{span} to {number(values[-1])}, median {number(median(values))}'
                )
            sets = f'{len(values)} set' + ('s' if len(values) > 1 else '')
            name = '' if dimension is None else f'{dimension} '
            texts.append(f'{name}{what}: {span} ({sets})')
    if not texts:
        return None
    return f'Spearman on judged sets, {"; ".join(texts)}: docs/validity.md'


def _shares(check: DimensionCheck | None) -> Mapping[str, str]:
    """
    Return by its title, one for each author of originals, the share of each kind; of
    the parrots that of all together, and the lowest.
    """
    shares: dict[str, list[str]] = {}
    kinds = check.kinds if check else ()
    for kind in kinds:
        if kind.outcome != UNTESTED and kind.kind not in PARROT_WORDS:
            text = f'{kind.kind.replace("_", " ")} {number(kind.share)}'
            if kind.kind == PARROTS:
                text += _lowest_parrot(kinds, kind.source)
            title = f'how often {SOURCES[kind.source]} score above'
            shares.setdefault(title, []).append(text)
    return {title: ', '.join(own) for title, own in shares.items()}


def _lowest_parrot(kinds: Sequence[KindResult], source: str) -> str:
    own = [k for k in kinds if k.kind in PARROT_WORDS and k.source == source and k.n]
    lowest = min(own, key=lambda kind: kind.share or 0.0)
    return f' (lowest: {lowest.kind.replace("_", " ")} {number(lowest.share)})'


def kind_text(kind: KindResult) -> str:
    """
    Return what the perturbed copies of a kind are.
    """
    return KIND_WORDS.get(kind.kind, kind.kind.replace('_', ' '))


# -------------------------------------------------------------------- on the page


def page_data(
    ranking: Ranking, speed: str | None, doubt: AuditDoubt | None = None
) -> dict[str, Any]:
    """
    Return what the page shows of the judge.

    :param speed: how fast it scored, in words, where that is known.
    :param doubt: what the audit says against the ranking; then it stands in the place
        of the outcome of a check that did not fail.
    """
    card, check = ranking.judge, ranking.leading_check
    models = card.models if card else ()
    outcome = UNCHECKED if check is None else check.outcome
    return {
        'outcome': doubt.tag if doubt and outcome != FAIL else outcome,
        'rows': [
            *([('Audit', doubt.sentence)] if doubt else []),
            ('Judge', judge_text(card) if card else NOT_RECORDED),
            *(('Reads', reads_text(model)) for model in models if model.reads),
            *((title.capitalize(), s) for title, s in _shares(check).items()),
            ('Agreement with people', agreement_with_people(ranking)),
            ('Speed', speed or NOT_RECORDED),
        ],
        'sample': _sample_text(ranking),
        'checks': [
            {
                'dimension': one.dimension,
                'outcome': one.outcome,
                'reasons': one.reasons,
                'kinds': [_kind_row(kind) for kind in one.kinds],
                'facts': _bias_texts(one),
            }
            for one in _checks(ranking)
        ],
        'notes': ranking.judge_check.notes if ranking.judge_check else (),
    }


def _checks(ranking: Ranking) -> Sequence[DimensionCheck]:
    """
    Return the checks of all dimensions, in the order of the leaderboards.
    """
    if ranking.judge_check is None:
        return []
    checks = [ranking.judge_check.check_of(d) for d in ranking.dimensions]
    return [check for check in checks if check is not None]


def _sample_text(ranking: Ranking) -> str | None:
    check = ranking.judge_check
    if check is None:
        return None
    parts = [f'{check.n_responses} of the run’s responses']
    if check.n_people:
        parts.append(f'{check.n_people} replies of people')
    cost = f'{check.n_scored} more scorings, {percent(check.cost)} of those of the run'
    return f'Perturbed copies of {join_names(parts)} ({cost}).'


def _kind_row(kind: KindResult) -> dict[str, Any]:
    return {
        'perturbed': kind_text(kind),
        'source': kind.source,
        'share': number(kind.share),
        'interval': None
        if kind.low is None
        else f'[{number(kind.low)}, {number(kind.high)}]',
        'n': kind.n,
        'required': kind.required,
        'outcome': kind.outcome,
    }


def _bias_texts(check: DimensionCheck) -> list[str]:
    """
    Return what scores go with, and how people's replies score, as sentences.
    """
    lines = []
    if check.human_anchor is not None:
        anchor = check.human_anchor
        lines.append(
            f'To the same {anchor.n} contexts people’s replies score '
            f'{number(anchor.people_mean)}, the systems’ {number(anchor.systems_mean)}.'
        )
    biases = check.biases
    if biases is None:
        return lines
    known = (
        ('the number of words', biases.length),
        ('the overlap with the partner’s last turns', biases.overlap),
        ('the place in the dialogue', biases.position),
    )
    spearman = [f'{number(v)} with {what}' for what, v in known if v is not None]
    if spearman:
        lines.append(f'Spearman of its scores: {join_names(spearman)}.')
    shares = (
        ('systems', biases.system_share),
        ('partners', biases.partner_share),
        ('openers', biases.opener_share),
    )
    parts = [f'{percent(v)} between {what}' for what, v in shares if v is not None]
    if parts:
        lines.append(f'Of the variance of its scores lies {join_names(parts)}.')
    return lines
