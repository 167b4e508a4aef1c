"""
A model as safetensors: the same model, from data that runs nothing.

`convert_model` as a command: reading its options runs and fetches nothing.
"""

import os
import shutil
from collections import OrderedDict
from pathlib import Path

import pytest
import safetensors.torch
import torch
from parlai.core.script import superscript_main

from parlai_ext.__main__ import main
from parlai_ext.commands import plugin
from parlai_ext.commands.convert_model import ConvertModel, convert
from parlai_ext.systems.safe.load import count_parameters, guarded, read_states
from parlai_ext.systems.safe.read import (
    is_safetensors,
    same_bits,
    write_states,
)
from tests.support.forked import command_in_child
from tests.support.malicious_pickles import gadget, in_zip
from tests.support.store_samples import files_under, write_files
from tests.support.talk import loaded, replies_to
from tests.support.tiny_models import make_generator, make_ranker, sentences
from tests.support.user_error import user_error
from tests.support.written import changed_json, safetensors_of
from tests.systems.test_safe_load import agent_of


@pytest.fixture
def old(tmp_path):
    """
    A folder of its own for the model that is converted.
    """
    (tmp_path / 'old').mkdir()
    return tmp_path / 'old'


@pytest.fixture
def output(tmp_path):
    return tmp_path / 'new.safetensors'


def replies(path, **opt):
    """
    Return what a model says in two dialogues.
    """
    with guarded():
        player = loaded(model_file=str(path), no_cuda=True, **opt)
    return replies_to(player, [[sentence] for sentence in sentences(2)])


def save_weights(path):
    torch.save({'model': {'w': torch.ones(2)}}, path)


def converted(source, output, **options):
    return ConvertModel.main(model_file=str(source), output=str(output), **options)


@pytest.mark.parametrize('make', [make_generator, make_ranker])
def test_a_converted_model_says_the_same_with_the_first_gone(make, old, output):
    source = make(old)
    before, weights = replies(source), agent_of(source).model.state_dict()
    converted(source, output)
    for path in old.iterdir():
        if 'candidates' not in path.name:
            path.unlink()
    assert replies(output) == before
    with guarded():
        found = agent_of(output).model.state_dict()
    assert same_bits(found, weights)


def test_a_model_of_the_zoo_with_a_tokenizer_is_converted(tmp_path, output):
    plugin.register()
    zoo = 'zoo:mini/retrieval/model'
    done = converted(zoo, output, datapath=str(tmp_path / 'data'))
    source = tmp_path / 'data/models/mini/retrieval/model'
    beside = {p.name.removeprefix('model') for p in source.parent.glob('model?*')}
    assert {n.removeprefix(output.name) for n in done.companions} == beside
    given = {'fixed_candidates_path': f'{output}.candidates'}
    before = replies(source, **given)
    shutil.rmtree(tmp_path / 'data')
    assert replies(output, **given) == before


def test_a_dictionary_that_lies_elsewhere_comes_along(old, tmp_path, output):
    source = make_generator(old)
    beside, words = f'{source}.dict', old / 'words'
    changed_json(old / 'tiny.opt', dict_file=str(words), bpe_vocab=beside)
    os.rename(beside, words)
    content = words.read_bytes()
    before = replies(source)
    converted(source, output)
    shutil.rmtree(old)
    assert (tmp_path / 'new.safetensors.dict').read_bytes() == content
    assert str(old) not in (tmp_path / 'new.safetensors.opt').read_text()
    assert replies(output) == before


def test_the_optimizer_and_scheduler_are_dropped_and_named(tmp_path, output, printed):
    states = {'model': {'w': torch.randn(1000)}, 'number_training_updates': 5}
    states |= {'optimizer': {'state': torch.randn(2000)}, 'lr_scheduler': {'a': 1}}
    source = tmp_path / 'm'
    torch.save(states, source)
    assert converted(source, output).dropped == ('optimizer', 'lr_scheduler')
    assert set(read_states(output)) == {'model', 'number_training_updates'}
    text = printed()
    assert 'left out: optimizer, lr_scheduler' in text
    for path in (source, output):
        assert f'{path.stat().st_size:,} bytes' in text


def test_nothing_is_overwritten(tmp_path):
    save_weights(tmp_path / 'm')
    (tmp_path / 'm.codecs').write_text('')
    for name in ('a.safetensors', 'b.safetensors.codecs', 'c.safetensors.opt'):
        (tmp_path / name).write_text('mine')
        output = tmp_path / f'{name[0]}.safetensors'
        with user_error('it is not overwritten'):
            converted(tmp_path / 'm', output)
        assert (tmp_path / name).read_text() == 'mine'


def test_a_conversion_that_fails_leaves_nothing(tmp_path, output):
    save_weights(tmp_path / 'm')
    (tmp_path / 'm.opt').write_text('{"model": ')
    (tmp_path / 'm.codecs').write_text('')
    with user_error(r'm\.opt: it cannot be read'):
        converted(tmp_path / 'm', output)
    assert {p.name for p in tmp_path.iterdir()} == {'m', 'm.opt', 'm.codecs'}


@pytest.mark.parametrize(
    'options, words',
    [
        ({}, '--model-file is needed'),
        ({'model_file': 'modle'}, "did you mean '.*model'"),
        ({'model_file': 'model', 'output': 'b'}, r'--output: NAME\.safetensors is'),
        ({'model_file': 'model', 'output': 'no/b.safetensors'}, 'no folder'),
        ({'model_file': 'model.opt', 'output': 'b.safetensors'}, 'cannot be read'),
    ],
)
def test_a_mistake_is_one_line(options, words, tmp_path):
    (tmp_path / 'model').touch()
    (tmp_path / 'model.opt').write_text('{}')
    given = {key: str(tmp_path / name) for key, name in options.items()}
    with user_error(words):
        ConvertModel.main(**{'datapath': str(tmp_path), **given})


def test_a_malicious_model_is_converted_on_trust_only(tmp_path, output):
    source, marker = tmp_path / 'm', tmp_path / 'marker'
    source.write_bytes(in_zip(gadget('exec', marker)))
    with user_error(r'builtins\.exec'):
        converted(source, output)
    assert not marker.exists()
    with user_error('no weights'):
        converted(source, output, trust_model_code=[str(source)])
    assert marker.exists()


def test_shared_tensors_are_written_once_and_read_as_one(output):
    weight = torch.randn(50, 4)
    weights = OrderedDict(z=weight, tied=weight, part=weight[1:], half=weight.half())
    states = {'model': weights, 'longest_label': 7, 'nothing': None, 'x': [1, {'a': 2}]}
    assert write_states(states, output) == []
    with guarded():
        found = torch.load(output, map_location=lambda cpu, _: cpu)
    model = found['model']
    assert same_bits(model, weights) and model['tied'] is model['z']
    assert found == {**states, 'model': model}
    # z and half and part: 50x4, 50x4 and 49x4
    assert count_parameters(output) == 200 + 200 + 196
    assert len(safetensors.torch.load_file(output)) == 3


@pytest.mark.parametrize(
    'tensor',
    [
        torch.tensor([float('nan'), -0.0, float('inf')]),
        torch.empty(0, 4),
        torch.randn(4, 5).t(),
        torch.randn(3).to(torch.bfloat16),
    ],
)
def test_a_tensor_keeps_its_bits(tensor, output):
    write_states({'model': {'w': tensor}}, output)
    found = read_states(output)['model']
    assert same_bits(found, {'w': tensor})


@pytest.mark.parametrize(
    'name, other',
    [
        ('w', torch.tensor(-0.0)),
        ('v', torch.tensor(0.0)),
        ('w', torch.zeros(1)),
        ('w', torch.tensor(0)),
    ],
)
def test_bits_that_differ_are_noticed(name, other):
    assert not same_bits({'w': torch.tensor(0.0)}, {name: other})


def test_an_entry_that_json_would_change_is_refused(output):
    for value in ({1: 2}, (1, 2), torch.ones(2), object()):
        with user_error("the entry 'x' is more than"):
            write_states({'model': {}, 'x': value}, output)


def test_safetensors_of_another_program_is_a_model(tmp_path):
    path = tmp_path / 'weights'  # known by its content
    safetensors.torch.save_file({'w': torch.eye(2)}, path)
    with guarded(), open(path, 'rb') as file:
        found = torch.load(file)
    assert list(found) == ['model'] and torch.equal(found['model']['w'], torch.eye(2))


@pytest.mark.parametrize(
    'data',
    [
        b'',
        b'{}',
        safetensors_of(b'[]'),
        safetensors_of(b'{}', size=2**62),
        in_zip(b'N.'),
    ],
)
def test_other_files_are_not_taken_for_safetensors(data, output):
    output.write_bytes(data)
    assert not is_safetensors(output)


def test_the_same_model_gives_the_same_bytes(tmp_path):
    # of two orders safetensors takes either: eight alike by chance once in 128 times
    states = {'model': {'w': torch.ones(2)}, 'longest_label': 3}
    paths = [tmp_path / f'{i}.safetensors' for i in range(8)]
    for path in paths:
        write_states(states, path)
    assert len({path.read_bytes() for path in paths}) == 1
    assert safetensors.safe_open(paths[0], 'pt').metadata()['format'] == 'pt'


def test_a_conversion_killed_between_its_files_is_run_again(tmp_path, monkeypatch):
    source, new = tmp_path / 'm', tmp_path / 'new'
    save_weights(source)
    Path(f'{source}.opt').write_text('{"model": "seq2seq"}')
    Path(f'{source}.dict').write_text('tea\t1\n')
    new.mkdir()
    output = new / 'm.safetensors'
    rename, states = os.rename, []

    def noting(*paths):
        states.append(files_under(new))
        rename(*paths)

    with monkeypatch.context() as patch:
        patch.setattr(os, 'rename', noting)
        convert(source, output)
    whole = files_under(new)
    # what a kill leaves: none, one or two of the files, the others with other names
    assert [len(files.keys() & whole.keys()) for files in states] == [0, 1, 2]
    for files in states:
        shutil.rmtree(new)
        write_files(new, files)
        convert(source, output)
        assert files_under(new) == whole


def test_a_conversion_copies_no_linked_file_without_options_either(
    old, tmp_path, output
):
    source = Path(make_generator(old))
    secret = tmp_path / 'words'
    Path(f'{source}.dict').rename(secret)
    Path(f'{source}.dict').symlink_to(secret)
    Path(f'{source}.opt').unlink()
    with user_error(r'tiny\.dict is a link to a file'):
        convert(source, output)
    assert not Path(f'{output}.dict').exists()


WAYS = {'parlai': superscript_main, 'module': main}


def on_the_command_line(way, *args):
    """
    Return the exit code and the last line of an error.
    """
    code, _, errors = command_in_child(WAYS[way], *args)
    return code, errors.strip().split('\n')[-1]


@pytest.mark.parametrize('first', [(), ('--helpall',)])
@pytest.mark.parametrize('way', WAYS)
def test_options_that_are_a_malicious_pickle_do_not_run(way, first, tmp_path):
    marker = tmp_path / 'marker'
    path = make_generator(tmp_path)
    Path(f'{path}.opt').write_bytes(gadget('exec', marker))
    out = str(tmp_path / 'new.safetensors')
    args = (*first, 'convert_model', '--model-file', path, '--output', out)
    code, line = on_the_command_line(way, *args)
    assert not marker.exists()
    if not first:
        assert (code, line[:29]) == (1, f'error: model_file: {path}.opt'[:29])
        assert 'refused: ' in line and 'builtins.exec' in line


@pytest.mark.parametrize('way', WAYS)
def test_a_model_that_is_not_here_is_not_fetched(way, tmp_path):
    # the zoo's folder would be made first of all, by any download
    path = 'zoo:blender/blender_90M/model'
    out, data = str(tmp_path / 'new.safetensors'), str(tmp_path / 'data')
    args = ('--model-file', path, '--output', out, '--datapath', data)
    code, line = on_the_command_line(way, 'convert_model', *args)
    assert (code, line[:30]) == (1, f'error: --model-file: {path}'[:30])
    assert line.endswith(f'parlai check_roster --download --add-target it={path}')
    assert list(tmp_path.iterdir()) == []
