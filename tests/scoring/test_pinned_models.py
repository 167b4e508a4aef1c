"""
Trained metrics by their names on the hub: what is pinned, signed and recorded.
"""

import shutil

import pytest
from transformers import BertForSequenceClassification

from parlai_ext.core.options import options_of
from parlai_ext.models.handle import model_system
from parlai_ext.scoring.bleurt import Bleurt
from parlai_ext.scoring.registry import find_scorer
from tests.support.on_cpu import models_on_cpu
from tests.support.tiny_trained import make_bert

REPO = 'someone/tiny'
COMMITS = ('a' * 40, 'b' * 40)  # the second one is main


@pytest.fixture(scope='module')
def folders(tmp_path_factory):
    """
    The files of two commits: the second has one word more in its config.
    """
    first, second = (tmp_path_factory.mktemp('commit') for _ in COMMITS)
    made = make_bert(first, BertForSequenceClassification, num_labels=1)
    shutil.copytree(made, second, dirs_exist_ok=True)
    config = second / 'config.json'
    config.write_text(config.read_text().replace('{', '{"comment": "new",', 1))
    return made, second


@pytest.fixture
def cache(folders, tmp_path, monkeypatch):
    """
    A cache of the hub with both commits, and no network.
    """
    from huggingface_hub import constants

    monkeypatch.setattr(constants, 'HF_HUB_CACHE', str(tmp_path))
    monkeypatch.setattr(constants, 'HF_HUB_OFFLINE', True)
    home = tmp_path / 'models--someone--tiny'
    (home / 'refs').mkdir(parents=True)
    (home / 'refs' / 'main').write_text(COMMITS[1])
    for commit, folder in zip(COMMITS, folders, strict=True):
        shutil.copytree(folder, home / 'snapshots' / commit)


def bleurt(name):
    return Bleurt.from_section({'regressor': str(name)}, models_on_cpu())


@pytest.mark.usefixtures('cache')
def test_another_revision_is_another_signature():
    first, second = (bleurt(f'hf:{REPO}@{commit}') for commit in COMMITS)
    assert first.signature != second.signature


@pytest.mark.usefixtures('cache')
def test_without_a_revision_the_content_that_was_loaded_is_signed(folders):
    unpinned = bleurt(f'hf:{REPO}').signature
    assert unpinned == bleurt(f'hf:{REPO}@{COMMITS[1]}').signature
    assert unpinned == bleurt(folders[1]).signature  # wherever the files lie
    assert 'content:' in unpinned


@pytest.mark.usefixtures('cache')
@pytest.mark.parametrize(('at', 'commit'), [('', 1), (f'@{COMMITS[0]}', 0)])
def test_name_and_commit_are_recorded(at, commit):
    scorer = bleurt(f'hf:{REPO}{at}')
    assert scorer.signature
    [model] = scorer.models_used()
    assert (model.name, model.commit) == (f'hf:{REPO}{at}', COMMITS[commit])


def test_a_folder_has_no_commit(folders):
    scorer = bleurt(folders[0])
    assert scorer.signature
    assert scorer.models_used()[0].commit is None


@pytest.mark.parametrize('name', ['bleurt', 'usr', 'ctc', 'unieval', 'density'])
def test_every_model_of_a_trained_metric_may_be_pinned(name):
    options = options_of(find_scorer(name).options_class)
    kinds = {one.info.model for one in options.values() if one.info.model}
    assert kinds
    for kind in kinds:
        opt = model_system(kind, f'hf:{REPO}@v1').opt
        assert (opt['hf_model'], opt['hf_revision']) == (REPO, 'v1')
