"""
`parlai adapt_model`: what it prints and refuses, and that scorers take what it writes.
"""

import re

import pytest
import yaml

from parlai_ext.commands.adapt_model import AdaptModel
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.relevance import AmFm
from tests.support.fed_samples import make_gpt2
from tests.support.on_cpu import models_on_cpu
from tests.support.tiny_models import sentences
from tests.support.user_error import user_error
from tests.training.test_trainings import make_masked_encoder

SHORT = {'steps': 6, 'held_out': 3, 'tokens': 24, 'head_steps': 2, 'no_cuda': True}


@pytest.fixture
def corpus(tmp_path):
    lines = (' __eou__ '.join([*sentences(3, i), '']) for i in range(9))
    path = tmp_path / 'dialogues.txt'
    path.write_text('\n'.join(lines))
    return [str(path)]


@pytest.mark.usefixtures('models_here')
def test_both_models_of_amfm_are_adapted_and_used(corpus, tmp_path, printed):
    options = {}
    for kind, make in (('mlm', make_masked_encoder), ('lm', make_gpt2)):
        base, out = tmp_path / f'base-{kind}', str(tmp_path / kind)
        base.mkdir()
        make(base)
        given = {'kind': kind, 'base': str(base), 'corpus': corpus, 'out': out}
        AdaptModel.main(**given, **SHORT, turns='turns')
        text = printed()
        assert re.search(r'before \d+\.\d+, after \d+\.\d+', text)
        told = re.findall(r'--scorer-option (\w+)=(\S+)', text)
        options |= {name: yaml.safe_load(value) for name, value in told}
    assert options.keys() >= {'am_cutoff', 'am_width', 'fm_cutoff', 'fm_width'}
    # the scale of the language model is of turns as it was trained on them
    assert options['fm_format'] == 'turns'
    assert options['judge_model_file'] == out
    scorer = AmFm.from_section(options, models_on_cpu())
    texts = sentences(2)
    [score] = scorer.checked_scores([ScoringItem(texts[:1], texts[1])])
    assert None not in score.values.values()


@pytest.mark.parametrize('name', ['kind', 'base', 'corpus', 'out'])
def test_an_option_that_is_missing_is_named(name, corpus):
    given = {'kind': 'lm', 'base': 'minilm', 'corpus': corpus, 'out': 'x', name: None}
    with user_error(f'--{name}'):
        AdaptModel.main(**given)


def test_a_base_that_is_no_hugging_face_model_is_refused(tmp_path, corpus):
    given = {'kind': 'lm', 'corpus': corpus, 'out': str(tmp_path / 'out')}
    with user_error('--base'):
        AdaptModel.main(base='zoo:blender/blender_90M/model', **given)
    assert not (tmp_path / 'out').exists()
