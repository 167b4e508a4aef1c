"""
Fit the weights of the scorer composite on judged sets and on perturbed replies.

    python -m benchmarks.fit_composite --data ../shared/data [--write]

A set's score is the mean of two Spearman correlations with people: of its turns, and of
its systems (the means of their turns). A corpus' score is 2 * share - 1, where share is
how often a person's reply scores above its perturbed copy, the mean over kinds. The
weights are those, of all multiples of 0.1 that sum to 1, whose mean score over the sets
and corpora of FIT is highest; the centre and spread of a term are its mean and standard
deviation over the sets. Printed are the weights, the table with one set left out, and
the sets that were not fitted (REPORT). --write replaces zoo_configs/composite/
fitted.yaml.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean

import numpy as np

from benchmarks.support.corpora import CORPORA
from benchmarks.support.judged_turns import PER_SYSTEM, agreement, read_set
from benchmarks.support.measures import print_head, print_row, start
from benchmarks.support.perturbed_replies import (
    ORIGINAL,
    perturbed_replies,
    share_higher,
)
from parlai_ext import zoo_configs
from parlai_ext.judge_check.perturbations import TRAIN
from parlai_ext.models.handle import ModelHandle
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.learned import (
    HIGHEST,
    LOWEST,
    TERMS,
    Composite,
    Scale,
)
from parlai_ext.scoring.score_run import ItemWork, item_id, stored_scores
from parlai_ext.view.progress import bar_of

FIT = (
    'zhao_dailydialog',
    'usr_topical',
    'usr_persona',
    'dstc7_human_eval',
    'dstc9_interactive',
    'chanel_jsalt',
)
REPORT = tuple(name for name in PER_SYSTEM if name not in FIT)
STEPS = 10  # weights are multiples of 1 / STEPS
REPLIES = 30  # of each corpus

Weights = tuple[float, ...]
# gives the terms and the repeated share of responses; the name is for a progress bar
Terms = Callable[[Sequence[ScoringItem], str], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Example:
    """
    Something weights are tried on: a judged set, or a corpus of perturbed replies.

    :param terms: one row for each response, one column for each term; unscaled.
    :param repeated: of each response.
    :param human, systems: of each response of a judged set.
    :param kinds: of each response of a corpus: `ORIGINAL` or a perturbation; a reply
        comes right before its copies.
    """

    terms: np.ndarray
    repeated: np.ndarray
    human: np.ndarray | None = None
    systems: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()

    def overall(self, scale: Mapping[str, Scale], weights: Weights) -> np.ndarray:
        """
        Return the score of each response, as `composite.overall_score` computes it.
        """
        centres = np.array([scale[name].centre for name in TERMS])
        spreads = np.array([scale[name].spread for name in TERMS])
        scaled = np.clip((self.terms - centres) / spreads, LOWEST, HIGHEST)
        total = scaled @ np.array(weights)
        return np.asarray((1 - self.repeated) * total + self.repeated * LOWEST)

    def score(self, values: np.ndarray) -> float:
        """
        Return how good scores of the responses are, at most 1.
        """
        if self.human is None:
            return 2 * fmean(self.shares(values).values()) - 1
        return fmean(agreement(values, self.human, self.systems))

    def shares(self, values: np.ndarray) -> dict[str, float]:
        """
        Return by kind how often a reply scores above its copy.
        """
        pairs: dict[str, list[tuple[float, float]]] = {}
        for kind, value in zip(self.kinds, values, strict=True):
            if kind == ORIGINAL:
                own = value
            else:
                pairs.setdefault(kind, []).append((own, value))
        return {kind: share_higher(*np.array(some).T) for kind, some in pairs.items()}


def read_examples(opt: argparse.Namespace) -> dict[str, Example]:
    """
    Return all sets and corpora, scored by the models.
    """
    models = {'judge_model_file': 'smollm2-135m-q4', 'encoder': 'minilm'}
    scorer = Composite.from_section(models, ModelHandle())
    scorer.load_models()
    # the terms are those of the models, whatever the weights
    signature = ' '.join(one.signature for one in scorer.models.loaded.values())
    folder = Path(opt.data)

    def terms(items: Sequence[ScoringItem], name: str) -> tuple[np.ndarray, np.ndarray]:
        with (
            bar_of(name, len(items)) as bar,
            stored_scores(opt.cache, signature) as kept,
        ):
            by_id = {item_id(item): item for item in items}
            work = ItemWork(scorer, bar, with_evidence=True)
            work.score_missing(kept, by_id)
        scores = [kept.scores[item_id(item)] for item in items]
        rows = np.array([[v or 0.0 for v in one.evidence] for one in scores])
        return rows[:, :-1], rows[:, -1]

    return {
        **{name: judged_example(folder, name, terms) for name in FIT},
        **{name: corpus_example(folder, name, terms) for name in CORPORA},
        **{name: judged_example(folder, name, terms) for name in REPORT},
    }


def judged_example(folder: Path, name: str, terms: Terms) -> Example:
    """
    Return a judged set.
    """
    turns = read_set(folder, name)
    return Example(
        *terms([turn.item for turn in turns], name),
        human=np.array([turn.human for turn in turns]),
        systems=tuple(turn.system for turn in turns),
    )


def corpus_example(folder: Path, name: str, terms: Terms) -> Example:
    """
    Return replies of a corpus and their perturbed copies.
    """
    dialogues = CORPORA[name](folder, 'valid')
    replies = perturbed_replies(dialogues, REPLIES, seed=0, wordings=TRAIN)
    items = [item for reply in replies for item in reply.values()]
    kinds = [kind for reply in replies for kind in reply]
    return Example(*terms(items, name), kinds=tuple(kinds))


def scales(examples: Sequence[Example]) -> dict[str, Scale]:
    """
    Return the centre and spread of each term over judged sets that count alike, with
    two decimals.
    """
    judged = [example for example in examples if example.human is not None]
    centres = np.mean([one.terms.mean(0) for one in judged], axis=0)
    variances = [((one.terms - centres) ** 2).mean(0) for one in judged]
    spreads = np.sqrt(np.mean(variances, axis=0))
    return {
        name: Scale(centre=round(float(centre), 2), spread=round(float(spread), 2))
        for name, centre, spread in zip(TERMS, centres, spreads, strict=True)
    }


def all_weights(n: int) -> Iterator[Weights]:
    """
    Yield all weights that are multiples of 1 / STEPS and sum to 1.
    """
    for parts in product(range(STEPS + 1), repeat=n):
        if sum(parts) == STEPS:
            yield tuple(part / STEPS for part in parts)


def fitted_weights(examples: Sequence[Example], scale: Mapping[str, Scale]) -> Weights:
    """
    Return the weights with the highest mean score over the examples.
    """
    return max(
        all_weights(len(TERMS)),
        key=lambda w: round(fmean(e.score(e.overall(scale, w)) for e in examples), 9),
    )


def report(examples: Mapping[str, Example]) -> str:
    """
    Print the tables of docs/composite.md and return the file of weights.
    """
    fit = [examples[name] for name in (*FIT, *CORPORA)]
    scale = scales(fit)
    weights = fitted_weights(fit, scale)
    even = (1 / len(TERMS),) * len(TERMS)
    single = [tuple(row) for row in np.eye(len(TERMS)).tolist()]
    print_head('set', 'composite', 'fitted without it', 'even weights', *TERMS)
    for name, example in examples.items():
        without = weights
        if name not in REPORT:
            rest = [examples[n] for n in (*FIT, *CORPORA) if n != name]
            without = fitted_weights(rest, scales(rest))
        cells = [
            cell(example, example.overall(scale, w))
            for w in (weights, without, even, *single)
        ]
        if name in REPORT:
            cells[1] = '–'
        print_row(name, *cells)
    return weights_file(scale, weights)


def cell(example: Example, values: np.ndarray) -> str:
    """
    Return turn and system correlation, or the mean and least share over kinds.
    """
    if example.human is not None:
        return ' / '.join(
            f'{value:.2f}'
            for value in agreement(values, example.human, example.systems)
        )
    shares = example.shares(values)
    worst = min(shares, key=shares.__getitem__)
    return f'{fmean(shares.values()):.2f}, {worst} {shares[worst]:.2f}'


def weights_file(scale: Mapping[str, Scale], weights: Weights) -> str:
    """
    Return the text of the file of weights.
    """
    lines = [
        '# Written by `python -m benchmarks.fit_composite --write`; docs/composite.md',
        '# has what it is worth on other sets than those of `fitted_on`.',
        'description: fitted with smollm2-135m-q4 and minilm',
        f'fitted_on: [{", ".join(FIT)}]',
        'terms:',
    ]
    for (name, term), weight in zip(scale.items(), weights, strict=True):
        numbers = f'centre: {term.centre}, spread: {term.spread}, weight: {weight}'
        lines.append(f'  {name}: {{{numbers}}}')
    return '\n'.join(lines) + '\n'


def main(opt: argparse.Namespace) -> None:
    """
    Print the tables and the file of weights.
    """
    text = report(read_examples(opt))
    print(text)
    if opt.write:
        path = zoo_configs.HOME / 'composite' / 'fitted.yaml'
        path.write_text(text, encoding='utf-8')


if __name__ == '__main__':
    start(
        main,
        __doc__,
        data='../shared/data',
        cache=Path('runs/fit_composite'),
        write=False,
    )
