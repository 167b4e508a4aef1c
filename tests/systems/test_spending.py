"""
What agents say that they have used, and what is counted of it.
"""

from parlai_ext.agents.safety_layer.safety_layer import Guarded, SafetyLayerAgent
from parlai_ext.systems.players import Player
from parlai_ext.systems.spending import (
    Ledger,
    spending_of,
    spending_since,
    total_spending,
)


def test_an_agent_may_count_what_it_uses_in_several_ways():
    class Property:
        usage = {'requests': 3, 'prompt_tokens': None, 'cost': None}

    assert spending_of(object()) is None
    found = spending_of(Property())
    assert (found['requests'], found['prompt_tokens'], found['cost']) == (3, 0, None)
    assert total_spending([found, {'requests': 1, 'cost': 2.0}])['cost'] == 2.0
    before = found | {'cost': 1.0}
    assert spending_since({**before, 'cost': 3.0}, before)['cost'] == 2.0


class Meter:
    """
    Agents that share it as their `engine` count together.
    """

    def __init__(self, engine, cost=0.0):
        self.engine = engine or self
        self.cost = cost

    @property
    def usage(self):
        return {'requests': 1, 'cost': self.engine.cost}


def test_a_safety_layer_shares_the_meter_of_the_system_inside():
    meter, ledger = Meter(None), Ledger()
    inside = Meter(meter)
    layer = SafetyLayerAgent.__new__(SafetyLayerAgent)
    layer.engine = Guarded(Player('inside', inside), None, (), ())
    agents = {'inside': inside, 'layer': layer}
    for name, one in agents.items():
        ledger.begin(name, one)
    meter.cost += 3
    for name, one in agents.items():
        ledger.end(name, one)
    assert ledger.spent['layer']['cost'] == 3
    assert 'inside' not in ledger.spent


def test_money_of_a_shared_meter_is_counted_once():
    meter = Meter(None, cost=5.0)  # spent before
    one, other, ledger = Meter(meter), Meter(meter), Ledger()
    ledger.begin('one', one)
    meter.cost += 1
    ledger.begin('other', other)
    meter.cost += 2
    ledger.end('one', one)
    meter.cost += 4
    ledger.end('other', other)
    meter.cost += 8  # by nobody of these
    ledger.begin('one', one)
    meter.cost += 16
    ledger.end('one', one)
    assert sum(one['cost'] for one in ledger.spent.values()) == 1 + 2 + 4 + 16
