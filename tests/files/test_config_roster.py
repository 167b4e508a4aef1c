"""
Rosters and ``--add-target``: systems from files, names and one line of text.
"""

import pytest

from parlai_ext.core import System
from parlai_ext.files import load_roster, parse_target
from parlai_ext.scoring.registry import load_protocol_file
from tests.support.user_error import error_line, user_error
from tests.support.written import written

ONE = {'name': 'one', 'opt': {'model': 'repeat_query'}}
TWO = {**ONE, 'name': 'two'}


def test_an_inline_roster_and_what_it_tells_of_a_system():
    info = {'params': 5, 'guess': True, 'alternatives': ('a', 'b')}
    found = load_roster({'targets': [{**ONE, **info}]})
    assert found.roster.targets == (System('one', {'model': 'repeat_query'}),)
    assert info.items() <= vars(found.info['one']).items()


def test_a_shipped_system_is_named_and_may_get_another_family():
    name = 'Trm-88M-Rdt-Bst'
    entry = {'name': name, 'family': 'small ones'}
    found = load_roster({'targets': [entry], 'partners': [ONE]})
    assert found.roster.targets[0].opt['model_file'] == 'zoo:blender/blender_90M/model'
    assert found.info[name].family == 'small ones'


@pytest.mark.parametrize(
    'roster, words',
    [
        ({'targets': ['Trm-88M-Rdt-Bts']}, "did you mean 'Trm-88M-Rdt-Bst'?"),
        ({'targets': [ONE], 'partners': [ONE]}, 'partners[0]'),
        ({'targets': [ONE], 'partner': [ONE]}, "did you mean 'partners'?"),
    ],
)
def test_a_wrong_roster_is_named_by_its_place(roster, words):
    assert words in error_line(load_roster, roster)


@pytest.mark.parametrize(
    'entry, words',
    [
        ({'opt': {'model': 'x'}}, 'targets[1].name: '),
        ({'name': 'x'}, 'targets[1].opt: '),
        ({**TWO, 'opt': {}}, "needs 'model_file' or 'model'"),
        ({'name': 'x', 'model_file': 'y'}, 'belongs under opt'),
        ({'name': 'x', 'opts': {}}, "did you mean 'opt'?"),
        ({**TWO, 'name': 'a\nb'}, 'a name is one line'),
        ({**TWO, 'params': 'many'}, 'params: a whole number expected'),
        ({**TWO, 'opt': {'model': 'y', 'p': float('nan')}}, 'finite'),
        (7, 'a mapping expected, not 7'),
    ],
)
def test_a_wrong_entry_is_named_by_its_place(entry, words):
    found = error_line(load_roster, {'targets': [ONE, entry]})
    assert 'targets[1]' in found and words in found


@pytest.mark.parametrize('ending', ['yaml', 'json'])
def test_a_system_may_be_a_file_whose_paths_are_beside_it(ending, tmp_path):
    folder = tmp_path / 'systems'
    folder.mkdir()
    (folder / 'model').touch()
    # what is not there stays as it is
    opt = {'model_file': 'model', 'dict_file': 'a/b'}
    mine = written(folder, f'mine.{ending}', {'name': 'x', 'opt': opt})
    roster = written(tmp_path, 'r.yaml', f'targets: [systems/mine.{ending}]')
    system = System('x', {**opt, 'model_file': str(folder / 'model')})
    assert load_roster(str(roster)).roster.targets == (system,)
    assert parse_target(str(mine))[0] == system


def test_a_file_in_a_roster_is_one_system_and_no_further_file(tmp_path):
    roster = str(written(tmp_path, 'r.yaml', 'targets: [mine.yaml]'))
    said = error_line(load_roster, roster)
    assert said.startswith(f'{roster}:1: targets[0]: there is no file mine')
    mine = written(tmp_path, 'mine.yaml', 'mine.yaml')
    assert error_line(load_roster, roster).startswith(str(mine))


@pytest.mark.parametrize(
    'spec, name, opt',
    [
        ('A=/m/model', 'A', {'model_file': '/m/model'}),
        ('A=agent:my.one:Agent,x=true', 'A', {'model': 'my.one:Agent', 'x': True}),
        (
            'A=m,model=bart,beam-size=3,x=1e-4',
            'A',
            {'model_file': 'm', 'model': 'bart', 'beam_size': 3, 'x': 0.0001},
        ),
        ('zoo:blender/blender_90M/model', 'blender_90M', {}),
        ('/a/my_bot/model', 'my_bot', {}),
        ('Trm-88M-Rdt-Bst', 'Trm-88M-Rdt-Bst', {'beam_size': 10}),
        (
            'a=http://host/v1,remote_model=m',
            'a',
            {
                'model': 'ext:remote',
                'remote_url': 'http://host/v1',
                'remote_model': 'm',
            },
        ),
    ],
)
def test_a_target_on_the_command_line(spec, name, opt):
    found = parse_target(spec)[0]
    assert found.name == name
    assert opt.items() <= found.opt.items()


def test_a_folder_with_a_config_is_a_hugging_face_model(tmp_path):
    folder = tmp_path / 'smol'
    folder.mkdir()
    assert parse_target(f'A={folder}')[0].opt == {'model_file': str(folder)}
    written(folder, 'config.json', '{}')
    for spec, name, opt in (
        (f'{folder}/', 'smol', {'hf_model': f'{folder}/'}),
        (f'A={folder},x=0.5', 'A', {'hf_model': str(folder), 'x': 0.5}),
    ):
        assert parse_target(spec)[0] == System(name, {'model': 'ext:hf', **opt})
    # an agent that is named reads the folder itself
    own = parse_target(f'A={folder},model=my:Agent')[0].opt
    assert own == {'model_file': str(folder), 'model': 'my:Agent'}


@pytest.mark.parametrize(
    'spec',
    # the last two are agents without their prefix
    ['', '=m', 'A=', 'A=agent:', 'A=m,beam_size', 'A=m,=3', 'none.yaml', ' =m']
    + ['A=my_agent:Mine', 'my_agent.py'],
)
def test_a_target_that_cannot_be_meant_is_one_line(spec):
    with user_error():
        parse_target(spec)


def test_a_roster_taken_for_a_protocol_is_pointed_to():
    with user_error('--roster cheating_blender'):
        load_protocol_file('cheating_blender')


def test_the_home_folder_is_found_in_a_roster_and_in_add_target(monkeypatch):
    monkeypatch.setenv('HOME', '/home/me')
    found = load_roster({'targets': [{'name': 'one', 'opt': {'model_file': '~/m'}}]})
    expected = System('one', {'model_file': '/home/me/m'})
    assert found.roster.targets[0] == parse_target('one=~/m')[0] == expected
