"""
Questions to a language model in its own chat template (how likely is a text as the next
message of a conversation?), or about sections of text with the end token between them,
the answer being one token.

The model's own turns are the assistant's, the other speaker's are the user's. What the
template writes before the next message belongs to the context, and the mark with which
it closes that message belongs to the continuation, as an end token does.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from parlai_ext.core import LanguageModel, Question, UserError
from parlai_ext.systems.chat.messages import (
    TODAY,
    ChatStyle,
    ChatTurn,
    TemplateProblem,
    fix_date,
    messages,
    render_chat,
    without_control_tokens,
)

PROBE = 'Zebra quartz.'  # stands for the next message where a template is tried
OTHER_JUDGE = 'judge_model_file: a chat model, such as smollm2-135m-q4, would do'
PLAIN_FORMAT = 'judge_format: plain would do'  # of a scorer that has this option


def judge_tokenizer(judge: LanguageModel) -> Any:
    """
    Return the tokenizer of a judge of Hugging Face's library; `None` of another one.
    """
    return getattr(getattr(judge, 'vectorizer', None), 'tokenizer', None)


def gives_context(judge: LanguageModel) -> bool:
    """
    True if a judge gives contexts a probability, as far as is known beforehand.
    """
    return getattr(judge, 'tells_context', True)


def decoder_tokenizer(judge: LanguageModel, problem: str) -> Any:
    """
    Return the tokenizer of a decoder-only judge of Hugging Face's library.

    :raises UserError: with this problem, for another judge.
    """
    tokenizer = judge_tokenizer(judge)
    if tokenizer is None or not gives_context(judge):
        raise UserError(problem)
    return tokenizer


def plain_ids(tokenizer: Any, text: str, **how: bool) -> tuple[int, ...]:
    """
    Return the token ids of a text, none before or behind it.

    :param how: what else the tokenizer is told.
    """
    return tuple(tokenizer.encode(text, add_special_tokens=False, **how))


class ChatQuestions:
    """
    Conversations and next messages as the token ids of one tokenizer's chat template.

    A conversation that the assistant begins gets a user's message before it, as chat
    systems do (`ChatStyle`). Control tokens in utterances are left out.

    :param remedy: the option that would do otherwise, for errors.
    :raises UserError: when the tokenizer has no chat template.
    """

    def __init__(self, tokenizer: Any, remedy: str):
        self.remedy = remedy
        if not getattr(tokenizer, 'chat_template', None):
            raise self._no_template()
        self.tokenizer = tokenizer
        self.template = fix_date(tokenizer.get_chat_template(), TODAY)

    @classmethod
    def from_judge(
        cls, judge: LanguageModel, remedy: str = OTHER_JUDGE
    ) -> 'ChatQuestions':
        """
        Return the questions of a judge.

        :raises UserError: when it has no tokenizer with a chat template.
        """
        return cls(judge_tokenizer(judge), remedy)

    def question(
        self, turns: Sequence[ChatTurn], mine: bool, continuations: Sequence[str]
    ) -> Question:
        """
        Return the question how likely each continuation is as the next message.

        :param turns: the conversation so far, oldest first.
        :param mine: the next message is the assistant's, else the user's.
        """
        parts = messages(without_control_tokens(turns, self.tokenizer), ChatStyle())
        role = 'assistant' if mine else 'user'
        try:
            text = render_chat(
                self.tokenizer,
                [*parts, {'role': role, 'content': PROBE}],
                self.template,
                add_generation_prompt=False,
            )
        except TemplateProblem as error:
            raise UserError(
                f'the chat template of the judge refuses a conversation ({error}); '
                f'{self.remedy}'
            ) from None
        # what the template writes before the next message, and what closes it
        before, probe, close = text.rpartition(PROBE)
        if not probe:
            raise self._no_template()
        return Question(
            plain_ids(self.tokenizer, before),
            tuple(
                plain_ids(self.tokenizer, turn.text + close.rstrip())
                for turn in without_control_tokens(
                    [ChatTurn(True, text) for text in continuations], self.tokenizer
                )
            ),
        )

    def reply_question(self, message: str, replies: Sequence[str]) -> Question:
        """
        Return the question how likely each text is as the reply to a user's message.
        """
        return self.question([ChatTurn(False, message)], True, replies)

    def _no_template(self) -> UserError:
        return UserError(f'the judge has no chat template; {self.remedy}')


def as_turns(
    utterances: Sequence[str], last_is_mine: bool = True
) -> tuple[ChatTurn, ...]:
    """
    Return utterances as turns of which the last one is the assistant's, or the other
    speaker's.
    """
    mine = [(place % 2 == 0) == last_is_mine for place in range(len(utterances))]
    return tuple(map(ChatTurn, mine[::-1], utterances))


NO_END = 'an encoder-decoder with an end token, such as T5, is needed'


class SectionQuestions:
    """
    Sections and answers as the token ids of one tokenizer.

    A section is tokenized by itself, so that no text in it can end it.

    :raises UserError: when the judge is no encoder-decoder of Hugging Face's.
    """

    def __init__(self, judge: LanguageModel):
        self.tokenizer = judge_tokenizer(judge)
        end = getattr(self.tokenizer, 'eos_token_id', None)
        if gives_context(judge) or end is None:
            raise UserError(NO_END)
        self.end = int(end)
        self.ids = partial(
            plain_ids, self.tokenizer, split_special_tokens=True, verbose=False
        )

    def question(
        self, sections: Sequence[str], answers: Sequence[str], most_tokens: int
    ) -> tuple[Question, int]:
        """
        Return the question how likely the first token of each answer is, and how many
        tokens were cut.

        :param most_tokens: more lose the end of the last sections; the end token stays.
        """
        ids: list[int] = []
        for section in sections:
            ids += [*self.ids(section), self.end]
        cut = max(0, len(ids) - most_tokens)
        if cut:
            ids = [*ids[: most_tokens - 1], self.end]
        firsts = tuple(self.ids(answer)[:1] for answer in answers)
        return Question(tuple(ids), firsts), cut
