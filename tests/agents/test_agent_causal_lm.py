"""
`ext:causal_lm`: reads and replies as `ext:hf` does, and is trained by `train_model`.
"""

import math
import random
import shutil

import pytest
import torch
from parlai.core.message import Message
from parlai.scripts.train_model import TrainModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.support.talk import after_turns, heard, loaded, write_pairs
from tests.support.user_error import user_error
from tests.support.written import json_in, written

# any test may be the first of its process that trains
pytestmark = pytest.mark.usefixtures('registered')
TURNS = ('you like tea', 'old book there', 'rain again today')


@pytest.fixture(scope='module')
def trained(module_folder, hf_folder, registered):
    """
    Return the file of a model after a short training, whose base is gone.
    """
    base = shutil.copytree(hf_folder('llama'), module_folder / 'base')
    opt = training(pairs(module_folder), module_folder / 'model', hf_model=str(base))
    # ParlAI draws the order of examples; after one in twenty, 8 epochs do not suffice
    random.seed(0)
    TrainModel.main(**OURS, **opt, num_epochs=8)
    shutil.rmtree(base)
    return module_folder / 'model'


def pairs(folder):
    return write_pairs(folder / 'pairs.csv', 'you want warm bread')


OURS = {
    'model': 'ext:causal_lm',
    'optimizer': 'adamw',
    'learningrate': 3e-3,
    'batchsize': 4,
}


def training(data, model_file, **more):
    return {
        'task': 'ext:toxic_prompts',
        'toxic_data': str(data),
        'model_file': str(model_file),
        'text_truncate': 48,
        'label_truncate': 8,
        'skip_generation': True,
        'no_cuda': True,
        **more,
    }


def load(**opt):
    more = {'no_cuda': True, 'label_truncate': 8, 'text_truncate': 48}
    return loaded(model='ext:causal_lm', **{**more, **opt})


@pytest.mark.parametrize('name', ['llama', 'gpt2'])
def test_prompt_and_reply_are_those_of_transformers_generate(name, hf_folder):
    # ext:hf generates by transformers' own `generate`
    style = {'hf_model': hf_folder(name), 'first_turn_ask': 'today', 'no_cuda': True}
    # ParlAI makes the last token of the longest reply an end token
    ours = load(**style, label_truncate=9)
    theirs = loaded(**style, model='ext:hf', reply_max_tokens=8)
    there = after_turns(theirs, [*TURNS, TURNS[0]])
    prompt = theirs.agent.engine.prompt(tuple(there.agent.turns))
    here = after_turns(ours, [*TURNS, TURNS[0]])
    assert here.agent.history.get_history_vec() == list(prompt.ids)
    assert ours.respond([here]) == theirs.respond([there])


def test_the_loss_is_that_of_transformers_over_the_label_alone(hf_folder):
    agent = load(hf_model=hf_folder('llama'), first_turn_ask='today').agent
    texts = [('you like tea', 'old book'), ('rain', 'there today again')]
    clones = [agent.clone() for _ in texts]
    seen = [
        clone.observe(Message(text=a, eval_labels=[b], episode_done=True))
        for clone, (a, b) in zip(clones, texts, strict=True)
    ]
    ours = float(agent.compute_loss(agent.batchify(seen)))
    network = AutoModelForCausalLM.from_pretrained(hf_folder('llama'))
    total, n = 0.0, 0
    for one in seen:
        prompt, label = one['text_vec'], one['eval_labels_vec']
        ids = torch.cat([prompt, label])[None]
        wanted = ids.clone()
        wanted[:, : len(prompt)] = -100
        total += float(network(input_ids=ids, labels=wanted).loss) * len(label)
        n += len(label)
    assert ours == pytest.approx(total / n, rel=1e-5)


def test_the_tracks_recipe_learns_the_whole_line_with_two_new_tokens(
    hf_folder, tmp_path
):
    opt = training(pairs(tmp_path), tmp_path / 'model', hf_model=str(hf_folder('gpt2')))
    TrainModel.main(**opt, init_opt='moderation/track_baseline', max_train_steps=2)
    agent = load(model_file=str(tmp_path / 'model')).agent
    tokens = agent.dict.hf_tokenizer
    assert len(tokens) == len(AutoTokenizer.from_pretrained(hf_folder('gpt2'))) + 2
    act = Message(text='you like tea', labels=['old book'], episode_done=True)
    seen = agent.observe(act)
    line = f'[CLS]you like tea[SEP]old book{tokens.eos_token}'
    ids = tokens(line, add_special_tokens=False, return_tensors='pt')['input_ids']
    assert [*seen['text_vec'], *seen['labels_vec']] == ids[0].tolist()
    network = agent.model.decoder.network.eval()
    theirs = float(network(input_ids=ids, labels=ids).loss)
    agent.model.eval()
    ours = float(agent.compute_loss(agent.batchify([seen])))
    assert ours == pytest.approx(theirs, rel=1e-5)


def test_a_trained_model_gives_the_taught_answer_without_its_base(trained):
    player = load(model_file=str(trained))
    [reply] = player.respond(heard(player, ['you like tea']))
    assert reply.text == 'you want warm bread'


def test_a_training_goes_on_from_its_checkpoint(hf_folder, tmp_path):
    data = pairs(tmp_path)
    opt = training(data, tmp_path / 'model', hf_model=hf_folder('llama'))
    TrainModel.main(**OURS, **opt, num_epochs=1, save_after_valid=True)
    for path in tmp_path.glob('model*'):
        name = path.name.replace('model', 'model.checkpoint')
        shutil.copy(path, path.with_name(name))
    opt = {**opt, 'hf_model': str(tmp_path / 'gone')}
    _, after = TrainModel.main(**OURS, **opt, num_epochs=2, load_from_checkpoint=True)
    stats = json_in(tmp_path / 'model.trainstats')
    assert stats['total_epochs'] == pytest.approx(2)
    assert math.isfinite(after['ppl'])


def test_only_the_last_layers_learn(hf_folder, tmp_path):
    data = pairs(tmp_path)
    more = {'hf_model': hf_folder('llama'), 'trained_layers': 1, 'bf16': True}
    TrainModel.main(**OURS, **training(data, tmp_path / 'model', **more), num_epochs=1)
    weights = torch.load(tmp_path / 'model', weights_only=True)['model']
    base = AutoModelForCausalLM.from_pretrained(hf_folder('llama')).state_dict()
    changed = [
        name
        for name, weight in base.items()
        if not torch.equal(weights[f'decoder.network.{name}'], weight)
    ]
    # of two layers
    assert changed and all(name.startswith('model.layers.1.') for name in changed)


def test_more_layers_than_there_are_is_a_line_about_the_option(hf_folder):
    with user_error('trained_layers: 9'):
        load(hf_model=hf_folder('llama'), trained_layers=9)


@pytest.mark.parametrize(
    'texts',
    [{'../x.json': '{}', 'config.json': '{}'}, {'a.py': ''}, {'config.json': 1}],
)
def test_a_dictionary_with_other_files_is_refused(texts, trained, tmp_path):
    for path in trained.parent.glob('model*'):
        shutil.copy(path, tmp_path / path.name)
    written(tmp_path, 'model.dict', texts)
    with user_error('dict_file: .*model.dict'):
        load(model_file=str(tmp_path / 'model'))
    assert not (tmp_path.parent / 'x.json').exists()


def test_a_dialogue_that_is_too_long_loses_its_oldest_turns(hf_folder):
    player = load(hf_model=hf_folder('gpt2'), text_truncate=8)
    agent = after_turns(player, TURNS).agent
    kept = agent.dict.vec2txt(agent.history.get_history_vec())
    assert kept.split() == [*TURNS[1].split(), *TURNS[2].split()]
