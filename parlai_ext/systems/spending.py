"""
What an agent has used, by its own count: requests, tokens, money.

An agent that counts such things has a property `usage`, a map with the keys of `KEYS`
and ``cost``. A cost of `None` means that no price is known.
"""

from collections.abc import Iterable, Mapping
from typing import Any

KEYS = ('requests', 'cached', 'prompt_tokens', 'completion_tokens', 'cut_replies')
Spending = dict[str, float | None]
Usages = dict[str, Spending | None]  # by system; `None`: it does not count
Reading = Mapping[str, float | None]


def spending_of(agent: Any) -> Spending | None:
    """
    Return what an agent has used so far, `None` when it does not count.
    """
    usage = getattr(agent, 'usage', None)
    if not isinstance(usage, Mapping):
        return None
    return {**{key: usage.get(key) or 0 for key in KEYS}, 'cost': usage.get('cost')}


def total_spending(spendings: Iterable[Reading | None]) -> Spending:
    """
    Return the sum of spendings, of which some may not be known; a cost is unknown only
    when all are.
    """
    known = [one for one in spendings if one is not None]
    costs = [cost for one in known if (cost := one.get('cost')) is not None]
    total = {key: sum(one.get(key) or 0 for one in known) for key in KEYS}
    return {**total, 'cost': sum(costs) if costs else None}


def add_to_spent(spent: dict[str, Spending], used: Mapping[str, Reading]) -> None:
    """
    Add to what systems have spent what they have used since.
    """
    for name, reading in used.items():
        spent[name] = total_spending([spent.get(name), reading])


def spending_since(now: Reading, before: Reading) -> Spending:
    """
    Return the difference of two readings of one meter; without a price now there is no
    cost.
    """
    used: Spending = {key: (n or 0) - (before[key] or 0) for key, n in now.items()}
    return used if now['cost'] is not None else {**used, 'cost': None}


def meter_of(agent: Any) -> Any:
    """
    Return what counts for an agent, which several agents may share: the engine of its
    engine, as a safety layer has one, or its engine, or itself.
    """
    engine = getattr(agent, 'engine', None) or agent
    return getattr(engine, 'engine', None) or engine


class Ledger:
    """
    What systems have used while they were loaded, each meter counted once.

    `spent` is by system; what a shared meter shows is the last one's to be dropped.
    """

    def __init__(self) -> None:
        self.spent: dict[str, Spending] = {}
        self._open: dict[int, tuple[Spending, set[str]]] = {}

    def begin(self, name: str, agent: Any) -> None:
        """
        Count what a system uses from now on.
        """
        now = spending_of(agent)
        if now is not None:
            self._open.setdefault(id(meter_of(agent)), (now, set()))[1].add(name)

    def end(self, name: str, agent: Any) -> None:
        """
        Write down what a system has used, unless another one's meter still runs on.
        """
        now, key = spending_of(agent), id(meter_of(agent))
        if now is None or key not in self._open:
            return
        before, names = self._open[key]
        names.discard(name)
        if not names:
            add_to_spent(self.spent, {name: spending_since(now, before)})
            del self._open[key]
