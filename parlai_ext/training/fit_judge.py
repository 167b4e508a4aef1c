"""
Fit the learned judge to one's own annotations, starting from the shipped one.

The fitted judge is the judge before, times a factor, plus a ridge regression of what it
leaves of the labels. How strongly the weights are held is chosen by cross-validation;
where nothing helps, the judge stays as it was. What the annotations are worth is read
by an outer cross-validation, whose parts hold whole contexts or dialogues.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import yaml

from parlai_ext.core import (
    Dialogue,
    HumanJudgement,
    UserError,
    bytes_hash,
    chunks,
    content_id,
    frozen,
    grouped,
    require_known,
)
from parlai_ext.data.judged import JudgedSet, dialogue_numbers
from parlai_ext.files import read_file
from parlai_ext.models.handle import ModelHandle
from parlai_ext.ranking.agreement import weighted_spearman
from parlai_ext.ranking.intervals import Estimate, draw_groups, percentile_ends
from parlai_ext.scoring.base import ScoringItem, turn_items
from parlai_ext.scoring.learned import (
    ADAPTER,
    CARD,
    NUMBERS,
    WEIGHTS,
    BlockWeights,
    JudgeWeights,
    LearnedOptions,
    read_responses,
    stacked_inputs,
    weight_bytes,
)
from parlai_ext.store import write_file, write_text
from parlai_ext.view.progress import bar_of

Inputs = Mapping[str, np.ndarray]  # by kind, [responses, inputs]
FOLDS = 5
PULLS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # towards the judge before
RESAMPLES = 1000
TURNS = 6  # of an annotated dialogue, which stand for it
# numbers of the judge that stand for trivial scorers
TRIVIAL = {'length': 'words', 'distinct words': 'distinct_words', 'overlap': 'in_last'}


@frozen
class Annotated:
    """
    Something that people gave a number: one response, or responses of one dialogue.

    :param group: what leaves a fit together: a dialogue, or contexts that continue each
        other.
    """

    items: tuple[ScoringItem, ...]
    value: float
    group: str


def annotated_set(judged: JudgedSet, quality: str | None) -> list[Annotated]:
    """
    Return what was annotated in a judged set.

    :param quality: default: the one that judges an item as a whole, or the only one.
    :raises UserError: when there is no such quality, or several to choose from.
    """
    if quality is None:
        quality = judged.overall
        if quality is None and len(judged.qualities) == 1:
            [quality] = judged.qualities
    if quality not in judged.qualities:
        known = ', '.join(judged.qualities)
        raise UserError(f'--quality: one of the qualities is needed: {known}')
    dialogues = dialogue_numbers([i.context or i.utterances for i in judged.items])
    return [
        Annotated(
            tuple(
                ScoringItem(turn.context, turn.response, turn.system)
                for turn in item.turns(TURNS)
                if turn.response and turn.response.strip()
            ),
            value,
            item.dialogue or str(number),
        )
        for item, number in zip(judged.items, dialogues, strict=True)
        if (value := item.human(quality)) is not None
    ]


def annotated_run(
    dialogues: Sequence[Dialogue], human: Sequence[HumanJudgement], dimension: str
) -> list[Annotated]:
    """
    Return what was annotated of a run's dialogues; several annotators' numbers become
    their mean.

    :raises UserError: when nobody judged this dimension, or no dialogue of the run.
    """
    values = grouped(
        ((one.dialogue_id, one.system, one.utterance_index), one.value)
        for one in human
        if one.dialogue_id is not None and one.dimension == dimension
    )
    known = {one.dimension for one in human}
    require_known(dimension, known, f'--quality: nobody judged {dimension!r}')
    by_id = {dialogue.id: dialogue for dialogue in dialogues}
    ids = [id for id, _, _ in values]
    if ids and not by_id.keys() & ids:
        problem = f'--human-scores: dialogue_id: no {ids[0]!r} is in the run'
        require_known(ids[0], by_id, problem)
    annotated = []
    for (id, system, index), numbers in values.items():
        if id not in by_id:
            continue
        places = [
            place
            for place, utterance in enumerate(by_id[id].utterances)
            if utterance.speaker == system
            and not utterance.given
            and index in (None, place)
        ]
        items = tuple(turn_items(by_id[id], places))
        annotated.append(Annotated(items, float(np.mean(numbers)), id))
    return annotated


@frozen
class AnnotatedTable:
    """
    What was annotated, in rows: the scaled inputs and the score before (means over the
    responses of each), the labels and the groups.
    """

    rows: np.ndarray
    before: np.ndarray
    labels: np.ndarray
    groups: Sequence[str]
    trivial: Mapping[str, np.ndarray]

    def part(self, places: np.ndarray) -> 'AnnotatedTable':
        """
        Return some of the rows, to fit or to score.
        """
        return AnnotatedTable(
            self.rows[places],
            self.before[places],
            self.labels[places],
            [self.groups[place] for place in places],
            {},
        )


def annotated_table(
    annotated: Sequence[Annotated], inputs: Inputs, judge: JudgeWeights
) -> AnnotatedTable:
    """
    Return the table of what was annotated.

    :param inputs: of all responses, in the order of ``annotated``.
    """
    scaled = [
        block.scaled(inputs[name]) / np.sqrt(len(block.mean))
        for name, block in judge.blocks.items()
    ]
    scores = judge.parts(inputs).sum(1)
    counts = [len(one.items) for one in annotated]
    starts = np.cumsum([0, *counts[:-1]])

    def means(column: np.ndarray) -> np.ndarray:
        return (np.add.reduceat(column, starts).T / counts).T

    return AnnotatedTable(
        means(np.concatenate(scaled, axis=1)),
        means(scores),
        rank_labels(np.array([one.value for one in annotated])),
        [one.group for one in annotated],
        {
            label: means(inputs['numbers'][:, NUMBERS.index(name)])
            for label, name in TRIVIAL.items()
        },
    )


@frozen
class Rest:
    """
    What a fit adds: the factor of the scores before, weights of the scaled inputs, and
    a constant.
    """

    factor: float
    added: np.ndarray
    bias: float

    def scores(self, table: AnnotatedTable) -> np.ndarray:
        """
        Return the new score of each row.
        """
        kept = self.bias + self.factor * table.before
        return np.asarray(kept + table.rows @ self.added)


def rank_labels(values: np.ndarray) -> np.ndarray:
    """
    Return ranks of numbers with mean 0 and standard deviation 1; `nan` stays.
    """
    labels = scipy.stats.zscore(
        scipy.stats.rankdata(values, nan_policy='omit'), nan_policy='omit'
    )
    # equal values have no spread
    labels[np.isnan(labels) & ~np.isnan(values)] = 0.0
    return labels


def fit(table: AnnotatedTable, seed: int = 0) -> Rest:
    """
    Return what is fitted to these rows. How strongly the weights are held is chosen by
    cross-validation over groups among them; nothing is added where that does not lower
    the squared error by more than its standard error.
    """
    errors = {pull: np.zeros(len(table.labels)) for pull in (None, *PULLS)}
    for train, test in grouped_folds(table.groups, seed):
        known, held_out = table.part(train), table.part(test)
        for pull in errors:
            guess = ridge_of_rest(known, pull).scores(held_out)
            errors[pull][test] = (held_out.labels - guess) ** 2
    best = min(errors, key=lambda pull: float(errors[pull].mean()))
    gain = errors[None] - errors[best]
    if gain.mean() <= gain.std() / np.sqrt(len(gain)):
        best = None
    return ridge_of_rest(table, best)


def ridge_of_rest(table: AnnotatedTable, pull: float | None) -> Rest:
    """
    Return the factor of the judge before, by least squares, and a ridge regression of
    what that leaves of the labels.
    """
    labels = table.labels
    centred = table.before - table.before.mean()
    variance = float(centred @ centred)
    # a judge that is against the annotators is not turned round
    factor = max(0.0, float(centred @ labels) / variance) if variance else 0.0
    mean_rows = table.rows.mean(0)
    added = np.zeros(len(mean_rows))
    if pull is None:
        factor = factor or 1.0
    else:
        rest = labels - labels.mean() - factor * centred
        rows = table.rows - mean_rows
        kernel = rows @ rows.T + pull * np.eye(len(rows))
        added = np.asarray(rows.T @ np.linalg.solve(kernel, rest))
    bias = labels.mean() - factor * table.before.mean() - mean_rows @ added
    return Rest(factor, added, float(bias))


def grouped_folds(
    groups: Sequence[str], seed: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """
    Yield for each fold the places of the other rows, and of its own; those of a group
    are together.
    """
    names = sorted(set(groups))
    order = np.random.default_rng(seed).permutation(len(names))
    fold_of = {names[k]: i % FOLDS for i, k in enumerate(order)}
    folds = np.array([fold_of[group] for group in groups])
    for k in range(min(FOLDS, len(names))):
        yield np.flatnonzero(folds != k), np.flatnonzero(folds == k)


def fitted_weights(judge: JudgeWeights, rest: Rest, fitted_on: str) -> JudgeWeights:
    """
    Return the judge with what was fitted.

    :param fitted_on: the judged set, on which its agreement proves nothing now.
    """
    blocks, first = {}, 0
    for name, block in judge.blocks.items():
        size = len(block.mean)
        more = rest.added[first : first + size] / np.sqrt(size)
        first += size
        weight = rest.factor * block.weight + more
        blocks[name] = BlockWeights(block.mean, block.scale, weight)
    sets = tuple(dict.fromkeys((*judge.fitted_on, fitted_on)))
    return replace(judge, blocks=blocks, bias=rest.bias, fitted_on=sets, content='')


@frozen
class FitReport:
    """
    What a fit is worth, by cross-validation: Spearman with the annotators, with 95 %
    intervals over groups.

    :param gain: the fitted judge's agreement minus that of the judge before.
    :param trivial: by trivial scorer.
    :param unbeaten: trivial scorers that agree, perhaps turned round, so well that the
        fitted judge is not better beyond chance.
    """

    num_annotated: int
    num_groups: int
    before: Estimate
    fitted: Estimate
    gain: Estimate
    trivial: Mapping[str, Estimate]
    unbeaten: tuple[str, ...]

    @property
    def helps(self) -> bool:
        """
        True if the fitted judge is better beyond chance.
        """
        return self.gain.is_beyond(-2, 0)


def fit_report(table: AnnotatedTable) -> FitReport:
    """
    Return what a fit to these annotations is worth on annotations that it has not seen.
    """
    fitted = np.zeros(len(table.labels))
    for train, test in grouped_folds(table.groups, 0):
        known = table.part(train)
        # the mean of the others' labels is lower where those of the test are higher
        fitted[test] = fit(known, 1).scores(table.part(test)) - known.labels.mean()
    columns = {'before': table.before, 'fitted': fitted, **table.trivial}
    weights = np.concatenate(
        [
            np.ones((1, len(fitted))),
            *draw_groups(table.groups, RESAMPLES, np.random.default_rng(0)),
        ]
    )
    # of the annotations themselves, then of each resample of whole groups
    drawn = {
        name: weighted_spearman(one, table.labels, weights)
        for name, one in columns.items()
    }
    worth = {name: _worth(own) for name, own in drawn.items()}
    unbeaten = []
    for name in table.trivial:
        ahead = _worth(drawn['fitted'] - np.sign(drawn[name][0]) * drawn[name])
        if ahead.low is not None and ahead.low <= 0:
            unbeaten.append(name)
    return FitReport(
        len(table.labels),
        len(set(table.groups)),
        worth['before'],
        worth['fitted'],
        _worth(drawn['fitted'] - drawn['before']),
        {name: worth[name] for name in table.trivial},
        tuple(unbeaten),
    )


def _worth(values: np.ndarray) -> Estimate:
    """
    Return the first of some values with the interval of the others; NaN is none.
    """
    known = values[~np.isnan(values)]
    if np.isnan(values[0]) or len(known) < 2:
        return Estimate(None, None, None)
    return Estimate(float(values[0]), *percentile_ends(known[1:]))


def refuse_other_judge(folder: Path, about: Mapping[str, str]) -> None:
    """
    Refuse a folder that holds a judge whose card says otherwise.

    :param about: what its card would say.
    """
    if (folder / CARD).is_file():
        found = read_file(folder / CARD).data
        if not isinstance(found, dict) or found != {**found, **about}:
            problem = f'another judge is in it, as its {CARD} says'
            raise UserError(f'--out {folder}: {problem}; name another folder')


def write_judge(judge: JudgeWeights, folder: Path, about: Mapping[str, object]) -> None:
    """
    Write a judge's weights and, last, its card.

    :param about: what the card says besides its inputs and the hash of its weights.
    """
    data = weight_bytes(judge)
    card = {
        **about,
        'models': dict(judge.models),
        'inputs': list(NUMBERS),
        'sha256': bytes_hash(data),
        'fitted_on': list(judge.fitted_on),
    }
    write_file(folder / WEIGHTS, data)
    if judge.adapter is not None:
        card['adapter_sha256'] = bytes_hash(judge.adapter)
        write_file(folder / ADAPTER, judge.adapter)
    text = yaml.safe_dump(card, sort_keys=False, width=80, allow_unicode=True)
    write_text(folder / CARD, text)


# --- inputs of many responses, read once and kept on disk -----------------------------

KEPT = {'states': np.float16, 'products': np.float16}  # the others in float32
BLOCK = 24  # responses that are read and kept together: some 20 s of two CPU cores


def kept_inputs(
    folder: Path,
    options: LearnedOptions,
    models: ModelHandle,
    name: str,
    items: Sequence[ScoringItem],
    adapter: bytes | None = None,
) -> Mapping[str, np.ndarray]:
    """
    Return the inputs of these responses by the models of a judge; blocks that are not
    in the folder are read, and put there.

    :param name: what the bar calls the responses.
    :param adapter: the file of the judge's adapter, if it has one.
    """
    judge, encoder = options.judge_model_file, options.encoder
    parts = []
    read_by = [judge, encoder, *([bytes_hash(adapter)] if adapter else [])]
    with bar_of(name, len(items), unit='response') as bar:
        for block in chunks(items, BLOCK):
            told = [[list(item.context), item.response] for item in block]
            file = folder / f'{content_id(*read_by, list(NUMBERS), told)}.npz'
            if not file.exists():
                readings = read_responses(
                    models.likelihood(judge), models.embedder(encoder), block, adapter
                )
                inputs: dict[str, Any] = {
                    key: rows.astype(KEPT.get(key, np.float32))
                    for key, rows in stacked_inputs(block, readings).items()
                }
                data = io.BytesIO()
                np.savez(data, **inputs)
                write_file(file, data.getvalue())
            with np.load(file) as stored:
                parts.append(dict(stored))
            bar.update(len(block))
    return {
        key: np.concatenate([part[key] for part in parts], dtype=np.float32)
        for key in parts[0]
    }
