"""
Tokens, dollars, and the most of them.
"""

import pytest

from parlai_ext.core.errors import UserError
from tests.support.family_remote import control, received
from tests.support.remote_samples import PINNED, chat_reply, hellos

pytest_plugins = ['tests.support.remote_samples']


def test_tokens_are_those_that_the_server_counts(endpoint):
    # dollars a token: 1 and 10; 'hello 0' has two words
    prices = {'remote_price_prompt': 1e6, 'remote_price_completion': 1e7}
    system = endpoint(**prices, **PINNED)
    system.replies(hellos(1))
    words = len(chat_reply('hello 0').split())
    usage = system.usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (2, words)
    assert usage.cost == pytest.approx(2 + 10 * words)
    assert usage.estimated == 0


def test_tokens_are_estimated_where_the_server_does_not_count(url, endpoint):
    control(url, usage=False)
    system = endpoint(**PINNED)
    system.replies(hellos(1))
    # a quarter of the characters, rounded up; 'hello 0' has seven
    n = len(chat_reply('hello 0'))
    usage = system.usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (2, (n + 3) // 4)
    assert usage.estimated == 1 and usage.cost is None


COST = {'remote_price_prompt': 0, 'remote_price_completion': 1e6, **PINNED}  # $1 a word


def paid_before_the_cap(n, most, longest):
    """
    Return how many replies fit, each begun only if the longest one would.
    """
    spent = count = 0
    while count < n and spent + longest <= most:
        spent += len(chat_reply(f'hello {count}').split())
        count += 1
    return count, spent


@pytest.mark.parametrize('width', [1, 4])
def test_max_cost_is_not_passed(url, endpoint, width):
    opt = {'max_cost': 30, 'reply_max_tokens': 6, 'remote_concurrency': width, **COST}
    system = endpoint(**opt)
    with pytest.raises(UserError, match=r'max_cost: \$.* of \$30 are spent'):
        system.replies(hellos(50))
    assert 24 < system.usage.cost <= 30
    if width == 1:
        count, spent = paid_before_the_cap(50, 30, 6)
        assert (system.usage.requests, system.usage.cost) == (count, spent)


def test_with_more_money_only_the_rest_is_asked(url, endpoint):
    opt = {'reply_max_tokens': 6, 'remote_concurrency': 1, **COST}
    with pytest.raises(UserError, match='max_cost'):
        endpoint(max_cost=30, **opt).replies(hellos(12))
    control(url)
    endpoint(max_cost=1000, **opt).replies(hellos(12))
    assert len(received(url)) == 12 - paid_before_the_cap(12, 30, 6)[0]
