"""
Public sets that are fetched by name: checked, licences shown, one line offline.
"""

import hashlib
from dataclasses import replace

import pytest

from parlai_ext.data.corpora import ToxicData, read_pairs
from parlai_ext.engines import Machine
from parlai_ext.models.handle import ModelHandle
from parlai_ext.scoring.toxicity import read_detector
from parlai_ext.systems.fetch import public_sets
from parlai_ext.systems.fetch.public_sets import SETS, TRACK_WORDS, with_public_sets
from tests.support.no_network import downloads_give
from tests.support.user_error import user_error

pytestmark = pytest.mark.usefixtures('data_in_tmp_path')

OBJECT = '[{"context": "c", "response": "r", "category": "x", "label": "Safe"}]'
PROGRAM = 'import none\nswear_words = ["grunk",\n "oh no"]\nopen(none, "w")\n'


@pytest.fixture
def web(monkeypatch):
    """
    The texts that addresses give, by the name of the file; checksums are theirs.
    """
    texts = dict.fromkeys(SETS['diasafety'].checksums, OBJECT)
    texts['extract_features.py'] = PROGRAM
    sums = {n: hashlib.sha256(text.encode()).hexdigest() for n, text in texts.items()}
    for name in ('diasafety', TRACK_WORDS):
        known = {file: sums[file] for file in SETS[name].checksums}
        monkeypatch.setitem(SETS, name, replace(SETS[name], checksums=known))
    downloads_give(monkeypatch, lambda url: texts[url.rpartition('/')[2]].encode())
    return texts


def test_a_set_is_fetched_once_with_its_licence_shown(web, printed):
    data = with_public_sets(ToxicData(path='diasafety', pairs='all'))
    assert [len(pairs) for pairs in read_pairs(data).values()] == [1, 1, 1]
    assert 'Apache-2.0' in printed()
    web.clear()
    assert with_public_sets(ToxicData(path='diasafety')).path == data.path
    assert not printed()


def test_a_folder_of_this_name_and_other_paths_stay(web, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'diasafety').mkdir()
    data = ToxicData(path='diasafety, own.csv')
    assert with_public_sets(data) == data


def test_other_bytes_and_no_network_are_one_line(web, monkeypatch):
    web['val.json'] += ' '
    with user_error('val.json is another file'):
        with_public_sets(ToxicData(path='diasafety'))
    monkeypatch.undo()
    monkeypatch.setattr(public_sets, 'RAW', 'http://localhost:9/')
    with user_error('CC BY-SA.* cannot be reached'):
        with_public_sets(ToxicData(path='toxichat'))


def test_the_tracks_words_are_read_and_its_program_is_not_run(web, tmp_path):
    models = ModelHandle(Machine(datapath=str(tmp_path)))
    detector = read_detector(f'words={TRACK_WORDS}', models)
    texts = ['Oh no!', 'grunks', 'a grunk']
    assert [toxic for _, toxic in detector.of_texts(texts)] == [True, False, True]
