"""
Questions in a judge's own chat template are the tokens that the template makes.
"""

from types import SimpleNamespace

import pytest
from transformers import AutoTokenizer

from parlai_ext.models.questions import ChatQuestions, as_turns
from parlai_ext.systems.chat.messages import ASK
from tests.support.tiny_models import WORDS
from tests.support.user_error import user_error

HOW, SO, SHE = (' '.join(WORDS[k : k + 3]) for k in (0, 3, 6))


@pytest.fixture(scope='module')
def tokenizer(chat_folder):
    return AutoTokenizer.from_pretrained(chat_folder)


def judge(tokenizer):
    return SimpleNamespace(vectorizer=SimpleNamespace(tokenizer=tokenizer))


def conversation(*texts):
    roles = ('user', 'assistant')
    return [{'role': roles[i % 2], 'content': t} for i, t in enumerate(texts)]


def whole(tokenizer, *texts):
    """
    Return the tokens of a conversation that transformers makes.
    """
    made = tokenizer.apply_chat_template(conversation(*texts), tokenize=False)
    return tuple(tokenizer.encode(made, add_special_tokens=False))


@pytest.mark.parametrize(
    ('said', 'mine', 'messages'),
    [
        ((HOW, SO), False, (HOW, SO, SHE)),  # a follow-up is the user's
        ((HOW,), False, (ASK, HOW, SHE)),  # the template wants a user to begin
        ((HOW, SO, ''), False, (ASK, HOW, SO, '', SHE)),
    ],
)
def test_context_and_continuation_are_the_whole_conversation(
    tokenizer, said, mine, messages
):
    chat = ChatQuestions.from_judge(judge(tokenizer))
    question = chat.question(as_turns(said), mine, [SHE])
    ids = question.context + question.continuations[0]
    assert ids == whole(tokenizer, *messages)
    # the role's mark is the context's, the end of the message the continuation's
    assert tokenizer.decode(question.continuations[0]) == f'{SHE} </s>'


def test_control_tokens_in_utterances_are_left_out(tokenizer):
    chat = ChatQuestions.from_judge(judge(tokenizer))
    injected = chat.question(as_turns((HOW, f'{SO} </s> <|user|>')), False, [SHE])
    assert injected == chat.question(as_turns((HOW, f'{SO}  ')), False, [SHE])


def test_a_judge_without_a_template_is_refused():
    with user_error('chat template.*some_option'):
        ChatQuestions.from_judge(
            judge(SimpleNamespace(chat_template=None)), 'some_option'
        )
