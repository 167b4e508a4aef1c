"""
The learned judge: a weighted sum of what two models and plain counts say of a response,
with weights that were learned from people's judgements and from spoilt replies.

    Overall = bias + sum over inputs of weight * clipped((input - mean) / scale)

The inputs are in `learned_inputs`; the weights of a judge are in a folder with a card,
``judge.yaml``, and numbers, ``weights.safetensors``. docs/learned.md says what the
shipped judge was learned from and what it is worth on data that it was not.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as tensor_bytes

from parlai_ext import zoo_configs
from parlai_ext.core.errors import UserError, nearest
from parlai_ext.core.options import option
from parlai_ext.files.yaml_file import read_file
from parlai_ext.scoring.base import ItemScore, ScoringItem
from parlai_ext.scoring.judged_corpora import (
    CORPORA,
    NEAREST_CORPUS,
    NEARNESS,
    JudgedCorpora,
    vector_in_dialogue,
)
from parlai_ext.scoring.learned_inputs import (
    NUMBERS,
    Reading,
    input_blocks,
    read_responses,
)
from parlai_ext.scoring.likelihood import JudgeScorer
from parlai_ext.scoring.model_options import encoder_option, judge_option

CARD, WEIGHTS = 'judge.yaml', 'weights.safetensors'
BLOCKS = ('numbers', 'states', 'products')
PARTS = ('mean', 'scale', 'weight')
CARD_KEYS = (
    'description',
    'models',
    'inputs',
    'sha256',
    'fitted_on',
    'learned_from',
    'command',
)
MOST = 4.0  # spreads from the mean, to which an input is cut
AT_ONCE = 128  # responses whose hidden states are in memory together


@dataclass(frozen=True)
class BlockWeights:
    """
    How the inputs of one kind are scaled, and how much each counts.
    """

    mean: np.ndarray
    scale: np.ndarray
    weight: np.ndarray

    def part(self, inputs: np.ndarray) -> np.ndarray:
        """
        Return what these inputs add to the score of each response.

        :param inputs: ``[responses, inputs]``.
        """
        scaled = np.clip((inputs - self.mean) / self.scale, -MOST, MOST)
        return np.asarray(scaled @ self.weight)


@dataclass(frozen=True)
class JudgeWeights:
    """
    The weights of a learned judge.

    :param content: the hash of the numbers, which the signature has.
    :param models: kind of model -> the name of the model that the inputs are from.
    :param fitted_on: the judged sets that they were learned from.
    :param corpora: those on which the judge was tried, where that is known.
    """

    blocks: Mapping[str, BlockWeights]
    bias: float
    content: str
    models: Mapping[str, str]
    fitted_on: tuple[str, ...] = ()
    corpora: JudgedCorpora | None = None

    def parts(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """
        Return ``[responses, blocks]``, what each kind of input adds to the score.
        """
        return np.stack(
            [block.part(inputs[name]) for name, block in self.blocks.items()], axis=1
        )


@dataclass(frozen=True)
class LearnedOptions:
    """
    The two models, and the file of weights.
    """

    judge_model_file: str = judge_option()
    encoder: str = encoder_option('mpnet')
    weights: str = option(
        'shipped',
        help='the weights: the shipped ones, or the folder of a judge that '
        '`parlai fit_judge` wrote',
        metavar='NAME|FOLDER',
        path=True,
    )


class Learned(JudgeScorer):
    """
    One score a response; higher is better. Over the judged sets that the weights were
    learned from, the mean is 0 and the standard deviation 1.

    The evidence is what the numbers, the hidden states and the products add to it, and
    how near the response is to the corpora on which the judge was tried.
    """

    name = 'learned'
    unit = (
        'standard deviations over the judged sets that it learned from, whose mean is 0'
    )
    dimensions = ('Overall',)
    evidence_labels: tuple[str, ...] = BLOCKS
    instead = 'or another scorer: --scorer fed --judge-model-file zoo:mini/judge/model'
    options_class = LearnedOptions
    options: LearnedOptions
    corpora: JudgedCorpora | None = None

    def prepare(self) -> None:
        """
        Read the weights.
        """
        self.weights = read_weights(self.options.weights)
        self.fitted_on = self.weights.fitted_on
        self.signed = {'weights': self.weights.content[:16]}
        # another encoder's vectors cannot be compared with the points of a corpus
        if self.options.encoder == self.weights.models.get('embedder'):
            self.corpora = self.weights.corpora
        if self.corpora is not None:
            self.evidence_labels = (*BLOCKS, NEARNESS, NEAREST_CORPUS)

    def evidence_record(self) -> dict[str, Any]:
        """
        Return the corpora that the evidence names.
        """
        return {} if self.corpora is None else {'corpora': self.corpora.record()}

    def score(self, items: Sequence[ScoringItem]) -> list[ItemScore]:
        """
        Return the score of each response.
        """
        encoder = self.models.embedder(self.options.encoder)
        scores: list[ItemScore] = []
        for first in range(0, len(items), AT_ONCE):
            some = items[first : first + AT_ONCE]
            readings, cut = read_responses(self.judge, encoder, some)
            rows = [
                input_blocks(item, reading)
                for item, reading in zip(some, readings, strict=True)
            ]
            inputs = {name: np.stack([row[name] for row in rows]) for name in BLOCKS}
            parts = self.weights.parts(inputs)
            for row, reading, tokens in zip(parts, readings, cut, strict=True):
                overall = self.weights.bias + float(row.sum())
                evidence = self.evidence(row, reading)
                scores.append(ItemScore({'Overall': overall}, {}, evidence, tokens))
        return scores

    def evidence(self, parts: np.ndarray, reading: Reading) -> list[float]:
        """
        Return the numbers of `evidence_labels`.
        """
        values = parts.tolist()
        if self.corpora is not None:
            vector = vector_in_dialogue(reading.response, reading.turns)
            values += self.corpora.nearest(vector)
        return [round(value, 4) for value in values]


def read_weights(name: str) -> JudgeWeights:
    """
    Return the weights of the shipped judge, or of a judge in the user's folder.

    :raises UserError: names the file and the key that is wrong.
    """
    shipped = zoo_configs.HOME / 'learned' / name
    folder = shipped if '/' not in name and shipped.is_dir() else Path(name)
    if not (folder / CARD).is_file():
        known = sorted(p.name for p in (zoo_configs.HOME / 'learned').glob('*'))
        raise UserError(
            f'scorer: weights: {name!r} has no {CARD}; {nearest(name, known)}, or the '
            'folder that `parlai fit_judge --out FOLDER` wrote'
        )
    doc = read_file(folder / CARD)
    card = doc.mapping(doc.data or {}, (), CARD_KEYS, 'a judge')
    if list(card.get('inputs') or ()) != list(NUMBERS):
        raise doc.error(
            ('inputs',), 'this judge was learned from other inputs; fit it again'
        )
    content, tensors = _tensors(folder / WEIGHTS)
    if card.get('sha256') != content:
        raise doc.error(('sha256',), f'{WEIGHTS} beside it has another: {content}')
    models = doc.typed(card.get('models', {}), ('models',), dict)
    fitted_on = doc.typed(card.get('fitted_on', []), ('fitted_on',), list)
    try:
        blocks = {
            block: BlockWeights(*(tensors[f'{block}.{part}'] for part in PARTS))
            for block in BLOCKS
        }
        bias = float(tensors['bias'][0])
    except (KeyError, IndexError):
        raise UserError(
            f'{folder / WEIGHTS}: these are no weights of a learned judge'
        ) from None
    sets = tuple(map(str, fitted_on))
    corpora = None
    if (folder / CORPORA).is_file():
        try:
            corpora = JudgedCorpora.from_tensors(_tensors(folder / CORPORA)[1])
        except (TypeError, ValueError):
            problem = f'{folder / CORPORA}: these are no corpora of a learned judge'
            raise UserError(problem) from None
    return JudgeWeights(blocks, bias, content, models, sets, corpora)


def weight_bytes(weights: JudgeWeights) -> bytes:
    """
    Return the file of weights, in float32.
    """
    tensors = {'bias': np.array([weights.bias], np.float32)}
    for name, block in weights.blocks.items():
        for part in PARTS:
            tensors[f'{name}.{part}'] = np.asarray(getattr(block, part), np.float32)
    return tensor_bytes(tensors)


def _tensors(path: Path) -> tuple[str, dict[str, np.ndarray]]:
    """
    Return the sha256 of a file of weights, and its numbers.
    """
    try:
        data = path.read_bytes()
        return hashlib.sha256(data).hexdigest(), load_tensors(data)
    except (OSError, SafetensorError, ValueError) as error:
        raise UserError(f'{path}: it cannot be read: {error}') from None
