"""
A model file that is not what the roster says gets one line, with the key that is wrong.
"""

import re
import shutil
from pathlib import Path

import pytest

from parlai_ext.core.nouns import System
from parlai_ext.systems.parlai_agents import load_system, why_unfit
from tests.support.families import FAMILIES
from tests.support.user_error import user_error

SMALL_BART = {'n_encoder_layers': 1, 'n_decoder_layers': 1, 'embedding_size': 16}
CHANGED = {
    'another class': ('generator', {'model': 'transformer/polyencoder'}),
    'a ranker as generator': ('polyencoder', {'model': 'transformer/generator'}),
    'an lstm as bart': ('seq2seq_lstm', {'model': 'bart', **SMALL_BART, 'n_heads': 2}),
    'bart as lstm': ('bart', {'model': 'seq2seq'}),
    'a ranker with images': ('polyencoder', {'model': 'image_seq2seq'}),
    'more layers': ('generator', {'n_layers': 5}),
    'wider': ('generator', {'embedding_size': 32}),
}


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp('misfit')


@pytest.fixture(scope='module')
def built(folder):
    names = dict.fromkeys(name for name, _ in CHANGED.values())
    return {name: FAMILIES[name](folder) for name in names}


def misfit_line(opt):
    """
    Return what is said of a system that cannot be loaded.
    """
    with user_error() as caught:
        load_system(System('x', opt))
    return why_unfit(caught.value.__cause__, opt)


def without_ranking(opt):
    return {k: v for k, v in opt.items() if k != 'fixed_candidates_path'}


@pytest.mark.parametrize('case', CHANGED)
def test_a_model_file_that_does_not_fit_is_one_short_line(built, folder, case):
    name, change = CHANGED[case]
    opt = {**without_ranking(built[name]), **change}
    if opt['model'] == 'transformer/polyencoder':
        candidates = folder / 'replies.txt'
        candidates.write_text('you like tea\n')
        opt['fixed_candidates_path'] = str(candidates)
    line = misfit_line(opt)
    start = f'model_file: {opt["model_file"]} is no {opt["model"]}'
    assert line.startswith(start)
    rest = line.removeprefix(start)
    assert ': its weights do not fit (' in rest
    assert '\n' not in rest and len(rest) < 200


def test_the_line_names_the_system(built):
    opt = {**built['seq2seq_lstm'], 'model': 'transformer/generator'}
    start = f"system 'x': model_file: {opt['model_file']} is no transformer/generator: "
    with user_error(f'^{re.escape(start)}its weights do not fit'):
        load_system(System('x', opt))
    assert misfit_line(opt).endswith("; its own options say 'seq2seq'")


def test_without_a_model_in_the_roster_its_own_is_named(built):
    opt = {'model_file': built['generator']['model_file'], 'n_layers': 5}
    line = misfit_line(opt)
    assert ' is no transformer/generator with these options: its weights' in line


def copy_of(opt, folder):
    for path in Path(opt['model_file']).parent.glob('generator*'):
        shutil.copy(path, folder / path.name)
    return {**opt, 'model_file': str(folder / 'generator')}


@pytest.mark.parametrize('words, n', [(['one', 'word'], 6), ([], 4)])
@pytest.mark.parametrize('name', ['generator.dict', 'other.dict'])
def test_a_dictionary_of_another_size_is_named(built, tmp_path, name, words, n):
    opt = copy_of(built['generator'], tmp_path)
    (tmp_path / 'generator.dict').unlink()
    (tmp_path / name).write_text(''.join(f'{word}\t1\n' for word in words))
    opt['dict_file'] = str(tmp_path / name)
    line = misfit_line(opt)
    # 30 words and ParlAI's four are in the tiny models' dictionary
    assert line.startswith(f'dict_file: {tmp_path / name} makes {n} words')
    assert line.endswith(f'{opt["model_file"]} are for 34')


def test_a_dictionary_that_is_not_there_is_named(built, tmp_path):
    opt = copy_of(built['generator'], tmp_path)
    (tmp_path / 'generator.dict').unlink()
    opt['dict_file'] = str(tmp_path / 'gone.dict')
    line = misfit_line(opt)
    assert line.startswith(f'dict_file: there is no file {tmp_path}/gone.dict')
    assert '34 words' in line


@pytest.mark.parametrize('error', [ValueError('elsewhere'), MemoryError()])
def test_an_error_that_is_not_about_weights_is_left_alone(built, error):
    with pytest.raises(type(error)) as caught:
        raise error
    assert why_unfit(caught.value, built['generator']) is None
