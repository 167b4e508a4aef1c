"""
What PairEval and DirectEval have in common: a judge that answers prompts with a label.
"""

from dataclasses import dataclass

from parlai_ext.core.options import option
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.candidates import CONTEXT_TURNS, FORMATS, Candidate
from parlai_ext.scoring.label_prompts import label_tokens
from parlai_ext.scoring.likelihood import JudgeScorer
from parlai_ext.scoring.model_options import context_turns_option, judge_option


@dataclass(frozen=True)
class LabelOptions:
    """
    The judge, how it is asked, and how much of the dialogue it reads.
    """

    judge_model_file: str = judge_option(what='a judge of parlai train_judge')
    judge_format: str = option(
        'plain',
        choices=FORMATS,
        help='plain: text that the label completes; chat: a message in the judge’s '
        'chat template. A trained judge is asked as it was trained',
    )
    context_turns: int = context_turns_option(CONTEXT_TURNS)


class LabelScorer(JudgeScorer):
    """
    Asks a judge prompts of two labels. Subclasses define `score`.
    """

    prompted = True
    unit = 'a probability'
    dimensions: tuple[str, ...] = ('Overall',)
    options: LabelOptions

    def load_models(self) -> None:
        """
        Load the judge, and refuse one that was trained for something else.
        """
        super().load_models()
        self.tokens = label_tokens(self.judge, self.options.judge_format, self.name)

    def candidate(self, item: ScoringItem) -> Candidate:
        """
        Return a response after as much of its context as the judge reads.
        """
        context = item.context[-self.options.context_turns :]
        return Candidate(context, item.response or '')
