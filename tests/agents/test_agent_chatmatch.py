"""
`ext:chatmatch`: a turn's contributions, as the stage has them.
"""

import pytest
from parlai.core.loader import load_agent_module
from parlai.core.message import Message
from parlai.core.params import ParlaiParser

from parlai_ext.agents.chatmatch.chatmatch import ChatmatchAgent
from parlai_ext.commands import plugin
from parlai_ext.core.options import options_of
from parlai_ext.scoring.chatmatch.game import DIMENSIONS, ChatMatchOptions
from parlai_ext.scoring.chatmatch.scorer import ChatMatch
from tests.support.chatmatch_samples import QUIZ, game
from tests.support.scoring_samples import KnownJudge


@pytest.fixture(scope='module')
def scorer():
    known = KnownJudge(lambda context, text: [-1.0] * len(text.split()))
    return ChatMatch.from_section({'perplexity_unit': 'token'}, known)


@pytest.fixture
def agent(scorer):
    return ChatmatchAgent({}, {'scorer': scorer, 'opt': {}})


def message(i, later=True):
    return Message(
        text=QUIZ[i],
        context=list(QUIZ[:i]),
        later=list(QUIZ[i + 1 :]) if later else [],
        episode_done=True,
    )


def test_with_the_later_turns_the_agent_gives_the_stages_scores(agent, scorer):
    acts = agent.batch_act([message(i) for i in range(10)])
    scored = scorer.score_dialogues([game(QUIZ)], [range(10)])[0]
    expected = [{} for _ in QUIZ]
    for one in scored.scores:
        if one.utterance_index is not None:
            expected[one.utterance_index][one.dimension] = one.value
    assert [act['scores'] for act in acts] == expected


def test_turns_of_one_game_asked_one_by_one_are_one_question(scorer, monkeypatch):
    asked = []
    judge = ChatMatch.score_dialogues

    def score_dialogues(self, games, places):
        asked.extend(games)
        return judge(self, games, places)

    monkeypatch.setattr(ChatMatch, 'score_dialogues', score_dialogues)
    scorer.remembered.clear()
    one = ChatmatchAgent({}, {'scorer': scorer, 'opt': {}})
    for agent in (one, ChatmatchAgent({}, one.share())):  # clones remember it too
        for i in range(10):
            agent.batch_act([message(i)])
    assert len(asked) == 1


def test_without_later_turns_the_game_ends_with_the_judged_turn(agent):
    # nine turns: an odd number, so that the last one counts
    act = agent.batch_act([message(8, later=False)])[0]
    assert act['scores']['consistency'] == -1


def test_a_turn_that_does_not_count_is_counted_as_unscored(agent):
    act = agent.batch_act([message(5)])[0]
    assert act['scores']['proactivity'] is None
    assert 'proactivity: not counted: repeated' in act['reason']
    assert 'proactivity' not in act['metrics']
    assert act['metrics']['proactivity_unscored'].value() == 1
    assert act['metrics']['diversity'].value() == -1


def test_a_first_turn_is_no_game(agent):
    act = agent.batch_act([Message(text='hi', episode_done=True)])[0]
    assert act['scores'] == dict.fromkeys(DIMENSIONS)
    assert '1 turn(s)' in act['reason']


def test_observing_and_acting_is_a_batch_of_one(agent):
    agent.observe(message(8))
    assert agent.act()['scores']['consistency'] == -1


def test_every_threshold_is_an_option_of_the_agent():
    parser = ParlaiParser(False, False)
    ChatmatchAgent.add_cmdline_args(parser)
    opt = parser.parse_args(['--chatmatch-first-judged', '4'])
    assert opt['chatmatch_first_judged'] == 4
    flags = [one.dest('chatmatch') for one in options_of(ChatMatchOptions).values()]
    assert {opt.get(flag, 'absent') for flag in flags} == {4, None}


def test_parlai_finds_the_agent():
    plugin.register()
    assert load_agent_module('ext:chatmatch') is ChatmatchAgent


def test_speakers_that_the_task_names_are_taken(agent):
    names = ['ann', 'bob', 'cy', *['ann', 'bob'] * 3, 'ann']
    act = agent.batch_act([Message({**message(3), 'speakers': names})])[0]
    assert '3 speakers (ann, bob, cy)' in act['reason']
