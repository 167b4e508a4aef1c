"""
The demo with real models: its planted order follows from its options, and these are
known.
"""

from itertools import pairwise

import pytest

from parlai_ext.files import load_roster
from parlai_ext.scoring.registry import load_protocol_file
from parlai_ext.systems.parlai_agents import parsed_options


def test_each_target_is_the_one_before_it_with_more_faults():
    targets = load_roster('real').roster.targets
    more = [
        {k for k in better.opt | worse.opt if worse.opt[k] != better.opt.get(k)}
        for better, worse in pairwise(targets)
    ]
    assert more == [
        {'degrade_last_turns'},
        {'degrade_context'},
        {'inference', 'topk', 'temperature'},
        {'degrade_shuffle', 'reply_max_tokens'},
    ]
    # replies that end early are the worse
    assert targets[-1].opt['reply_max_tokens'] < targets[-2].opt['reply_max_tokens']
    # the order that is planted is the order of the faults
    planted = load_protocol_file('real_demo').protocol.reference['Overall']
    assert sorted(planted, key=planted.__getitem__)[::-1] == [t.name for t in targets]


@pytest.mark.usefixtures('registered')
def test_its_systems_take_every_option():
    roster = load_roster('real').roster
    for system in (*roster.targets, *roster.partners):
        assert parsed_options(system, dict(system.opt))
