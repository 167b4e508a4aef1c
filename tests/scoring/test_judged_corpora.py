"""
How near responses are to the corpora on which a judge was tried, by pencil.
"""

import numpy as np
import pytest
from safetensors.numpy import save

from parlai_ext.scoring.judged_corpora import (
    CORPORA,
    THRESHOLD,
    JudgedCorpora,
    vector_in_dialogue,
)
from parlai_ext.scoring.learned import Learned, LearnedOptions, read_weights
from tests.scoring.test_scoring_learned import weights, write
from tests.support.user_error import user_error

EAST, NORTH = np.eye(2, dtype=np.float32)
TENSORS = {
    'north': np.stack([NORTH, -NORTH]).astype(np.float16),
    'east': EAST[None].astype(np.float16),
    THRESHOLD: np.array([0.3], np.float32),
}


def test_the_vector_of_a_response_lies_between_it_and_its_last_turn():
    # 45 degrees between east and north; turns before the last do not count
    turns = np.stack([-EAST, NORTH])
    assert vector_in_dialogue(EAST, turns) == pytest.approx([0.5**0.5] * 2)
    assert vector_in_dialogue(EAST, np.zeros((0, 1))) == pytest.approx(EAST)


@pytest.mark.parametrize(
    ('vector', 'nearness', 'corpus'),
    [((0.6, 0.8), 0.8, 'north'), ((0.8, -0.6), 0.8, 'east'), ((0, -1), 1, 'north')],
)
def test_the_nearest_corpus_has_the_highest_cosine(vector, nearness, corpus):
    corpora = JudgedCorpora.from_tensors(TENSORS)
    value, place = corpora.nearest(np.array(vector, np.float32))
    assert value == pytest.approx(nearness)
    assert corpora.names[place] == corpus
    assert corpora.threshold == 0.3


def test_corpora_lie_beside_the_card_and_are_not_signed(tmp_path):
    folder = write(tmp_path / 'mine', weights(), models={'embedder': 'mpnet'})
    assert read_weights(folder).corpora is None
    before = Learned(LearnedOptions(weights=folder))
    (tmp_path / 'mine' / CORPORA).write_bytes(save(TENSORS))
    after = Learned(LearnedOptions(weights=folder))
    assert before.signature_fields() == after.signature_fields()
    assert before.evidence_record() == {}
    record = after.evidence_record()['corpora']
    assert record == {'names': ['east', 'north'], 'threshold': 0.3}
    # another encoder's vectors cannot be compared
    other = Learned(LearnedOptions(weights=folder, encoder='minilm'))
    assert other.evidence_record() == {}


@pytest.mark.parametrize(
    'tensors', [{}, {'north': TENSORS['north']}, {THRESHOLD: EAST}]
)
def test_a_file_without_corpora_is_refused(tmp_path, tensors):
    folder = write(tmp_path / 'mine', weights())
    (tmp_path / 'mine' / CORPORA).write_bytes(save(tensors))
    with user_error(CORPORA):
        read_weights(folder)
