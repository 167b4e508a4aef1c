"""
`-o moderation/dialogpt_baseline` with a small DialoGPT built here in the place of the
published weights, which cannot be had where tests run.
"""

import builtins
import json

import pytest
from parlai.core.opt import Opt
from parlai.scripts.eval_model import EvalModel
from parlai.scripts.interactive import Interactive
from parlai.scripts.train_model import TrainModel

from parlai_ext import zoo_configs
from parlai_ext.commands import plugin
from tests.support.families import dialogpt
from tests.support.talk import write_pairs

SMALL = {'text_truncate': 48, 'label_truncate': 24, 'learningrate': 1e-2}
RECIPES = ('dialogpt_baseline', 'track_baseline', 'causal_lm_baseline')


@pytest.fixture(scope='module')
def trained(module_folder):
    """
    The options of a trained model, and the report of its training.
    """
    plugin.register()
    data = write_pairs(module_folder / 'pairs.csv', 'you want tea')
    opt = {
        'init_opt': 'moderation/dialogpt_baseline',
        'model_name': dialogpt(module_folder)['model_name'],
        'model_file': str(module_folder / 'model'),
        'toxic_data': str(data),
        'no_cuda': True,
        **SMALL,
    }
    _, report = TrainModel.main(**opt, num_epochs=6, warmup_updates=-1)
    return opt, report


def test_most_of_the_one_answer_is_learned(trained):
    _, report = trained
    assert float(report['token_acc']) > 0.5


def test_eval_model_of_the_file_repeats_the_report_of_the_training(trained):
    opt, after = trained
    names = ('model_file', 'model_name', 'toxic_data', 'no_cuda')
    report = EvalModel.main(
        **{name: opt[name] for name in names},
        task='ext:toxic_prompts',
        datatype='test',
        batchsize=8,
        skip_generation=True,
    )
    assert float(report['ppl']) == pytest.approx(float(after['ppl']), rel=1e-5)


def test_interactive_answers(trained, monkeypatch, printed):
    lines = iter(['you like tea', '[EXIT]'])
    monkeypatch.setattr(builtins, 'input', lambda *_: next(lines))
    opt = {key: trained[0][key] for key in ('model_file', 'model_name', 'no_cuda')}
    Interactive.main(**opt, task='ext:toxic_prompts')
    assert 'Dialogpt' in printed()


@pytest.mark.parametrize('name', RECIPES)
def test_a_recipe_is_found_by_its_name(name):
    plugin.register()
    file = zoo_configs.HOME / 'moderation' / f'{name}.opt'
    assert Opt.load_init(f'moderation/{name}') == json.loads(file.read_text())
    with pytest.raises(FileNotFoundError):
        Opt.load_init(f'moderation/{name}s')
