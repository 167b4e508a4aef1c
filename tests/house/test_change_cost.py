"""
What the smallest change of each kind costs: it is made over a copy of the tree that
links to the real files, and must work with no more files touched than this table says.
"""

import io
import json
import traceback
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from tests.house.measures import BESIDE, ROOT
from tests.support.forked import command_in_child

NEW_SCORER = '''
from parlai_ext.scoring.trivial import Trivial

class Vowels(Trivial):
    """How many vowels there are."""
    name = 'vowels'

    def item_score(self, item):
        return float(sum(c in 'aeiou' for c in item.response))
'''
NEW_DETECTOR = '''
from parlai_ext.scoring.toxicity import ToxicityDetector

class Shouting(ToxicityDetector):
    """The share of capitals."""
    name = 'shouting'

    def toxicity(self, texts):
        return [sum(map(str.isupper, text)) / len(text) for text in texts]
'''
NEW_SECTION = '''
from parlai_ext.view.page import Section

def motto_section(view):
    """Return the section."""
    return Section('motto', 'Motto', 'talk well')
'''
NEW_COMMAND = '''
from parlai_ext.commands.command import Command

class GreetUser(Command):
    """Greet."""

    def run(self):
        """Print."""
        print('hello from a feature')
'''
NEW_AGENT = '''
from parlai.core.agents import Agent

class ShoutAgent(Agent):
    """Shouts."""

    def act(self):
        """Return the reply."""
        return {'text': 'HO', 'episode_done': False}
'''
NEW_FAMILY = """class Shout(Family):
    agents = ('ext:shout',)


# the first that covers a system's options is its family
"""
# kind of change -> the most files, {file: new text, or (what stands there, what then)},
# and what must be printed by which program
CHANGES = {
    'scorer': (
        2,
        {
            'parlai_ext/scoring/vowels.py': NEW_SCORER,
            'parlai_ext/scoring/registry.py': (
                'SCORERS = {',
                "SCORERS = {'vowels': 'parlai_ext.scoring.vowels:Vowels',",
            ),
        },
        'from parlai_ext.scoring.score_run import ChosenScorer\n'
        'from parlai_ext.scoring.base import ScoringItem\n'
        "scorer = ChosenScorer({'name': 'vowels'}).build()\n"
        "print(scorer.score([ScoringItem(('hi',), 'aeiou')])[0].values)",
        "{'Overall': 5.0}",
    ),
    'detector of toxic texts': (
        1,
        {'parlai_ext/scoring/shouting.py': NEW_DETECTOR},
        'from parlai_ext.models.handle import ModelHandle\n'
        'from parlai_ext.scoring.toxicity import read_detector\n'
        "name = 'parlai_ext.scoring.shouting:Shouting,threshold=0.5'\n"
        'one = read_detector(name, ModelHandle())\n'
        "print(one.of_texts(['Ab', 'abcD']))",
        '[(0.5, True), (0.25, False)]',
    ),
    'kind of model': (
        3,
        {
            'parlai_ext/models/parser.py': 'def load_parser(kind, name, system, '
            "machine):\n    return f'{kind} {name}'\n",
            'parlai_ext/models/handle.py': (
                "    chat: Kind[AgentChat] = Kind('chat:load_chat')",
                "    chat: Kind[AgentChat] = Kind('chat:load_chat')\n"
                "    parser: Kind[str] = Kind('parser:load_parser')",
            ),
            'parlai_ext/files/model_cards.py': (
                "    'chat',\n",
                "    'chat',\n    'parser',\n",
            ),
        },
        'from unittest.mock import patch\n'
        'from parlai_ext.models.handle import ModelHandle\n'
        '# one that nobody trusts has a process of its own\n'
        "with patch('parlai_ext.systems.parlai_agents.is_trusted'):\n"
        "    print(ModelHandle().parser('hf:owner/name'))",
        'parser hf:owner/name',
    ),
    'judged set': (
        1,
        {
            'zoo_configs/judged/tiny.yaml': 'title: three responses\nsource: a test\n'
            'licence: MIT\nlevel: turn\nformat: own\nfile: tiny.csv\n'
            'unit: context\noverall: good\nqualities:\n  good: [1, 5]\n'
            'counts: {items: 3, systems: 1, annotations: 3, texts: 0}\n'
        },
        'from parlai_ext.data.judged.cards import read_card\n'
        "print(read_card('tiny').title)",
        'three responses',
    ),
    'leaderboard column': (
        1,
        {
            'parlai_ext/report/table.py': (
                "    _column('high', 'its upper end', NUMBER),\n",
                "    _column('high', 'its upper end', NUMBER),\n    _column('shout', "
                "'its name, loud', TEXT, of=lambda r: r.standing.system.upper()),\n",
            )
        },
        'from parlai_ext.report.table import leaderboard_csv\n'
        'from tests.support.report_example import example_ranking\n'
        'import csv, io\n'
        'row = next(csv.DictReader(io.StringIO(leaderboard_csv(example_ranking()))))\n'
        "print(row['shout'] == row['system'].upper())",
        'True',
    ),
    'pairing scheme': (
        1,
        {
            'worlds/pairings.py': (
                'PLAYED = {',
                "PLAYED = {\n    'neighbours': PairingScheme('each with the next', "
                'lambda targets, partners: zip(targets, targets[1:])),',
            )
        },
        'from parlai_ext.worlds.pairings import SCHEMES, schemes_help\n'
        "print(list(SCHEMES['neighbours'].pairs('abc', ())), schemes_help()[:11])",
        "[('a', 'b'), ('b', 'c')] neighbours ",
    ),
    'agent family': (
        3,
        {
            'agents/shout/__init__.py': '',
            'agents/shout/shout.py': NEW_AGENT,
            'parlai_ext/systems/families.py': (
                "# the first that covers a system's options is its family\n"
                'FAMILIES: dict[str, Family] = {',
                NEW_FAMILY + "FAMILIES: dict[str, Family] = {\n    'shout': Shout(),",
            ),
        },
        'from parlai_ext.compat.parlai_setup import prepare_parlai\n'
        'prepare_parlai()\n'
        'from parlai.core.loader import load_agent_module\n'
        'from parlai_ext.systems.families import family_of\n'
        "print(type(family_of({'model': 'ext:shout'})).__name__, "
        "load_agent_module('ext:shout').__name__)",
        'Shout ShoutAgent',
    ),
    'section of the page': (
        3,
        {
            'parlai_ext/report/motto.py': NEW_SECTION,
            'parlai_ext/view/templates/sections/motto.html.j2': (
                '<h2>{{ section.title }}</h2><p>{{ section.data }}</p>'
            ),
            'parlai_ext/report/page.py': (
                'SECTIONS = (',
                'from parlai_ext.report.motto import motto_section\n'
                'SECTIONS = (\n    motto_section,',
            ),
        },
        'from parlai_ext.report.page import render_rankings\n'
        'from parlai_ext.report.browse import PageDialogues\n'
        'from parlai_ext.report.view import RankingView\n'
        'from tests.support.report_example import example_ranking\n'
        'from tests.support.store_samples import sample_manifest\n'
        'views = [RankingView(example_ranking(), sample_manifest())]\n'
        'page = render_rankings(views, PageDialogues([], 0))\n'
        "print('<h2>Motto</h2><p>talk well</p>' in page)",
        'True',
    ),
    'feature with a command': (
        2,
        {
            'parlai_ext/commands/greet_user.py': NEW_COMMAND,
            'parlai_ext/commands/command.py': (
                'COMMANDS = {',
                "COMMANDS = {\n    'greet_user': 'Greet the user',",
            ),
        },
        'from parlai_ext.__main__ import main\n'
        "import sys\nsys.argv = ['parlai', 'greet_user']\nmain()",
        'hello from a feature',
    ),
}


def changed_tree(folder, changes):
    """
    Make a tree of links to the house in which some files are changed or new.
    """
    package = folder / 'parlai_ext'
    package.mkdir()
    for path in (ROOT / 'parlai_ext').iterdir():
        (package / path.name).symlink_to(path)
    for top in ('parlai_internal', 'tests'):
        (folder / top).symlink_to(ROOT / top)
    for name, change in changes.items():
        parts = Path(name).parts
        real, place = ROOT / name, folder.joinpath(*parts)
        if parts[0] in BESIDE:
            place = package / name
        open_folder(place.parent, real.parent, package)
        place.unlink(missing_ok=True)
        if isinstance(change, tuple):
            before, after = change
            text = real.read_text(encoding='utf-8')
            assert text.count(before) == 1, before
            change = text.replace(before, after)
        else:
            assert not real.exists()
        place.write_text(change, encoding='utf-8')


def open_folder(place, real, root):
    """
    Make a linked folder and those above it real ones, whose files are links.
    """
    if place == root:
        return
    open_folder(place.parent, real.parent, root)
    if place.is_dir() and not place.is_symlink():
        return
    place.unlink(missing_ok=True)
    place.mkdir()
    for path in real.iterdir() if real.is_dir() else ():
        (place / path.name).symlink_to(path)


@pytest.fixture(scope='module')
def outputs(tmp_path_factory):
    """
    By its kind, what the program of each change prints; no two changes touch the same
    file, so one tree has them all.
    """
    folder = tmp_path_factory.mktemp('tree')
    changes = [change for _, files, *_ in CHANGES.values() for change in files.items()]
    assert len(dict(changes)) == len(changes)
    changed_tree(folder, dict(changes))
    done = command_in_child(run_all, path=[folder], forget=['parlai_ext', 'tests'])
    assert done.code == 0, done.errors
    return json.loads(done.out.rstrip('\n').split('\n')[-1])


def run_all(_):
    printed = {}
    for kind, (*_, program, _) in CHANGES.items():
        with redirect_stdout(io.StringIO()) as out:
            try:
                exec(program, {})
            except Exception:
                print(traceback.format_exc())
        printed[kind] = out.getvalue()
    print(json.dumps(printed))


@pytest.mark.parametrize('kind', CHANGES)
def test_the_smallest_change_touches_few_files_and_works(outputs, kind):
    most, changes, _, printed = CHANGES[kind]
    assert len(changes) <= most
    assert outputs[kind].rstrip('\n').split('\n')[-1] == printed, outputs[kind]
