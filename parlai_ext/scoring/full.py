"""
FULL (De Bruyn et al. 2022): how unlikely are complaints as the next utterance?

    FULL(c, r) = mean over f in F of exp(loss(f | c + r))

F are five complaints; the loss of one is the mean of its tokens', its end token
included. The higher, the better. FED with its complaints alone differs in the mean of
perplexities instead of losses, in the follow-ups and in the judge.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Question
from parlai_ext.core.options import option
from parlai_ext.data.judged.qualities import mean
from parlai_ext.models.questions import gives_context
from parlai_ext.scoring.base import ItemScore, ScoringItem
from parlai_ext.scoring.fed import followup_score
from parlai_ext.scoring.followups import load_followups
from parlai_ext.scoring.likelihood import (
    JudgeScorer,
    context_turns_option,
    exponential,
    judge_option,
    negated,
)

JUDGE = 'hf:facebook/blenderbot-400M-distill,hf_turn_separator="\\t"'
LOOKBACK = 50  # utterances before the response that the authors' program reads


@dataclass(frozen=True)
class FullOptions:
    """
    Which follow-ups are asked, of which judge, and how their losses are put together.
    """

    followups: str = option(
        'full',
        help='follow-up set, of which the negative ones are asked: full (the five), '
        'full_released (as the program of 2022 reads them), another name, or a file',
        metavar='NAME|FILE',
        path=True,
    )
    reduction: str = option(
        'perplexity',
        help='over follow-ups: the mean of their perplexities, or of their losses',
        choices=('perplexity', 'loss'),
    )
    context_turns: int = context_turns_option(LOOKBACK)
    judge_model_file: str = judge_option(JUDGE)


class Full(JudgeScorer):
    """
    One score a response in each dimension of the follow-ups (`full`: Overall), above 0;
    the evidence is the loss of each follow-up.
    """

    name = 'full'
    instead = 'or another judge: --scorer-option judge_model_file=smollm2-135m-q4'
    options_class = FullOptions
    options: FullOptions

    def prepare(self) -> None:
        """
        Read the follow-ups.

        :raises UserError: for a set without negative ones.
        """
        followups = load_followups(self.options.followups)
        self.signed = {'followups': followups.hash}
        self.asked = {
            name: sides.negative for name, sides in followups.dimensions.items()
        }
        if empty := next((n for n, texts in self.asked.items() if not texts), None):
            raise UserError(
                f'scorer: followups {self.options.followups}: {empty} has no negative '
                'follow-ups, which are all that FULL asks'
            )
        self.dimensions = tuple(self.asked)
        texts = (text for some in self.asked.values() for text in some)
        self.evidence_labels = tuple(dict.fromkeys(texts))

    def score(self, items: Sequence[ScoringItem]) -> list[ItemScore]:
        """
        Return the scores of each response, in one question to the judge.
        """
        # where an encoder-decoder joins turns by a separator, the authors' program
        # begins with one
        joins_turns = hasattr(getattr(self.judge, 'vectorizer', None), 'separator')
        first = ('',) if joins_turns and not gives_context(self.judge) else ()
        n = self.options.context_turns
        answers = self.judge.answer(
            [
                Question(
                    (*first, *item.context[-n:], *item.utterances[len(item.context) :]),
                    self.evidence_labels,
                )
                for item in items
            ]
        )
        scores = []
        for answer in answers:
            means = [followup_score(row, 'mean') for row in answer.continuations]
            losses = terms = list(map(negated, means))
            if self.options.reduction == 'perplexity':
                terms = list(map(exponential, losses))
            known = dict(zip(self.evidence_labels, terms, strict=True))
            values: dict[str, float | None] = {}
            reasons: dict[str, str | None] = {}
            for name, texts in self.asked.items():
                values[name] = mean([known[text] for text in texts])
                missing = next((text for text in texts if known[text] is None), None)
                reasons[name] = f'the judge gives {missing!r} no finite probability'
            cut = answer.num_truncated
            scores.append(ItemScore(values, reasons, tuple(losses), cut))
        return scores
