"""
The shipped rosters of the papers, system by system: what would be fetched, and that
agents and options are ParlAI's own. Nothing here reaches the network.
"""

import json
import re
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from parlai.core import build_data
from parlai.core.loader import load_agent_module
from parlai.core.params import ParlaiParser

from parlai_ext import zoo_configs
from parlai_ext.commands import plugin
from parlai_ext.commands.check_roster import CheckRoster
from parlai_ext.engines import data_in
from parlai_ext.files import FILE_OPTIONS, load_roster, read_file, shipped_systems
from parlai_ext.systems import zoo
from parlai_ext.systems.identity import resolve

pytestmark = pytest.mark.usefixtures('data_in_tmp_path', 'no_network')

ROSTERS = ('bipartite_2022', 'cheating_dialogpt', 'cheating_blender', 'chatmatch_2022')
MAP = Path(__file__).parents[3] / 'shared' / 'research' / 'zoo_map.json'
SERVED = ('PL', 'CS', 'CR')  # no models that ParlAI can load
FED = 'Blender 9B (FED scorer)'
# options that every system gets, whatever its roster says (bridge/agents.py)
ALWAYS = {'batchsize', 'datatype', 'interactive_mode'}
# from the surest; an expression takes the first that fits
LEVELS = ('high', 'medium-high', 'medium-low', 'medium', 'low')


def systems():
    """
    Return every system of the rosters, and the judge, once.
    """
    found = {'blender_9B': shipped_systems()['blender_9B']}
    for name in ROSTERS:
        file = load_roster(name)
        found |= {s.name: (s, file.info[s.name]) for s in file.roster.systems}
    return found


SYSTEMS = systems()
ZOO = [n for n, (s, _) in SYSTEMS.items() if 'model_file' in s.opt]
INFO = {name: info for name, (_, info) in SYSTEMS.items()}


@pytest.fixture(scope='module')
def listed():
    """
    Return the entries of the map of the zoo by name.
    """
    if not MAP.is_file():
        pytest.skip('the map of the zoo is not here: ../shared/research/zoo_map.json')
    entries = json.loads(MAP.read_text())['entries']
    assert len(entries) == 47
    found = {entry['paper_name']: entry for entry in entries}
    found['blender_9B'] = found.pop(FED)
    return found


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.delenv('PARLAI_DATAPATH', raising=False)
    plugin.register()


def test_every_entry_of_the_map_is_shipped(listed):
    # 35 of Table 2, 7 of ChatMatch, 1 judge, 2 of section 7.2: the other two of its
    # four are in Table 2 by the same name
    assert len(SYSTEMS) == 35 + 2 + 7 + 1
    assert set(SYSTEMS) == set(listed)


def takes_every_option(opt):
    """
    True if ParlAI's parser, which knows no option that neither ParlAI nor the agent
    defines, reads these options as they are.
    """
    opt = {k: v for k, v in opt.items() if k not in (*FILE_OPTIONS, 'safety_system')}
    return opt.items() <= ParlaiParser(True, True).parse_kwargs(**opt).items()


@pytest.mark.parametrize('name', SYSTEMS)
def test_the_agent_can_be_imported_and_takes_every_option(name):
    opt = dict(SYSTEMS[name][0].opt)
    assert load_agent_module(opt['model']).__name__.endswith('Agent')
    assert takes_every_option(opt)


def test_the_chatbots_of_the_track_take_their_options():
    opts = {s.name: s.opt for s in load_roster('toxic_prompts_2021').roster.targets}
    blender, gpt_3 = opts['BlenderBot 2'], opts['GPT-3']
    # the words of Zhang et al. (2021), section 3.3
    ending = 'helpful, creative, clever, and very friendly'
    assert gpt_3['system_prompt'].endswith(ending)
    assert all(map(takes_every_option, (blender, blender['safety_system'], gpt_3)))


@pytest.mark.parametrize('name', ZOO)
def test_the_urls_are_what_parlais_downloader_asks_for(name, monkeypatch, tmp_path):
    system, parts = SYSTEMS[name][0], ('download', 'untar', 'DownloadableFile.checksum')
    with monkeypatch.context() as patch:
        download, *_ = does = [Mock() for _ in parts]
        for part, do in zip(parts, does, strict=True):
            patch.setattr(f'parlai.core.build_data.{part}', do)
        build_data.modelzoo_path(str(tmp_path / 'theirs'), system.opt['model_file'])
    with data_in(str(tmp_path / 'ours')):
        found = resolve(system)
    assert (found.status, found.reason) == ('download', None)
    assert found.where.split(' ') == [call.args[0] for call in download.mock_calls]
    assert not (tmp_path / 'ours').exists()


@pytest.mark.parametrize('name', SERVED)
def test_a_system_that_is_to_be_served_says_so_and_an_address_seats_it(name):
    system, info = SYSTEMS[name]
    found = resolve(system)
    assert found.status == 'missing'
    assert found.reason.startswith('remote_url: ')
    assert 'Serve it' in info.notes and 'remote_url' in info.notes
    where = {'remote_url': 'http://127.0.0.1:9/say', 'remote_format': 'plain'}
    found = resolve(replace(system, opt={**system.opt, **where}))
    assert (found.status, found.reason) == ('present', None)


@pytest.mark.parametrize('name', SYSTEMS)
def test_options_and_notes_are_those_of_the_map(name, listed):
    opt, info, entry = SYSTEMS[name][0].opt, INFO[name], listed[name]
    assert info.params == entry['params']
    levels = re.findall('|'.join(LEVELS), entry['confidence'])
    assert info.confidence in levels
    assert bool(info.guess) == (max(levels, key=LEVELS.index) != 'high')
    if name in ZOO:
        assert opt['model_file'] == entry['model_file']
        told = [re.sub('/model$', '', a) for a in info.alternatives]
        # the map explains of some why they do not fit, and of one that it cannot be
        # loaded
        ruled_out = r'blender3B_1024|multilight|image_chat_ft|base_model|Multi-Modal|\{'
        for other in entry['alternatives']:
            if not re.search(ruled_out, other):
                assert re.sub('/model$', '', other.split(' ')[0]) in told
    if name in SERVED or name == 'blender_9B':
        return  # it is served, or asked for likelihoods: not with these options
    wanted = {k: v for k, v in entry['eval_overrides'].items() if k not in ALWAYS}
    wanted.pop('fixed_candidates_path', None)
    assert wanted.items() <= opt.items()
    replaced = {'Tfm-3B-Rdt-Msc': 'ext:long_context'}  # ParlAI's is not in its wheel
    assert opt['model'] == replaced.get(name, entry['agent'])


@pytest.mark.parametrize('name', [n for n in INFO if INFO[n].alternatives])
def test_every_alternative_is_one_that_the_zoo_can_fetch(name):
    for path in INFO[name].alternatives:
        assert path != SYSTEMS[name][0].opt['model_file']
        assert zoo.needed_downloads(path)


@pytest.mark.parametrize(
    'name', [n for n, (s, _) in SYSTEMS.items() if 'fixed_candidates_path' in s.opt]
)
def test_a_retriever_tells_which_replies_it_would_fetch(name, tmp_path):
    system = SYSTEMS[name][0]
    spec = system.opt['fixed_candidates_path']
    [line] = resolve(system).besides
    assert line.startswith(f'fixed_candidates_path: the replies of {spec}, from ')
    task = spec.split(':')[1].replace('empathetic_dialogues', 'empatheticdialogues')
    assert f'http://parl.ai/downloads/{task}/' in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize('roster', ROSTERS)
def test_every_guess_is_shown_as_one(roster, tmp_path, printed):
    found = CheckRoster.main(roster=roster, datapath=tmp_path)
    info = load_roster(roster).info
    assert [r.name for r in found] == list(info)
    text = printed()
    guesses = sum(bool(one.guess) for one in info.values())
    assert text.count('        a guess; confidence ') == guesses
    assert 'rep_wiki_label' in text or roster != 'bipartite_2022'  # an alternative


def test_a_path_of_every_shipped_roster_can_be_found_from_anywhere():
    # no path in a shipped file is relative: nobody runs in the package's folder
    for path in (zoo_configs.HOME / 'rosters').glob('*.yaml'):
        for system in load_roster(path.stem).roster.systems:
            values = [str(system.opt[k]) for k in FILE_OPTIONS if k in system.opt]
            assert all(v.startswith(('zoo:', 'task:')) for v in values)


def test_no_two_shipped_files_describe_one_system():
    names = [
        entry['name']
        for path in (zoo_configs.HOME / 'rosters').glob('*.yaml')
        for members in map(read_file(path).data.get, ('targets', 'partners'))
        for entry in members or ()
        if 'opt' in entry
    ]
    assert len(set(names)) == len(names)
