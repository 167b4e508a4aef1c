"""
What `--help` shows of our commands, and switches that take no value.
"""

import pytest

from parlai_ext.commands.command import find_command
from tests.commands.test_plugin import WAYS, run


def test_parlai_shows_options_in_groups_and_no_default_that_is_none():
    printed = run(*WAYS['parlai'], 'evaluate_systems', '--help').stdout
    titles = [line for line in printed.split('\n') if line.endswith(':')]
    assert 'before a long run:' in titles
    assert 'None' not in printed


@pytest.mark.parametrize('switch', ['--no-cuda', '--fp16', '--pilot'])
def test_a_switch_needs_no_value_and_takes_one(switch):
    parser, name = find_command('evaluate_systems').parser(), switch[2:]
    for given, value in (([], True), (['true'], True), (['false'], False)):
        found = vars(parser.parse_args([switch, *given]))
        assert found[name.replace('-', '_')] is value
