"""
docs/papers.md: each command is one that its parser takes, and what it names exists.
"""

import re
import shlex

import pytest

from benchmarks.chatmatch.__main__ import OPTIONS
from benchmarks.support.measures import option_parser
from parlai_ext.bench.run_bench import bench_plan
from parlai_ext.commands.command import find_command
from parlai_ext.files import load_roster
from parlai_ext.scoring.registry import find_scorer, load_protocol_file
from tests.support.repository import ROOT, docs_page

ROWS = re.findall(r'`((?:parlai|python -m) [^`]+)`', docs_page('papers'))
OURS = [row for row in ROWS if ' eval_model ' not in row and ' train_model ' not in row]


def parsed(row):
    program, command, *words = shlex.split(row)
    if program == 'python':
        return option_parser(None, **OPTIONS).parse_args(words[1:])
    return find_command(command).parser(command).parse_args(words)


@pytest.mark.parametrize('row', OURS)
def test_the_parser_takes_each_command_and_its_names_exist(row):
    given = vars(parsed(row))
    scorers = given.get('scorers') or ()
    if 'run_bench' in row:  # its --config and --scorers may be a file and its labels
        scorers = [
            v.section['name'] for v in bench_plan(scorers, (), given['config']).variants
        ]
    elif given.get('config'):
        assert load_protocol_file(given['config']).protocol.name
    if given.get('roster'):
        assert load_roster(given['roster']).roster.targets
    for name in [given.get('scorer'), *scorers]:
        assert not name or find_scorer(name)
    for name in given.get('sets') or ():
        assert (ROOT / 'zoo_configs' / 'judged' / f'{name}.yaml').exists()
