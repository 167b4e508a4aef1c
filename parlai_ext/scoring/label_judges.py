"""
Judges that answer with one of two labels: which of two responses is better (A or B,
PairEval), or whether a response is good (Yes or No, DirectEval and, without training,
`prompted`).

The label is a single token, and its probability is read, nothing is generated. Scorers
and the training of judges share these prompts, so that a judge is asked what it learnt.
The wording is ours, but for the question of DirectEval, which Park et al. (2024) print;
a file may hold another prompt for pairs (`pair_template`).

What is asked stands first and the end is short, so that prompts which begin with one
conversation share most of their tokens.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parlai_ext.core import Question, UserError, frozen, option
from parlai_ext.files import read_json, text_lines
from parlai_ext.models.questions import (
    PLAIN_FORMAT,
    ChatQuestions,
    judge_tokenizer,
    plain_ids,
)
from parlai_ext.scoring.base import ScoringItem, lettered_turns
from parlai_ext.scoring.likelihood import (
    AnswerScorer,
    context_turns_option,
    first_continuation_share,
    judge_option,
)
from parlai_ext.systems.chat.messages import ChatTurn, without_control_tokens
from parlai_ext.view import single_spaced

FORMATS = ('plain', 'chat')  # how a judge is asked
CONTEXT_TURNS = 4  # utterances before a response that are read


@frozen
class JudgedResponse:
    """
    A response after its context.

    :param facts: the knowledge that the response should use, where a judge is shown it.
    """

    context: tuple[str, ...]
    response: str
    facts: str = ''


CARD = 'judge_training.json'  # in the folder of a trained judge
PLACE = re.compile(r'\{(history|response|knowledge)_([12])\}')
NEEDED = ('{history_1}', '{response_1}', '{history_2}', '{response_2}')


@frozen
class LabelPrompt:
    """
    What a model is asked, how its answer begins, and the labels it may go on with.
    """

    question: str
    answer: str
    labels: tuple[str, str]


def pair_template(path: str | None) -> str:
    """
    Return the prompt for pairs in a file, '' where none is named: text that a label, A
    or B, goes on with.

    In it ``{history_1}``, ``{response_1}``, ``{history_2}`` and ``{response_2}`` stand
    for the two conversations, an utterance a line. A paragraph with no other place
    than ``{knowledge_1}`` or ``{knowledge_2}`` is left out where there are no facts.

    :raises UserError: when the file cannot be read, or one of the four is not in it.
    """
    if path is None:
        return ''
    text = '\n'.join(line for _, line in text_lines(path, empty=True)).rstrip()
    for place in NEEDED:
        if place not in text:
            raise UserError(f'prompt: {path}: {place} is not in it')
    return text


def pair_prompt(
    first: JudgedResponse, second: JudgedResponse, template: str = ''
) -> LabelPrompt:
    """
    Return the question which of two responses is better; the labels are A and B.

    :param template: of `pair_template`; '': our own wording.
    """
    if template:
        return LabelPrompt(filled_template(template, first, second), '', ('A', 'B'))
    parts = [
        'Which response fits its dialogue better?',
        *_conversation(first, ' A'),
        *_conversation(second, ' B'),
    ]
    return LabelPrompt('\n'.join(parts), 'Better response:', ('A', 'B'))


def filled_template(
    template: str, first: JudgedResponse, second: JudgedResponse
) -> str:
    """
    Return a template with the two conversations in their places.
    """
    texts = {
        (kind, number): text
        for number, one in (('1', first), ('2', second))
        for kind, text in (
            ('history', '\n'.join(map(single_spaced, one.context))),
            ('response', single_spaced(one.response)),
            ('knowledge', one.facts.strip()),
        )
    }
    paragraphs = []
    for paragraph in template.split('\n\n'):
        places = PLACE.findall(paragraph)
        if not places or any(at[0] != 'knowledge' or texts[at] for at in places):
            paragraphs.append(paragraph)
    return PLACE.sub(lambda at: texts[at[1], at[2]], '\n\n'.join(paragraphs))


def direct_prompt(candidate: JudgedResponse) -> LabelPrompt:
    """
    Return the question whether a response is good; the labels are Yes and No.
    """
    parts = [
        *_conversation(candidate, '')[1:],
        '',
        'Is the above response a good response to the given conversation?',
    ]
    return LabelPrompt('\n'.join(parts), 'Answer:', ('Yes', 'No'))


def _conversation(candidate: JudgedResponse, name: str) -> list[str]:
    """
    Return the lines of a conversation. The one who responds is Q, the other is P.
    """
    turns = lettered_turns(list(map(single_spaced, candidate.context)), 'PQ')
    facts = [f'Facts{name}', candidate.facts.strip()] if candidate.facts else []
    return [
        '',
        *facts,
        f'Dialogue{name}',
        *turns,
        f'Response{name}',
        f'Q: {single_spaced(candidate.response)}',
    ]


class LabelTokens:
    """
    Prompts and labels as the token ids of one tokenizer.

    ``plain``: the prompt is text that goes on with the label. ``chat``: the question is
    a user's message in the model's chat template, the label begins the reply.
    """

    def __init__(self, tokenizer: Any, prompt_format: str = 'plain'):
        from parlai_ext.systems.pretrained import surrounding_tokens

        self.tokenizer = tokenizer
        self.lead = list(surrounding_tokens(tokenizer)[0])
        self.chat: ChatQuestions | None = None
        if prompt_format == 'chat':
            self.chat = ChatQuestions(tokenizer, PLAIN_FORMAT)

    def prompt_ids(self, prompt: LabelPrompt) -> tuple[int, ...]:
        """
        Return the tokens before the label.
        """
        if self.chat is not None:
            ids = self.chat.reply_question(prompt.question, ()).context
            return tuple(map(int, ids))
        [clean] = without_control_tokens(
            [ChatTurn(False, prompt.question)], self.tokenizer
        )
        text = '\n\n'.join(filter(None, (clean.text, prompt.answer)))
        return (*self.lead, *plain_ids(self.tokenizer, text))

    def label_ids(self, labels: Sequence[str]) -> tuple[int, ...]:
        """
        Return the first token of each label.

        :raises UserError: when the labels begin with the same token.
        """
        space = ' ' if self.chat is None else ''
        ids = tuple(plain_ids(self.tokenizer, space + label)[0] for label in labels)
        if len(set(ids)) < len(ids):
            raise UserError(
                f'the judge: its tokenizer writes {" and ".join(labels)} with the same '
                'first token, so that its answers cannot be told apart'
            )
        return ids

    def question(self, prompt: LabelPrompt) -> Question:
        """
        Return the question how likely each label is after the prompt.
        """
        labels = self.label_ids(prompt.labels)
        return Question(self.prompt_ids(prompt), tuple((label,) for label in labels))


@frozen
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


class LabelScorer(AnswerScorer):
    """
    Asks a judge prompts of two labels.
    """

    prompted = True
    unit = 'a probability'
    options: LabelOptions

    def load_models(self) -> None:
        """
        Load the judge.

        :raises UserError: when it has no tokenizer of Hugging Face's library, or was
            trained for something else.
        """
        super().load_models()
        tokenizer = judge_tokenizer(self.judge)
        if tokenizer is None:
            raise UserError(
                f'scorer {self.name}: the judge is no model of Hugging Face’s library; '
                'hf:REPOSITORY or a folder would do'
            )
        asked = self.options.judge_format
        path = Path(getattr(tokenizer, 'name_or_path', '')) / CARD
        card = read_json(path, dict) if path.is_file() else {}
        for key, value, remedy in (
            ('method', self.name, 'scorer: {}'),
            ('prompt_format', asked, 'judge_format: {}'),
            ('prompt', self.signed.get('prompt'), 'prompt: what its training had'),
        ):
            if card.get(key, value) != value:
                raise UserError(
                    f'scorer {self.name}: the judge was trained with {key} '
                    f'{card[key]!r}; {remedy.format(card[key])} would do'
                )
        self.tokens = LabelTokens(tokenizer, asked)

    def candidate(self, item: ScoringItem) -> JudgedResponse:
        """
        Return a response after as much of its context as the judge reads.
        """
        return JudgedResponse(item.context[-self.options.context_turns :], item.text)


class DirectEval(LabelScorer):
    """
    DirectEval: the probability that a trained judge answers "Yes", of "Yes" and "No",
    to "Is the above response a good response to the given conversation?".

    One score a response, from 0 to 1; higher is better. Source: Park et al. (2024),
    "PairEval", section 4.1.2. ``parlai train_judge --method directeval`` makes such a
    judge; `prompted` asks an untrained chat model, in its own words.
    """

    name = 'directeval'
    options_class = LabelOptions
    value = staticmethod(first_continuation_share)

    def question(self, item: ScoringItem) -> Question:
        """
        Return the question whether a response is good.
        """
        return self.tokens.question(direct_prompt(self.candidate(item)))


ANSWERS = ('Yes', 'No')
QUESTION = (
    'Is the response a good response to the dialogue, one that makes sense and is '
    'specific to it? Answer Yes or No.'
)


@frozen
class PromptedOptions:
    """
    The judge, what it is asked, and how much of the dialogue it reads.
    """

    judge_model_file: str = judge_option(what='a decoder-only chat model')
    question: str = option(
        QUESTION, help='what is asked about the response; the answer is Yes or No'
    )
    context_turns: int = context_turns_option(6)


class Prompted(AnswerScorer):
    """
    The probability that a chat model answers "Yes", of "Yes" and "No".

    One score a response, from 0 to 1; higher is better. Source: the baseline DirectEval
    of Park et al. (2024), without their fine-tuning; the wording of the question is
    ours.
    """

    name = 'prompted'
    prompted = True
    options_class = PromptedOptions
    options: PromptedOptions
    value = staticmethod(first_continuation_share)

    def prepare(self) -> None:
        """
        Refuse an empty question.
        """
        if not self.options.question.strip():
            raise UserError('scorer: question: empty; a question is expected')

    def load_models(self) -> None:
        """
        Load the judge, which needs a chat template.
        """
        super().load_models()
        self.chat = ChatQuestions.from_judge(self.judge)

    def question(self, item: ScoringItem) -> Question:
        """
        Return the question about one response; the one who is judged is B, the other A.
        """
        turns = lettered_turns(item.context[-self.options.context_turns :])
        response = f'Response:\nB: {item.text}'
        prompt = '\n'.join(
            ['Dialogue:', *turns, '', response, '', self.options.question]
        )
        return self.chat.reply_question(prompt, ANSWERS)
