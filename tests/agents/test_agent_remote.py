"""
`ext:remote` takes a seat: an agent like others, whatever is behind its URL.
"""

import pytest

from parlai_ext.core import System
from parlai_ext.engines import data_in
from parlai_ext.systems.parlai_agents import load_system
from tests.support.chat_server import control
from tests.support.lockstep_play import play, row
from tests.support.remote_samples import make_remote
from tests.support.talk import heard

pytest_plugins = ['tests.support.remote_samples']
SAID = [(f'I saw {n} boats today.', 'Did you like them?') for n in '123']
LANES = [*(row('a', 'b', texts) for texts in SAID), row('b', 'a', SAID[0])]


def player(folder, url, name='a', **opt):
    with data_in(str(folder)):
        return load_system(make_remote(folder, url, name, **opt))


def pair(folder, url, **opt):
    """
    Two systems that say different things, since they have different prompts.
    """
    prompts = {'a': 'You are A.', 'b': 'You are B.'}
    return {
        name: player(folder, url, name, system_prompt=prompt, **opt)
        for name, prompt in prompts.items()
    }


@pytest.mark.parametrize('form', ['openai', 'plain'])
def test_twelve_utterances_together_are_those_one_by_one(tmp_path, url, form):
    opt = {'remote_format': form, 'remote_cache': 'none'}
    found = play(LANES, pair(tmp_path, url, **opt), 12)
    assert [(len(d.utterances), d.reason) for d in found] == [(12, None)] * 4
    # what is said depends on what was: no two dialogues go on alike
    assert len({tuple(u.text for u in d.utterances[2:]) for d in found}) == 4
    seated = pair(tmp_path, url, **opt)
    assert [play([one], seated, 12)[0] for one in LANES] == found


def test_a_reply_ends_at_a_stop_string(tmp_path, url):
    control(url, echo=True)
    [participant] = heard(player(tmp_path, url, stop=['train', 'boat']), ['a boat'])
    # the server sends the messages back: [["user", "a boat"]]
    assert participant.agent.act()['text'] == '[["user", "a'


def test_paid_replies_outlive_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv('PARLAI_DATAPATH', raising=False)
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    system = System(
        'a',
        {
            'model': 'ext:remote',
            'remote_model': 'm',
            'remote_url': 'http://localhost:9/v1',
        },
    )
    cache = load_system(system).agent.engine.settings.cache
    assert cache == f'{tmp_path}/parlai_ext/parlai_ext/remote_cache.sqlite'


def test_a_conversation_without_an_answer_ends_alone(tmp_path, url):
    seated = pair(tmp_path, url, remote_concurrency=1)
    # the first tells the model's name
    control(url, 'reply', 'filter', 'empty', 'reply')
    found = play(LANES[:3], seated, 4)
    assert [(d.ended_by, d.reason) for d in found] == [
        ('a', 'no text: content filter'),
        ('a', 'empty reply'),
        (None, None),
    ]


def test_spending_is_counted_on_after_an_agent_is_loaded_again(tmp_path, url):
    opt = {'remote_cache': 'none', 'remote_dated_model': 'tiny-2024-05-13'}
    for n in (1, 2):
        seated = player(tmp_path, url, **opt)
        seated.respond(heard(seated, ['Hi.']))
        assert seated.agent.usage['requests'] == n
