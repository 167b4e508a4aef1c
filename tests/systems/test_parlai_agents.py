"""
Loading a system: whose options win, what is shared, and what one clear line says.
"""

import os

import pytest
import torch

from parlai_ext.core import System
from parlai_ext.systems.parlai_agents import samples
from parlai_ext.systems.players import Player
from tests.support.talk import loaded
from tests.support.tiny_models import make_generator, make_ranker, with_options
from tests.support.user_error import user_error

pytestmark = pytest.mark.usefixtures('data_in_tmp_path')


@pytest.fixture(scope='module')
def generator(module_folder):
    return make_generator(module_folder, 'generator', inference='beam', beam_size=4)


def test_a_systems_options_win_over_the_models_own(generator):
    agent = loaded(model_file=generator, beam_size=2).agent
    assert (agent.opt['inference'], agent.beam_size) == ('beam', 2)


def test_nothing_is_built_for_training(module_folder):
    path = make_generator(module_folder, 'trained')
    with_options(path, datatype='train', interactive_mode=False)
    agent = loaded(model_file=path).agent
    assert agent.opt['datatype'] == 'valid'
    assert not hasattr(agent, 'optimizer')


def test_participants_share_the_weights(generator):
    player = loaded(model_file=generator)
    assert player.join().agent.model is player.agent.model
    # ParlAI counts 15,840 parameters; its start token is one int64 more
    assert player.n_bytes == 15840 * 4 + 8


@pytest.mark.parametrize(
    'key, value, line',
    [
        ('fixed_candidates_path', '/no/file', 'there is no f'),
        ('fixed_candidates_path', None, 'not given'),
        ('fixed_candidate_vecs', '/no/file', 'no file of vec'),
    ],
)
def test_a_wrong_candidate_option_is_one_line(module_folder, key, value, line):
    path = with_options(make_ranker(module_folder, 'wrong'), **{key: value})
    with user_error(f"^system 'mine': {key}: {line}"):
        loaded('mine', model_file=path)


def test_a_ranker_scores_candidates_with_its_own_vectors(module_folder):
    ranker = make_ranker(module_folder, 'ranker')
    # what ParlAI would have read: vectors of other candidates under this name
    stale = torch.zeros(40, 3, dtype=torch.long)
    torch.save(stale, module_folder / 'ranker.ranker.candidates.vecs')
    before = sorted(module_folder.iterdir())
    agent = loaded(model_file=ranker).agent
    assert sorted(module_folder.iterdir()) == before  # nothing is written
    texts = [agent.dict.vec2txt(v[v != 0].tolist()) for v in agent.fixed_candidate_vecs]
    assert texts == [f'__start__ {c} __end__' for c in agent.fixed_candidates]


@pytest.mark.parametrize(
    'opt, line',
    [
        ({}, r'model_file: not given, and no model either'),
        ({'model': 'nobody'}, r"model: no agent 'nobody': .*parlai.agents.nobody"),
        ({'model': 'agent:own:Mine'}, r'model: no agent .* write own:Mine'),
        ({'beam_sise': 3}, r"beam_sise: unknown; did you mean 'beam_size'\?"),
        ({'beam_size': 'three'}, r"beam_size: invalid int value: 'three'"),
        ({'n_layers': 7}, r'model_file: \S+ is no transformer/generator with'),
        ({'datatype': 'train'}, r'datatype: train builds an optimizer'),
    ],
)
def test_one_line_names_system_and_option(generator, opt, line):
    if 'model' not in opt and opt:
        opt = {'model_file': generator, **opt}
    with user_error(f"^system 'mine': {line}"):
        loaded('mine', **opt)


@pytest.mark.parametrize('model', ['own_file:Mine', 'own_file.py:Mine', 'own_file'])
def test_an_agent_in_a_file_here_is_told_how_to_be_named(tmp_path, monkeypatch, model):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'own_file.py').write_text('')
    with user_error('PYTHONPATH=. and write own_file:(Mine|CLASS)$'):
        loaded('mine', model=model)


@pytest.mark.parametrize(
    'opt, expected',
    [
        ({}, False),
        ({'inference': 'delayedbeam'}, True),
    ],
)
def test_options_tell_whether_a_system_draws(generator, module_folder, opt, expected):
    assert samples(System('a', {'model_file': generator, **opt})) is expected
    # and a model's own, where the roster has none
    own = make_generator(module_folder, 'drawing', **opt)
    assert samples(System('a', {'model_file': own})) is expected


def test_an_agent_with_its_own_act_speaks_alone(generator):
    player = loaded(model_file=generator)
    assert player.batches
    kind = type(player.agent)
    own = type('Own', (kind,), {'act': lambda self: {'text': 'mine'}})
    assert not Player('own', own.__new__(own)).batches


def test_a_model_that_cannot_be_downloaded_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(os.environ, 'HF_HUB_OFFLINE', '1')
    monkeypatch.chdir(tmp_path)
    # whose size is ParlAI's own
    with user_error(
        "^system 'far': gpt2_size: no tokenizer of microsoft/DialoGPT-small"
    ):
        loaded('far', model='hugging_face/dialogpt')
