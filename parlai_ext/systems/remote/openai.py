"""
Chat completions, as OpenAI's endpoint and the many that speak like it want them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from parlai_ext.systems.chat.messages import ChatStyle, ChatTurn, messages
from parlai_ext.systems.remote.replies import (
    Malformed,
    RemoteReply,
    model_name,
    shortened,
    text_reply,
)
from parlai_ext.systems.remote.settings import Settings

MOST_STOPS = 4  # OpenAI takes no more; the reply is cut at the others here
# codes of a refusal that concerns one conversation and not the whole system
OF_ONE_CONVERSATION = {
    'content_filter': 'content filter',
    'content_policy_violation': 'content filter',
    'context_length_exceeded': 'the conversation is too long for the model',
    'string_above_max_length': 'the conversation is too long for the model',
}
# no waiting helps against these, although their status is 429
OUT_OF_MONEY = ('insufficient_quota', 'billing_hard_limit_reached')


def request(
    turns: Sequence[ChatTurn], style: ChatStyle, settings: Settings
) -> dict[str, Any]:
    """
    Return the body of the request for a reply to ``turns``.
    """
    given = {
        'model': settings.model,
        'messages': messages(turns, style),
        'max_tokens': settings.reply_max_tokens,
        'temperature': settings.temperature,
        'top_p': settings.top_p,
        'seed': settings.seed,
        'stop': list(style.stop[:MOST_STOPS]) or None,
    }
    body = {**given, **(settings.extra or {})}
    return {name: value for name, value in body.items() if value is not None}


def reply(data: Any) -> RemoteReply:
    """
    Read an answer.

    :raises Malformed: when it is no chat completion.
    """
    try:
        [choice] = data['choices'][:1]
        message, ended = choice['message'], choice.get('finish_reason')
        text = message.get('content')
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Malformed('no chat completion: choices[0].message is missing') from None
    if text is None or (ended == 'content_filter' and not text):
        why = 'content filter' if ended == 'content_filter' else f'it ended by {ended}'
        refused = message.get('refusal')
        why = f'refused: {shortened(refused)}' if isinstance(refused, str) else why
        reply = RemoteReply(None, f'no text: {why}', model_name(data.get('model')))
    else:
        told = alternatives(choice.get('logprobs'))
        reply = replace(text_reply(text, data.get('model')), alternatives=told)
    return reply.with_usage(data)


def alternatives(logprobs: Any) -> list[list[list[Any]]] | None:
    """
    Return the alternatives of each token of a reply, as `RemoteReply` has them; `None`
    for what has another form.
    """
    try:
        return [
            [
                [str(token['token']), float(token['logprob'])]
                for token in (
                    place,
                    *(
                        other
                        for other in place.get('top_logprobs') or ()
                        if other['token'] != place['token']
                    ),
                )
            ]
            for place in logprobs['content']
        ]
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def refusal(data: Any) -> str | None:
    """
    Return why an error concerns one conversation alone; `None` if it does not.
    """
    codes = _codes(data)
    return next(
        (OF_ONE_CONVERSATION[c] for c in codes if c in OF_ONE_CONVERSATION), None
    )


def out_of_money(data: Any) -> bool:
    """
    True if an error says that the account is empty.
    """
    return any(code in OUT_OF_MONEY for code in _codes(data))


def _codes(data: Any) -> list[str]:
    error = data.get('error') if isinstance(data, dict) else None
    error = error if isinstance(error, dict) else {}
    return [c for c in (error.get('code'), error.get('type')) if isinstance(c, str)]
