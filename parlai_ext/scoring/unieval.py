"""
UniEval: a T5 that was trained to answer yes-or-no questions about responses.

    question: Is this a natural response in the dialogue? </s> response: …

Source: Zhong et al. (2022), "Towards a Unified Multi-Dimensional Evaluator for Text
Generation", and their code, whose questions (MIT licence) the model was trained with. A
score is P(Yes) / (P(Yes) + P(No)) of the first token of the answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nltk.tokenize.punkt import (  # type: ignore[import-untyped]
    PunktParameters,
    PunktSentenceTokenizer,
)

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import mean
from parlai_ext.core.options import option
from parlai_ext.models.questions import SectionQuestions
from parlai_ext.scoring.base import NO_KNOWLEDGE, Items, ItemScore, ScoringItem
from parlai_ext.scoring.likelihood import (
    NO_PROBABILITY,
    JudgeScorer,
    context_turns_option,
    first_continuation_share,
    judge_option,
)

LONGEST = 1024  # tokens of a question, as in the authors' evaluation
OVERALL = 'Overall'
ENGAGING, KNOWLEDGE = 'Engaging', 'Uses Knowledge'
# the qualities of USR's annotators, which the authors compare with; what they call
# naturalness, coherence, engagingness, groundedness and understandability
QUESTIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    'Natural': ('Is this a natural response in the dialogue?', ()),
    'Maintains Context': (
        'Is this a coherent response given the dialogue history?',
        ('dialogue history',),
    ),
    ENGAGING: (
        'Is this an engaging and informative response according to the dialogue '
        'history and fact?',
        ('dialogue history', 'fact'),
    ),
    KNOWLEDGE: ('Is this response consistent with knowledge in the fact?', ('fact',)),
    'Understandable': (
        'Is this an understandable response in the dialogue?',
        (),
    ),
}
ABBREVIATIONS = """
mr mrs ms dr prof st jr sr vs etc inc ltd co corp e.g i.e u.s u.k a.m p.m d.c no mt
"""
PARAMETERS = PunktParameters()
PARAMETERS.abbrev_types = set(ABBREVIATIONS.split())
# parts sentences by a short list of abbreviations instead of Punkt's trained one, which
# would have to be downloaded
PUNKT = PunktSentenceTokenizer(PARAMETERS)


@dataclass(frozen=True)
class UniEvalOptions:
    """
    The model and how much of the dialogue it reads.
    """

    judge_model_file: str = judge_option(
        'hf:MingZhong/unieval-dialog',
        "UniEval's T5 (MingZhong/unieval-dialog), or another encoder-decoder",
    )
    context_turns: int = context_turns_option()
    most_tokens: int = option(
        LONGEST, low=16, help='tokens of a question; more lose the end of the last part'
    )


class UniEval(JudgeScorer):
    """
    Five qualities of a response and their mean; higher is better.

    Four are probabilities. ``Engaging`` is the sum over the sentences of the response,
    so that it may exceed 1, and with it ``Overall``. Without facts or a persona there
    is no ``Uses Knowledge``, and ``Overall`` is the mean of the others.
    """

    name = 'unieval'
    dimensions = (*QUESTIONS, OVERALL)
    prompted = True
    instead = (
        'a folder with its files would do: --scorer-option judge_model_file=FOLDER'
    )
    options_class = UniEvalOptions
    options: UniEvalOptions

    def load_models(self) -> None:
        """
        Load the model, which has to be an encoder-decoder.
        """
        super().load_models()
        try:
            self.questions = SectionQuestions.from_judge(self.judge)
        except UserError as error:
            model = self.options.judge_model_file
            raise UserError(f'scorer {self.name}: judge {model}: {error}') from None

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the scores of each response, in one call of the model.
        """
        asked = [self.sections(item) for item in items]
        made = [
            self.questions.question(sections, ('Yes', 'No'), self.options.most_tokens)
            for questions in asked
            for _, sections in questions
        ]
        answers = self.judge.answer([question for question, _ in made])
        shares = map(first_continuation_share, answers)
        each = zip(shares, [cut for _, cut in made], strict=True)
        return [
            _item_score(item, [(dimension, *next(each)) for dimension, _ in questions])
            for item, questions in zip(items, asked, strict=True)
        ]

    def sections(self, item: ScoringItem) -> list[tuple[str, list[str]]]:
        """
        Return dimension and sections of text of each question about a response.
        """
        texts = {
            'dialogue history': '\n'.join(item.context[-self.options.context_turns :]),
            'fact': item.knowledge,
        }
        asked = []
        for dimension, (question, read) in QUESTIONS.items():
            if dimension == KNOWLEDGE and not item.has_knowledge:
                continue
            parts = [item.text]
            if dimension == ENGAGING:
                parts = PUNKT.tokenize(item.text)
            more = [f'{name}: {texts[name]}' for name in read]
            for part in parts:
                sections = [f'question: {question}', f'response: {part}', *more]
                asked.append((dimension, sections))
        return asked


def _item_score(
    item: ScoringItem, answers: Sequence[tuple[str, float | None, int]]
) -> ItemScore:
    """
    Return the scores of an item from dimension, share of "Yes" and cut tokens of each
    of its questions.
    """
    shares: dict[str, list[float | None]] = {name: [] for name in QUESTIONS}
    for dimension, share, _ in answers:
        shares[dimension].append(share)
    reasons = dict.fromkeys((*QUESTIONS, OVERALL), NO_PROBABILITY)
    if not item.has_knowledge:
        del shares[KNOWLEDGE]
        reasons[KNOWLEDGE] = NO_KNOWLEDGE
    values: dict[str, float | None] = {}
    for dimension, some in shares.items():
        known = [share for share in some if share is not None]
        values[dimension] = float(sum(known)) if len(known) == len(some) else None
    values[OVERALL] = mean(list(values.values()))
    evidence = {'sentences': shares[ENGAGING]}
    cut = max((cut for *_, cut in answers), default=0)
    return ItemScore(values, reasons, evidence, cut)
