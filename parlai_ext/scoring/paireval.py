"""
PairEval: how often is a response better than the next turns of people's dialogues?

A judge reads two conversations, the judged one and a comparison, and says which
response is better. The score is the mean probability of the judged one over a few
comparisons (3) and both orders, since judges prefer one place. Source: Park et al.
(2024), "PairEval: Open-domain Dialogue Evaluation with Pairwise Comparison", section 3;
the wording of the prompt is ours, unless a file has another. ``parlai train_judge``
makes such a judge.

The comparisons are drawn from a file of dialogues (DailyDialog's validation split in
the paper), which the option ``comparisons`` names, or from the items of a judged set
(``judged_set``), or, with ``exhaustive``, are the other judged items themselves.

``probability: vocabulary``, ``weighted``, ``context_turns: 0`` and ``facts`` are what
the authors' program does (https://github.com/ddehun/PairEval): the probability of the
label itself, times the score of the comparison, the whole history and the knowledge.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from random import Random

from parlai_ext.core import (
    Answer,
    UserError,
    content_id,
    errors_about,
    frozen,
    mean,
    option,
    optional,
)
from parlai_ext.data.corpora import CORPORA, Turns, read_corpus
from parlai_ext.data.judged import OWN_ENDINGS, own_card, read_card
from parlai_ext.scoring.base import Items, ItemScore, ScoringItem, file_option
from parlai_ext.scoring.label_judges import (
    JudgedResponse,
    LabelOptions,
    LabelScorer,
    pair_prompt,
    pair_template,
)
from parlai_ext.scoring.likelihood import difference, first_continuation_share

Pair = tuple[JudgedResponse, JudgedResponse]


@frozen
class PairEvalOptions(LabelOptions):
    """
    The judge, and what responses are compared with.
    """

    comparisons: str | None = file_option(
        'dialogues between people with which responses are compared: the folder or the '
        'validation.zip of DailyDialog, or JSON lines {"dialogue": […]}. The signature '
        'holds those that are drawn',
        'PATH',
    )
    judged_set: str | None = optional(
        signed=False,
        metavar='NAME',
        help='draw the comparisons from the items of this judged set, whose file is in '
        'comparisons, or is it',
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
    seed: int = option(0, low=0, help='by which comparisons are drawn')
    exhaustive: bool = option(
        False,
        help='compare each response with all others that are scored with it, instead; '
        'scores then depend on which those are',
    )
    prompt: str | None = file_option(
        'a file with the prompt, {history_1}, {response_1}, {history_2} and '
        '{response_2} in it, that A or B goes on with; the signature holds its text'
    )
    probability: str = option(
        'labels',
        choices=('labels', 'vocabulary'),
        signed='if changed',
        help='of a label among the two, or, as in the authors’ program, among all '
        'tokens',
    )
    weighted: bool = option(
        False,
        signed='if changed',
        help='count a comparison as much as people’s overall score of it, as the '
        'authors’ program does; needs judged_set',
    )
    facts: bool = option(
        False,
        signed='if changed',
        help='show the judge the facts, or the persona, that a response should use',
    )


class PairEval(LabelScorer):
    """
    The mean probability that a response is better than a comparison.

    One score a response, from 0 to 1 unless it is weighted; higher is better, and 0.5
    is as good as people's. The evidence holds the mean of each run, and in how many of
    the pairs the choice changes when the two responses change places.
    """

    name = 'paireval'
    shows_flips = True
    options_class = PairEvalOptions
    options: PairEvalOptions

    def prepare(self) -> None:
        """
        Draw the comparisons.

        :raises UserError: when no file is named, or it has too few dialogues.
        """
        options = self.options
        self.runs: list[list[JudgedResponse]] = []
        self.weights: dict[JudgedResponse, float] = {}
        self.compares_items = options.exhaustive
        with errors_about(f'scorer {self.name}'):
            self.template = pair_template(options.prompt)
        if options.weighted and (options.exhaustive or not options.judged_set):
            raise UserError(
                f'scorer {self.name}: weighted: people’s scores of the comparisons are '
                'needed; judged_set: NAME would do'
            )
        if not self.compares_items:
            self._draw()
        texts = [
            [[*one.context, one.response, *filter(None, [one.facts])] for one in run]
            for run in self.runs
        ]
        self.signed = {'comparisons': content_id(texts, *self.weights.values())}
        if self.template:
            self.signed |= {'prompt': content_id(self.template)}

    def _draw(self) -> None:
        """
        Draw the comparisons of each run.
        """
        options = self.options
        if options.comparisons is None:
            raise UserError(
                f'scorer {self.name}: comparisons: is needed: a folder or file of '
                'dialogues between people, such as the official validation.zip of '
                'DailyDialog'
            )
        path = Path(options.comparisons)
        with errors_about(f'scorer {self.name}: comparisons'):
            if options.judged_set is None:
                dialogues = read_corpus(options.corpus, path, 'validation')
                usable = [turns for turns in dialogues if len(turns) >= 2]
                self.runs = drawn_comparisons(usable, options)
                return
            named = options.judged_set
            is_own = named.endswith(OWN_ENDINGS)
            card = own_card(path / named) if is_own else read_card(named)
            judged = card.read(path)
        scores = {
            self.candidate(
                ScoringItem(
                    one.context, one.response, facts=one.facts, persona=one.persona
                )
            ): score
            for one in judged.items
            if one.response and (score := one.human(judged.overall or '')) is not None
        }
        self.runs = drawn_comparisons(list(scores), options)
        if options.weighted:
            self.weights = {one: scores[one] for run in self.runs for one in run}

    def candidate(self, item: ScoringItem) -> JudgedResponse:
        """
        Return a response after its context, with its knowledge where that is shown.
        """
        known = self.options.facts and item.has_knowledge
        return replace(super().candidate(item), facts=item.knowledge if known else '')

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the score of each response, in one question to the judge.
        """
        candidates = [self.candidate(item) for item in items]
        sets = [self.runs for _ in candidates]
        if self.options.exhaustive:
            different = list(dict.fromkeys(candidates))
            sets = [[[one for one in different if one != own]] for own in candidates]
        asked = {
            pair: self.tokens.question(pair_prompt(*pair, self.template))
            for candidate, runs in zip(candidates, sets, strict=True)
            for comparison in dict.fromkeys(chain(*runs))
            for pair in ((candidate, comparison), (comparison, candidate))
        }
        # questions that begin alike stand together
        order = sorted(asked, key=lambda pair: asked[pair].context)
        given = self.judge.answer([asked[pair] for pair in order])
        answers = dict(zip(order, given, strict=True))
        return [
            self._score(candidate, runs, answers)
            for candidate, runs in zip(candidates, sets, strict=True)
        ]

    def _score(
        self,
        candidate: JudgedResponse,
        runs: Sequence[Sequence[JudgedResponse]],
        answers: Mapping[Pair, Answer],
    ) -> ItemScore:
        """
        Return the score of a candidate against its runs of comparisons.

        :param answers: of the judge about each pair, in both orders.
        """
        means, cut = [], 0
        flips = {}
        for run in runs:
            values = []
            for one in run:
                first, second = answers[candidate, one], answers[one, candidate]
                cut += first.num_truncated
                share, rest = map(first_continuation_share, (first, second))
                shares = [share, difference(1, rest)]
                # a choice and a tie differ, too
                choices = {(p > 0.5) - (p < 0.5) for p in shares if p is not None}
                if None not in shares:
                    flips[one] = len(choices) > 1
                if self.options.probability == 'vocabulary':
                    logprobs = first.continuations[0], second.continuations[1]
                    shares = [math.exp(math.fsum(label)) for label in logprobs]
                weight = self.weights.get(one, 1)
                values += [None if p is None else p * weight for p in shares]
            means.append(mean(values))
        evidence = {'runs': means, 'flips': [sum(flips.values()), len(flips)]}
        return ItemScore({'Overall': mean(means)}, evidence=evidence, cut=cut)


def drawn_comparisons(
    usable: Sequence[JudgedResponse | Turns], options: PairEvalOptions
) -> list[list[JudgedResponse]]:
    """
    Return the comparisons of each run, of different dialogues or judged items: these
    themselves, or of a dialogue a turn after the first, after its context.

    :raises UserError: when there are too few.
    """
    if len(usable) < options.num_comparisons:
        raise UserError(
            f'scorer paireval: comparisons: {len(usable)} can be drawn from; '
            f'num_comparisons: {options.num_comparisons} needs as many'
        )
    runs = []
    for run in range(options.runs):
        rng = Random(f'{options.seed} {run}')
        comparisons = []
        for one in rng.sample(usable, options.num_comparisons):
            if not isinstance(one, JudgedResponse):
                place = rng.randrange(1, len(one))
                one = JudgedResponse(one[:place][-options.context_turns :], one[place])
            comparisons.append(one)
        runs.append(comparisons)
    return runs
