"""
`ext:scorer`: what a scorer is asked of the messages that the agent observes.
"""

import pytest
from parlai.core.message import Message

from parlai_ext.agents.scorer.scorer import ScorerAgent
from parlai_ext.scoring.base import ItemScore, Scorer

SEEN = Message(text='b', context=['a'], later=['c'], speaker='x', episode_done=True)


class Recorder(Scorer):
    """
    Scores nothing, and keeps the items that it was asked about.
    """

    name = 'recorder'
    dimensions = ('n',)

    def score(self, items):
        self.items = items
        return [ItemScore({'n': len(item.utterances)}) for item in items]


class WholeRecorder(Recorder):
    """
    The same for whole dialogues.
    """

    level = 'dialogue'


@pytest.mark.parametrize(
    'kind, context, response',
    [(Recorder, ('a',), 'b'), (WholeRecorder, ('a', 'b', 'c'), None)],
)
def test_a_whole_dialogue_is_an_item_without_a_response(kind, context, response):
    agent = ScorerAgent({}, shared={'opt': {}, 'scorer': kind()})
    (act,) = agent.batch_act([SEEN])
    assert [(i.context, i.response) for i in agent.scorer.items] == [
        (context, response)
    ]
    assert act['scores'] == {'n': len(context) + (response is not None)}
