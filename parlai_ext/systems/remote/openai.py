"""
Chat completions, as OpenAI's endpoint and the many that speak like it want them.
"""

from collections.abc import Sequence
from typing import Any

from parlai_ext.core import DATA_ERRORS, JsonObject, shortened
from parlai_ext.systems.chat.messages import Alternatives, ChatStyle, ChatTurn, messages
from parlai_ext.systems.remote.settings import RemoteReply, Settings, read_answer

MOST_STOPS = 4  # OpenAI takes no more; the reply is cut at the others here
# codes of a refusal that concerns one conversation and not the whole system
OF_ONE_CONVERSATION = {
    'content_filter': 'content filter',
    'content_policy_violation': 'content filter',
    'context_length_exceeded': 'the conversation is too long for the model',
    'string_above_max_length': 'the conversation is too long for the model',
}
NO_TEXT = {
    'content_filter': 'content filter',
    'length': 'it ended by length; a larger reply_max_tokens leaves room for one',
}
# no waiting helps against these, although their status is 429
OUT_OF_MONEY = {'insufficient_quota', 'billing_hard_limit_reached'}


def request(
    turns: Sequence[ChatTurn], style: ChatStyle, settings: Settings
) -> JsonObject:
    """
    Return the body of the request for a reply to ``turns``.
    """
    stop = list(style.stop[:MOST_STOPS]) or None
    return settings.request_body(messages=messages(turns, style), stop=stop)


def reply(data: Any) -> RemoteReply:
    """
    Read an answer.

    :raises ValueError: when it is no chat completion.
    """
    try:
        [choice] = data['choices'][:1]
        message, ended = choice['message'], choice.get('finish_reason')
        text = message.get('content')
    except DATA_ERRORS:
        raise ValueError('no chat completion: choices[0].message is missing') from None
    if text or (text is not None and ended in (None, 'stop')):
        others = alternatives(choice.get('logprobs'))
        return read_answer(data, text, None, others, is_cut=ended == 'length')
    why = NO_TEXT.get(ended) or f'it ended by {ended}'
    refused = message.get('refusal')
    why = f'refused: {shortened(refused)}' if isinstance(refused, str) else why
    return read_answer(data, None, f'no text: {why}')


def alternatives(logprobs: Any) -> Alternatives | None:
    """
    Return the alternatives of each token of a reply; `None` for what has another form.
    """
    try:
        return [
            [
                [str(token['token']), float(token['logprob'])]
                for token in (place, *(place.get('top_logprobs') or ()))
                if token is place or token['token'] != place['token']
            ]
            for place in logprobs['content']
        ]
    except DATA_ERRORS:
        return None


def refusal(data: Any) -> str | None:
    """
    Return why an error concerns one conversation alone; `None` if it does not.
    """
    reasons = map(OF_ONE_CONVERSATION.get, codes(data))
    return next(filter(None, reasons), None)


def codes(data: Any) -> list[str]:
    """
    Return the codes by which an answer names its error.
    """
    error = data.get('error') if isinstance(data, dict) else None
    error = error if isinstance(error, dict) else {}
    return [c for c in (error.get('code'), error.get('type')) if isinstance(c, str)]
