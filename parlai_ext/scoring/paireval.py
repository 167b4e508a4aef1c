"""
PairEval: how often is a response better than the next turns of people's dialogues?

A judge reads two conversations, the judged one and a comparison, and says which
response is better. The score is the mean probability of the judged one over a few
comparisons (3) and both orders, since judges prefer one place. Source: Park et al.
(2024), "PairEval: Open-domain Dialogue Evaluation with Pairwise Comparison", section 3;
the wording of the prompt is ours. ``parlai train_judge`` makes such a judge.

The comparisons are drawn from a file of dialogues (DailyDialog's validation split in
the paper), which the option ``comparisons`` names, or, with ``exhaustive``, are the
other judged items themselves.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Answer, content_id
from parlai_ext.core.options import option
from parlai_ext.data.corpora import CORPORA, Turns, read_corpus
from parlai_ext.data.judged.qualities import mean
from parlai_ext.scoring.base import ItemScore, ScoringItem
from parlai_ext.scoring.candidates import Candidate
from parlai_ext.scoring.label_prompts import pair_prompt
from parlai_ext.scoring.label_scorer import LabelOptions, LabelScorer
from parlai_ext.scoring.likelihood import NO_PROBABILITY, first_continuation_share

NEEDED = (
    'comparisons: is needed: a folder or file of dialogues between people, such as '
    'the official validation.zip of DailyDialog'
)
Pair = tuple[Candidate, Candidate]


@dataclass(frozen=True)
class PairEvalOptions(LabelOptions):
    """
    The judge, and what responses are compared with.
    """

    comparisons: str | None = option(
        None,
        path=True,
        metavar='PATH',
        signed=False,
        help='dialogues between people with which responses are compared: the folder '
        'or the validation.zip of DailyDialog, or JSON lines {"dialogue": […]}. The '
        'signature holds those that are drawn',
    )
    corpus: str = option(
        'dailydialog', choices=CORPORA, signed=False, help='the format of comparisons'
    )
    num_comparisons: int = option(3, low=1, help='comparisons of a response')
    runs: int = option(
        1,
        low=1,
        help='the mean of so many runs, each with comparisons of its own; the paper '
        'averages 5',
    )
    seed: int = option(0, help='by which comparisons are drawn')
    exhaustive: bool = option(
        False,
        help='compare each response with all others that are scored with it, instead; '
        'scores then depend on which those are',
    )


class PairEval(LabelScorer):
    """
    The mean probability that a response is better than a comparison.

    One score a response, from 0 to 1; higher is better, and 0.5 is as good as people's.
    The evidence holds the mean of each run.
    """

    name = 'paireval'
    options_class = PairEvalOptions
    options: PairEvalOptions

    def prepare(self) -> None:
        """
        Draw the comparisons.

        :raises UserError: when no file is named, or it has too few dialogues.
        """
        self.runs: list[list[Candidate]] = []
        self.compares_items = self.options.exhaustive
        if self.compares_items:
            self.signed = {'comparisons': content_id([])}
            return
        if self.options.comparisons is None:
            raise UserError(f'scorer {self.name}: {NEEDED}')
        path = Path(self.options.comparisons)
        try:
            dialogues = read_corpus(self.options.corpus, path, 'validation')
        except UserError as error:
            raise UserError(f'scorer {self.name}: comparisons: {error}') from None
        self.runs = drawn_comparisons(dialogues, self.options)
        texts = [[[*one.context, one.response] for one in run] for run in self.runs]
        self.signed = {'comparisons': content_id(texts)}

    def score(self, items: Sequence[ScoringItem]) -> list[ItemScore]:
        """
        Return the score of each response, in one question to the judge.
        """
        candidates = [self.candidate(item) for item in items]
        sets = [self.runs for _ in candidates]
        if self.options.exhaustive:
            different = list(dict.fromkeys(candidates))
            sets = [[[one for one in different if one != own]] for own in candidates]
        asked = {
            pair: self.tokens.question(pair_prompt(*pair))
            for candidate, runs in zip(candidates, sets, strict=True)
            for comparison in dict.fromkeys(chain(*runs))
            for pair in ((candidate, comparison), (comparison, candidate))
        }
        # questions that begin alike stand together
        order = sorted(asked, key=lambda pair: asked[pair].context)
        given = self.judge.answer([asked[pair] for pair in order])
        answers = dict(zip(order, given, strict=True))
        return [
            candidate_score(candidate, runs, answers)
            for candidate, runs in zip(candidates, sets, strict=True)
        ]


def drawn_comparisons(
    dialogues: Sequence[Turns], options: PairEvalOptions
) -> list[list[Candidate]]:
    """
    Return the comparisons of each run: next turns of different dialogues.

    :raises UserError: when there are too few dialogues.
    """
    usable = [turns for turns in dialogues if len(turns) >= 2]
    if len(usable) < options.num_comparisons:
        raise UserError(
            f'scorer paireval: comparisons: {len(usable)} dialogues; num_comparisons: '
            f'{options.num_comparisons} needs as many'
        )
    runs = []
    for run in range(options.runs):
        rng = random.Random(f'{options.seed} {run}')
        comparisons = []
        for turns in rng.sample(usable, options.num_comparisons):
            place = rng.randrange(1, len(turns))
            context = turns[max(0, place - options.context_turns) : place]
            comparisons.append(Candidate(context, turns[place]))
        runs.append(comparisons)
    return runs


def candidate_score(
    candidate: Candidate,
    runs: Sequence[Sequence[Candidate]],
    answers: Mapping[Pair, Answer],
) -> ItemScore:
    """
    Return the score of a candidate against its runs of comparisons.

    :param answers: of the judge about each pair, in both orders.
    """
    means = []
    for run in runs:
        first = [first_continuation_share(answers[candidate, one]) for one in run]
        second = [first_continuation_share(answers[one, candidate]) for one in run]
        means.append(mean([*first, *(None if p is None else 1 - p for p in second)]))
    cut = sum(answers[candidate, one].num_truncated for one in chain(*runs))
    return ItemScore(
        {'Overall': mean(means)}, {'Overall': NO_PROBABILITY}, {'runs': means}, cut
    )
