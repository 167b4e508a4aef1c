"""
What the pages of docs/ say to copy works, and what they name is there: docs/systems.md
and its neighbours, docs/papers.md and docs/real_demo.md.
"""

import json
import re
import shlex
import socket
import subprocess
import sys
from itertools import pairwise

import pytest
from parlai.core.loader import load_agent_module

from benchmarks.chatmatch.__main__ import OPTIONS
from benchmarks.support.measures import option_parser
from parlai_ext import zoo_configs
from parlai_ext.bench.run_bench import bench_plan
from parlai_ext.commands import plugin
from parlai_ext.commands.command import COMMANDS, find_command
from parlai_ext.commands.evaluate_systems import EvaluateSystems
from parlai_ext.files import FILE_OPTIONS, load_roster, parse_target
from parlai_ext.files.protocol_file import read_system
from parlai_ext.files.yaml_file import read_text
from parlai_ext.scoring.registry import find_scorer, load_protocol_file
from parlai_ext.store import RunFolder
from parlai_ext.systems import parlai_agents
from parlai_ext.systems.parlai_agents import parsed_options
from parlai_ext.systems.remote import plain
from parlai_ext.systems.remote.settings import Settings
from tests.support.repository import ROOT, docs_page
from tests.support.small_run import small_config
from tests.support.tiny_models import make_generator
from tests.support.trusted import trusted
from tests.support.waiting import comes_true

# the page on systems leads to others, which are read with it
PARTS = {
    'docs/systems.md': 'systems hugging_face endpoints system_families '
    'model_files long_runs',
    'docs/evaluate.md': 'evaluate run_again',
}
PAGES = {
    name: '\n'.join(map(docs_page, parts.split())) for name, parts in PARTS.items()
}
PAGE = PAGES['docs/systems.md']
BLOCK = re.compile(r'^```(\w+)\n# (\S+)\n(.*?)^```$', re.MULTILINE | re.DOTALL)
BLOCKS = {name: text for _, name, text in BLOCK.findall(PAGE)}
SEATS = [name for name, text in BLOCKS.items() if re.search(r'^opt:', text, re.M)]
SERVED = 'http://127.0.0.1:8123/'  # where the page's server is
OWN = {'mine': '/path/to/model', 'qwen-0.5b': 'Qwen/Qwen2.5-0.5B-Instruct'}
OWN['blenderbot-hf'] = 'facebook/blenderbot-400M-distill'
FUNCTION = 'function=agent:my_function:MyFunction'  # named nowhere on the page
SYSTEMS = ('mine', 'agent', 'function', 'qwen-0.5b', 'blenderbot-hf', 'mybot')


def system_of(name):
    """
    Return the system of a block, read as strictly as from a file.
    """
    document = read_text(BLOCKS[name], name)
    return read_system(document, document.data, ())[0]


def command_lines(page):
    """
    Return the words of every command of ours on a page, without its comments.
    """
    lines = re.sub(r'\\\n\s+', '', PAGES[page]).split('\n')
    calls = [re.fullmatch(r' {4}(?:PYTHONPATH=\. )?parlai (.*)', one) for one in lines]
    words = [shlex.split(call[1], comments=True) for call in calls if call]
    return [found for found in words if found[0] in COMMANDS]


def targets(page):
    """
    Return every value of ``--add-target`` on a page, also where it stands alone.
    """
    pairs = [pair for words in command_lines(page) for pair in pairwise(words)]
    found = [value for option, value in pairs if option == '--add-target']
    return found + re.findall(r'`(mine=[^`\n]+)`', PAGES[page])


@pytest.fixture(scope='module')
def bot(tmp_path_factory):
    """
    Run the page's server in a process of its own; return its address.
    """
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    script = tmp_path_factory.mktemp('bot') / 'server.py'
    script.write_text(BLOCKS['server.py'].replace('8123', str(port)), encoding='utf-8')
    quiet = subprocess.DEVNULL
    with subprocess.Popen([sys.executable, str(script)], stderr=quiet) as process:
        try:
            assert comes_true(lambda: listens(port))
            yield f'http://127.0.0.1:{port}/'
        finally:
            process.kill()


def listens(port):
    with socket.socket() as caller:
        return caller.connect_ex(('127.0.0.1', port)) == 0


@pytest.fixture(scope='module')
def folder(module_folder, hf_folder, bot):
    """
    Return a user's folder with the page's files, each fit to this machine.
    """
    here = {
        'mine': make_generator(module_folder, 'tiny'),
        'qwen-0.5b': hf_folder('llama'),
        'blenderbot-hf': hf_folder('bart'),
    }
    for name, text in BLOCKS.items():
        for system, theirs in OWN.items():
            text = text.replace(theirs, here[system])
        (module_folder / name).write_text(text.replace(SERVED, bot), encoding='utf-8')
    return module_folder


@pytest.fixture(scope='module')
def run(folder):
    """
    Return the run in which all of them talked once and were judged.
    """
    page = targets('docs/systems.md')
    agent = next(one for one in page if one.startswith('mine=agent:'))
    rosters = ('mine.yaml', 'qwen.yaml', 'blenderbot.yaml', 'mybot.yaml')
    with pytest.MonkeyPatch.context() as patch, trusted(*folder.glob('*.py')):
        # none has a process of its own, which takes seconds to begin
        patch.setattr(parlai_agents, 'is_trusted', lambda system: True)
        patch.syspath_prepend(str(folder))  # as PYTHONPATH=. does
        EvaluateSystems.main(
            config=small_config(folder, targets=1, partners=1),
            run_dir=folder / 'run',
            datapath=str(folder / 'data'),
            num_dialogues=1,
            bootstraps=50,
            check_sample=4,
            no_cuda=True,
            add_target=[str(folder / name) for name in rosters]
            + [agent.replace('mine=', 'agent='), FUNCTION],
        )
    return RunFolder.existing(folder / 'run')


def dialogue_of(run, name):
    pairing = next(p for p in run.pairings if p.first == name)
    [dialogue] = run.read_dialogues(run.shard(pairing.id, 0))
    return dialogue


@pytest.mark.parametrize('name', SYSTEMS)
def test_systems_copied_from_the_page_talk_and_are_scored(run, name):
    dialogue = dialogue_of(run, name)
    assert (dialogue.ended_by, dialogue.reason) == (None, None)
    assert len(dialogue.utterances) == 6
    overall = run.read_json('ranking.json')['dimensions']['Overall']
    assert {row['system']: row['n_unscored'] for row in overall}[name] == 0


def test_the_bot_says_what_its_server_says(run):
    _, heard, said, *_ = dialogue_of(run, 'mybot').texts
    assert said == f'You said: {heard}'


def test_the_page_of_the_plain_format_has_the_same_server():
    page = ''.join(plain.__doc__.split())
    assert ''.join(BLOCKS['server.py'].split()) in page


@pytest.mark.parametrize('name', SEATS)
def test_options_of_the_page_are_those_of_the_agent(name, monkeypatch):
    monkeypatch.setenv('OPENAI_API_KEY', 'none')
    monkeypatch.setenv('PARLAI_DATAPATH', '/nowhere')  # or the parser would set it
    plugin.register()
    system = system_of(name)
    agent = system.opt.get('model', 'transformer/generator')  # else its `.opt` says
    given = {k: v for k, v in system.opt.items() if k not in FILE_OPTIONS}
    found = parsed_options(system, {**given, 'model': agent})
    parsed = json.dumps({key: found[key] for key in given})  # a tuple is a list
    assert json.loads(parsed) == given
    if agent == 'ext:remote':
        assert Settings.from_options(system.opt).url == system.opt['remote_url']


def test_a_roster_mixes_shipped_systems_and_own(folder):
    targets = load_roster(str(folder / 'my_roster.yaml')).roster.targets
    assert [one.name for one in targets] == ['Tfm-89M-Ddc-Ddg', 'another', 'mine']
    assert targets[0].opt['model'] == 'image_seq2seq'


@pytest.mark.parametrize('page', PAGES)
def test_commands_of_the_page_have_these_options(page):
    lines = command_lines(page)
    assert lines
    for name, *rest in lines:
        options = find_command(name).parser().parse_args(rest)
        config = getattr(options, 'config', None)
        if config and config.islower():  # in capitals it stands for any
            assert zoo_configs.path('protocols', config).is_file()


@pytest.mark.parametrize('page', PAGES)
def test_targets_of_the_page_can_be_meant(page):
    for spec in targets(page):
        if not spec.endswith('.yaml'):
            assert parse_target(spec)[0].opt
        elif page == 'docs/systems.md':
            assert spec in SEATS


def test_every_option_that_the_page_names_exists():
    plugin.register()
    systems = map(system_of, ('qwen.yaml', 'mybot.yaml'))
    known = set().union(*(parsed_options(one, dict(one.opt)) for one in systems))
    named = set(re.findall(r'(?<![\w/.])((?:hf|remote)_[a-z_]+[a-z])\b', PAGE))
    assert len(named) > 25
    assert named - {'remote_cache.sqlite'} <= known
    parsers = [find_command(name).parser() for name in COMMANDS]
    options = {o for parser in parsers for o in parser._option_string_actions}
    assert set(re.findall(r'(?<![\w-])--[a-z][a-z-]+', PAGE)) <= options


def table_rows(head):
    table = PAGE[PAGE.index(head) :].split('\n\n')[0]
    return [row.strip('|').split('|') for row in table.split('\n')[2:]]


def test_every_family_has_its_class_and_its_tests():
    plugin.register()
    rows = table_rows('| family |')
    assert len(rows) == 13
    for _, models, judges, _, tests in rows:
        for model in re.findall('`(.*?)`', models):
            assert load_agent_module(model).__name__.endswith('Agent')
        assert judges.strip() in ('yes', 'no')
        for test in re.findall('`(.*?)`', tests):
            assert len(list((ROOT / 'tests').rglob(f'{test}.py'))) == 1


def test_rosters_and_protocols_of_the_page_are_all_that_are_shipped():
    rows = table_rows('| roster |')
    for column, kind in ((0, 'rosters'), (2, 'protocols')):
        named = {name for row in rows for name in re.findall('`(.*?)`', row[column])}
        assert named == {p.stem for p in (zoo_configs.HOME / kind).glob('*.yaml')}


# docs/papers.md: each command is one that its parser takes, and what it names
# exists.

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


# The demo with real models: its planted order follows from its options, and these
# are known.


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
