"""
A folder of a Hugging Face model brings no file from elsewhere, as a system, a judge or
an encoder.
"""

import os
import shutil
from pathlib import Path

import pytest
import safetensors.torch

from parlai_ext.models.handle import ModelHandle
from parlai_ext.systems import hub
from tests.support.on_cpu import load_judge
from tests.support.talk import loaded
from tests.support.user_error import error_line, user_error
from tests.support.written import changed_json, written


@pytest.fixture
def folder(chat_folder, registered, tmp_path):
    copied = tmp_path / 'home' / 'model'
    shutil.copytree(chat_folder, copied)
    return copied


def as_system(folder):
    loaded(model='ext:hf', hf_model=str(folder))


def as_judge(folder):
    load_judge(str(folder))


def as_encoder(folder):
    ModelHandle().embedder(str(folder))


def linked(folder, name):
    """
    Make a file of the folder a link to its copy elsewhere.
    """
    moved = folder.parents[1] / name
    (folder / name).rename(moved)
    (folder / name).symlink_to(moved)
    return f'{name} leads out of the folder'


def in_index(folder, name, named=None):
    """
    Put the weights elsewhere, and an index that names them there, or another file.
    """
    weights = folder / 'model.safetensors'
    names = list(safetensors.torch.load_file(weights))
    weights.rename(folder / name)
    index = {'metadata': {}, 'weight_map': dict.fromkeys(names, named or name)}
    written(folder, 'model.safetensors.index.json', index)
    return f'{Path(named or name).name} leads out of the folder'


def adapter(folder):
    written(folder, 'adapter_config.json', '{"peft_type": "LORA"}')
    return f'{folder} is an adapter'


def pipe(folder):
    os.mkfifo(folder / 'vocab.txt')
    return 'vocab.txt is a pipe or a device'


def named_file(folder):
    secret = written(folder.parents[1], 'words.txt', 'the lock opens with nine')
    path = folder / 'tokenizer_config.json'
    changed_json(path, vocab_file=str(secret))
    return f'vocab_file in {path} is {secret}, a file elsewhere'


@pytest.mark.parametrize('load', [as_system, as_judge, as_encoder])
@pytest.mark.parametrize(
    'harm',
    [
        lambda folder: linked(folder, 'chat_template.jinja'),
        lambda folder: linked(folder, 'tokenizer.json'),
        lambda folder: in_index(folder, '../../outside.safetensors'),
        lambda folder: in_index(folder, 'inside.safetensors', '/etc/passwd'),
        adapter,
        pipe,
        named_file,
    ],
)
def test_a_file_elsewhere_is_one_line_whoever_reads_it(harm, load, folder):
    words = harm(folder)
    line = error_line(load, folder)
    assert 'hf_model: ' in line and words in line


def test_a_folder_that_is_itself_a_link_is_read(folder, tmp_path):
    (tmp_path / 'link').symlink_to(folder)
    assert hub.cached_weights(str(tmp_path / 'link'))


def test_links_within_the_hubs_cache_are_read(folder, tmp_path):
    blobs = tmp_path / 'models--a--b' / 'blobs'
    snapshot = tmp_path / 'models--a--b' / 'snapshots' / '1'
    shutil.move(folder, blobs)
    snapshot.mkdir(parents=True)
    for file in blobs.iterdir():
        (snapshot / file.name).symlink_to(f'../../blobs/{file.name}')
    assert hub.cached_weights(str(snapshot)) == snapshot / 'model.safetensors'
    (snapshot / 'vocab.txt').symlink_to('/etc/passwd')
    with user_error(r'vocab\.txt leads out of the folder'):
        hub.cached_weights(str(snapshot))
