"""
The demo with real models: its planted order follows from its options, and a tiny
version goes the whole way.
"""

from itertools import pairwise

import pytest
import yaml

from parlai_ext import zoo_configs
from parlai_ext.commands.evaluate_systems import EvaluateSystems
from parlai_ext.files import load_roster
from parlai_ext.scoring.registry import load_protocol_file
from tests.support.family_hf import TEMPLATE, make_model
from tests.support.tiny_trained import make_encoder
from tests.support.written import written


def test_each_target_is_the_one_before_it_with_more_faults():
    targets = load_roster('real').roster.targets
    more = [
        {k for k in better.opt | worse.opt if worse.opt[k] != better.opt.get(k)}
        for better, worse in pairwise(targets)
    ]
    assert more == [
        {'degrade_last_turns'},
        {'degrade_context'},
        {'inference', 'topk', 'temperature'},
        {'degrade_shuffle', 'reply_max_tokens'},
    ]
    # replies that end early are the worse
    assert targets[-1].opt['reply_max_tokens'] < targets[-2].opt['reply_max_tokens']
    # the order that is planted is the order of the faults
    planted = load_protocol_file('real_demo').protocol.reference['Overall']
    assert sorted(planted, key=planted.__getitem__)[::-1] == [t.name for t in targets]


@pytest.fixture
def config(tmp_path):
    """
    Write real_demo with tiny models in place of the real ones, and four openers.
    """
    make_model(tmp_path, 'llama', template=TEMPLATE)
    folder = str(tmp_path / 'llama')
    protocol, roster = (
        yaml.safe_load(zoo_configs.path(kind, name).read_text(encoding='utf-8'))
        for kind, name in (('protocols', 'real_demo'), ('rosters', 'real'))
    )
    tiny = {'hf_model': folder, 'beam_min_length': 3, 'reply_max_tokens': 6}
    for system in (*roster['targets'], *roster['partners']):
        system['opt'] |= tiny
    # the weights of `learned` are those of layer 20 of 576 numbers, which tiny models
    # lack
    scorer = {'name': 'composite', 'judge_model_file': f'hf:{folder}'}
    scorer['encoder'] = make_encoder(tmp_path / 'encoder')
    protocol |= {'roster': roster, 'num_dialogues': 4, 'scorer': scorer}
    return str(written(tmp_path, 'tiny.yaml', protocol))


@pytest.mark.slow
def test_a_tiny_version_goes_the_whole_way(config, tmp_path, printed):
    run = {'run_dir': tmp_path / 'run', 'bootstraps': 50}
    ranking = EvaluateSystems.main(config=config, **run)
    text = printed()
    assert 'agreement with the planted order' in text
    assert 'mean length' in text
    assert len(ranking.standings['Overall']) == 5
