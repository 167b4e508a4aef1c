"""
A model's own `.opt` reads, writes and asks nothing that the user did not name.
"""

import json
from pathlib import Path

import pytest
from parlai.core.opt import Opt

from parlai_ext.commands import plugin
from parlai_ext.commands.convert_model import convert
from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import System
from parlai_ext.systems.parlai_agents import load_system
from parlai_ext.systems.safe.load import Refused, guarded, read_opt
from parlai_ext.systems.safe.model_options import is_our_agent
from tests.support.tiny_models import make_generator, make_ranker, with_options

SECRET = 'the lock opens with nine'


@pytest.fixture
def secret(tmp_path):
    """
    A file of the user's, beside no model.
    """
    plugin.register()
    path = tmp_path / 'private' / 'notes.txt'
    path.parent.mkdir()
    path.write_text(f'{SECRET}\n{SECRET} again\n')
    return path


def home(tmp_path):
    folder = tmp_path / 'home'
    folder.mkdir()
    return folder


def said(path, **opt):
    agent = load_system(System('x', {'model_file': path, **opt}), no_cuda=True).agent
    agent.observe({'id': 'you', 'text': 'tea', 'episode_done': False})
    return agent.act()['text']


@pytest.mark.parametrize(
    'agent, key',
    [
        ('transformer/polyencoder', 'fixed_candidates_path'),
        ('random_candidate', 'label_candidates_file'),
        ('ir_baseline', 'label_candidates_file'),
    ],
)
def test_no_reply_is_a_line_of_a_file_that_only_the_model_names(
    agent, key, tmp_path, secret
):
    path = make_ranker(home(tmp_path))
    with_options(path, model=agent, **{key: str(secret)})
    with pytest.raises(UserError, match=f'refused: its own {key} is ') as caught:
        said(path)
    assert f'`{key}: {secret}` in the roster entry' in str(caught.value)
    # the test could fail: what the user names is said
    assert said(path, **{key: str(secret)}).startswith(SECRET)
    with guarded([f'{path}.opt']):
        assert said(path).startswith(SECRET)


def test_a_link_beside_the_model_leads_nowhere_else(tmp_path, secret):
    path = make_ranker(home(tmp_path))
    link = tmp_path / 'home' / 'lines.txt'
    link.symlink_to(secret)
    with_options(path, fixed_candidates_path=str(link))
    with pytest.raises(UserError, match='refused: its own fixed_candidates_path'):
        said(path)


def test_a_model_in_ones_home_may_not_name_what_is_hidden_there(tmp_path, secret):
    path = make_ranker(home(tmp_path))
    hidden = tmp_path / 'home' / '.ssh' / 'key'
    hidden.parent.mkdir()
    hidden.write_text(SECRET)
    with_options(path, fixed_candidates_path=str(hidden))
    with pytest.raises(UserError, match='refused: its own fixed_candidates_path'):
        said(path)


def test_files_beside_the_model_and_of_the_data_folder_are_read(tmp_path, secret):
    path = make_ranker(home(tmp_path), candidates=['warm rain', 'old book'])
    assert said(path) in ('warm rain', 'old book')
    with_options(path, fixed_candidates_path=str(secret))
    assert said(path, datapath=str(secret.parent)).startswith(SECRET)


def test_a_dictionary_elsewhere_gives_way_to_the_models_own(tmp_path, secret):
    path = make_generator(home(tmp_path))
    before = said(path)
    with_options(path, dict_file=str(secret))
    assert said(path) == before
    (tmp_path / 'home' / 'tiny.dict').unlink()
    with pytest.raises(UserError, match='refused: its own dict_file is '):
        said(path)


@pytest.mark.parametrize(
    'agent',
    [
        'parlai.core.teachers:ParlAIDialogTeacher',
        'parlai.tasks.babi.agents:Task1kTeacher',
        'local_human',
        'safe_local_human',
    ],
)
def test_a_teacher_or_a_person_is_for_the_roster_to_seat(agent):
    plugin.register()
    assert not is_our_agent(agent)


@pytest.mark.parametrize('key', ['search_server', 'model_name'])
def test_a_server_or_a_repository_is_for_the_roster_to_name(key, tmp_path, secret):
    path = tmp_path / 'model.opt'
    path.write_text(json.dumps({'model': 'rag', key: 'a.host/x'}))
    with pytest.raises(Refused, match=f'with {key}, which a roster alone may set'):
        read_opt(path)
    assert read_opt(path, roster_opt={key: 'b'})[key] == 'a.host/x'
    path.write_text(json.dumps({'model': 'rag', key: None}))
    assert read_opt(path)['model'] == 'rag'


def test_a_model_may_name_the_repository_that_parlai_tunes(tmp_path):
    path = tmp_path / 'model.opt'
    opt = {'model': 'hugging_face/dialogpt', 'model_name': 'microsoft/DialoGPT-medium'}
    path.write_text(json.dumps(opt))
    assert read_opt(path) == opt
    path.write_text(json.dumps({**opt, 'model_name': '../microsoft/DialoGPT-medium'}))
    with pytest.raises(Refused, match='if you mean it: `model_name: …` in the roster'):
        read_opt(path)


def test_what_a_model_began_from_is_forgotten(tmp_path, secret):
    # BART would convert it, into a file that the options name
    opt = {'model': 'bart', 'init_fairseq_model': 'a', 'output_conversion_path': 'b'}
    opt |= {'init_model': str(secret), 'dict_initpath': str(secret), 'beam_size': 3}
    path = tmp_path / 'model.opt'
    path.write_text(json.dumps(opt))
    with guarded():
        assert dict(Opt.load(str(path))) == {'model': 'bart', 'beam_size': 3}
    assert dict(Opt.load(str(path))) == opt


def test_a_conversion_copies_no_file_that_only_the_model_names(tmp_path, secret):
    path = make_generator(home(tmp_path))
    with_options(path, dict_file=str(secret))
    (tmp_path / 'home' / 'tiny.dict').unlink()
    output = tmp_path / 'tiny.safetensors'
    with pytest.raises(UserError, match='refused: its own dict_file is '):
        convert(Path(path), output)
    assert not output.exists()
    # from ParlAI's data folder it is
    convert(Path(path), output, datapath=str(secret.parent))
    assert SECRET in Path(f'{output}.dict').read_text()
