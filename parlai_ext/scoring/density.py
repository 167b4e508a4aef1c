"""
DEnsity: how usual is a response among those of people, to a response selector?

Context and response become the last hidden state of the first token of a BERT that was
trained to tell right responses from others. The score is minus the Mahalanobis distance
between these features and those of people's responses.

Source: Park et al. (2023), "DEnsity: Open-domain Dialogue Evaluation Metric using
Density Estimation".
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import content_id
from parlai_ext.core.options import option
from parlai_ext.data.formats import FORMATS, find_files, read_sources
from parlai_ext.scoring.base import (
    FROM,
    Items,
    ItemScore,
    Scorer,
    file_option,
    model_option,
)
from parlai_ext.scoring.relevance import NO_CONTEXT
from parlai_ext.view.progress import bar_of

SEPARATOR = '[SEPT]'  # between turns
MOST_TOKENS = 256
# of the largest variance; features are in float32, whose rounding varies by less
SMALLEST = 1e-10
AT_ONCE = 512  # responses of people whose features are computed together
STATISTICS = (
    "mean and inverse covariance of the features of people's responses: a .npz file "
    'with the arrays mean and precision'
)
Pair = tuple[tuple[str, ...], str]  # context and response


@dataclass(frozen=True)
class DensityOptions:
    """
    The response selector, and the statistics of people's responses.
    """

    encoder: str | None = model_option(
        None, 'pair_encoder', f'the response selector: {FROM}'
    )
    statistics: str | None = file_option(
        f'{STATISTICS}; where there is none yet, it is made from human_dialogues'
    )
    human_dialogues: str | None = file_option(
        'dialogues between people, in a format of import_dialogues'
    )
    most_tokens: int = option(
        MOST_TOKENS, low=16, help='tokens of context and response that are read'
    )


class Density(Scorer):
    """
    Minus the Mahalanobis distance of a response; higher, nearer to 0, is better.

    Of a whole dialogue, minus the square root of the mean squared distance of all
    utterances but the first. A persona stands before the context, a sentence a turn.
    """

    name = 'density'
    dimensions = ('Overall',)
    options_class = DensityOptions
    options: DensityOptions

    def prepare(self) -> None:
        """
        Refuse to begin without a model or without a way to the statistics.
        """
        if self.options.encoder is None:
            raise UserError(
                "scorer density: encoder: the authors' bestmodel.pth is on no model "
                'hub; a folder with it as pytorch_model.bin, its config.json and its '
                'tokenizer would do (docs/trained_metrics.md)'
            )
        file = self.options.statistics
        if file is None or not (
            Path(file).exists() or self.options.human_dialogues is not None
        ):
            missing = f'there is no file {file}; ' if file else ''
            raise UserError(
                f'scorer density: statistics: {missing}{STATISTICS} is needed; with '
                'human_dialogues: FILE it is made'
            )

    def load_models(self) -> None:
        """
        Load the response selector, and read or make the statistics.
        """
        super().load_models()
        file = Path(str(self.options.statistics))
        if not file.exists():
            people = str(self.options.human_dialogues)
            pairs = [
                pair
                for name, source in read_sources(find_files([people]), None)
                for dialogue in FORMATS[name].read(source)
                for pair in _turn_pairs([turn.text for turn in dialogue.turns])
            ]
            if len(pairs) < 2:
                raise UserError(
                    f'scorer density: human_dialogues: {people}: too few turns'
                )
            rows = []
            with bar_of('people', len(pairs), True) as bar:
                for start in range(0, len(pairs), AT_ONCE):
                    some = pairs[start : start + AT_ONCE]
                    rows.append(self._features(some))
                    bar.update(len(some))
            write_statistics(file, np.concatenate(rows))
        self.mean, self.precision = read_statistics(file)
        numbers = content_id(self.mean.tolist(), self.precision.tolist())
        self.signed = {'statistics': numbers}

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the score of each response, or of each whole dialogue.
        """
        pairs = []
        for item in items:
            context = (*item.persona, *item.context)
            if item.response is None:
                pairs.append(_turn_pairs(item.context, item.persona))
            else:
                pairs.append([(context, item.response)] if item.context else [])
        flat = [pair for some in pairs for pair in some]
        distances = iter(
            squared_distances(self._features(flat), self.mean, self.precision)
        )
        model = self.models.pair_encoder(str(self.options.encoder))
        most = self.options.most_tokens
        cut = iter(model.cut_pair_tokens(flat, SEPARATOR, most))
        scores = []
        for some in pairs:
            squared = [next(distances) for _ in some]
            value = -((sum(squared) / len(squared)) ** 0.5) if squared else None
            tokens = max((next(cut) for _ in some), default=0)
            scores.append(
                ItemScore({'Overall': value}, {'Overall': NO_CONTEXT}, cut=tokens)
            )
        return scores

    def _features(self, pairs: Sequence[Pair]) -> np.ndarray:
        model = self.models.pair_encoder(str(self.options.encoder))
        try:
            return model.features(pairs, SEPARATOR, self.options.most_tokens)
        except UserError as error:
            name = self.options.encoder
            raise UserError(f'scorer density: encoder {name}: {error}') from None


def _turn_pairs(texts: Sequence[str], before: Sequence[str] = ()) -> list[Pair]:
    return [((*before, *texts[:place]), texts[place]) for place in range(1, len(texts))]


def squared_distances(
    features: np.ndarray, mean: np.ndarray, precision: np.ndarray
) -> list[float]:
    """
    Return the squared Mahalanobis distance of each row from the mean.

    :param precision: the inverse covariance matrix.
    """
    centred = np.asarray(features, np.float64) - mean
    squared = np.einsum('ij,jk,ik->i', centred, precision, centred, optimize=True)
    distances: list[float] = np.maximum(squared, 0.0).tolist()
    return distances


def write_statistics(file: Path, features: np.ndarray) -> None:
    """
    Write the mean of features and the inverse of their covariance.

    The covariance is that of the sample (divided by n). Directions in which people do
    not differ, but for rounding, are ignored (a pseudo-inverse): the last layer of a
    BERT normalises, so that there is always one.
    """
    from scipy.linalg import pinvh

    rows = np.asarray(features, np.float64)
    precision = pinvh(np.cov(rows.T, bias=True), rtol=SMALLEST)
    new = file.with_name(f'{file.name}.new')
    with new.open('wb') as stream:
        np.savez(stream, mean=rows.mean(0), precision=precision)
    os.replace(new, file)


def read_statistics(file: Path) -> tuple[np.ndarray, np.ndarray]:
    """
    Return mean and inverse covariance.

    :raises UserError: when the file holds something else.
    """
    try:
        with np.load(file, allow_pickle=False) as arrays:
            mean = np.asarray(arrays['mean'], np.float64).reshape(-1)
            precision = np.asarray(arrays['precision'], np.float64)
    except (OSError, ValueError, KeyError, TypeError, BadZipFile) as error:
        raise UserError(
            f'scorer density: statistics: {file}: {STATISTICS} is expected ({error})'
        ) from None
    if precision.shape != (len(mean), len(mean)):
        raise UserError(
            f'scorer density: statistics: {file}: mean has {len(mean)} numbers, '
            f'precision is {" by ".join(map(str, precision.shape))}'
        )
    return mean, precision
