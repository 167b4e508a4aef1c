"""
A model of others answers from its own process what it would answer in this one.
"""

import json
import math
import os
import signal
from dataclasses import replace

import numpy as np
import pytest
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from parlai_ext.core import Question, System
from parlai_ext.models.encoders import TokenVectors
from parlai_ext.models.handle import ModelHandle
from parlai_ext.models.judge_process import DistantModel, from_plain, to_plain
from parlai_ext.models.watch import NO_WATCH, Watch
from tests.support.causal_models import Kept
from tests.support.family_hf import make_model
from tests.support.on_cpu import CPU, load_here
from tests.support.tiny_models import make_generator, sentences
from tests.support.tiny_trained import make_bert, make_roberta, make_t5
from tests.support.user_error import user_error
from tests.support.waiting import children

TEXTS = sentences(6, seed=2)
ASKED = [
    Question(tuple(TEXTS[:2]), tuple(TEXTS[2:4])),
    Question((), (TEXTS[4], '')),
    Question((5, 6), ((7, 8),)),
]
MASKED = {'texts': TEXTS[2:4], 'most_tokens': 50, 'with_before': True}
PAIR = [((TEXTS[0], TEXTS[1]), TEXTS[2]), ((), TEXTS[3])]


def vectors_file(folder):
    (folder / 'vectors.txt').write_text('tea 1 2.5\nrain -1 3\n')
    return str(folder / 'vectors.txt')


def classifier(folder, **config):
    kind = transformers.BertForSequenceClassification
    return make_bert(folder, kind, **{'num_labels': 3, **config})


# kind of model: what makes one, and what it is asked
CASES = {
    'likelihood causal': (
        lambda folder: make_model(folder, 'llama'),
        [
            ('answer', ASKED, {'with_context': True}),
            ('answer', ASKED, {'greedy': True}),
            ('answer_with_states', ASKED[:1], {'layer': 1}),
        ],
    ),
    'likelihood t5': (make_t5, [('answer', ASKED[:2], {})]),
    'likelihood parlai': (make_generator, [('answer', ASKED[:1], {})]),
    'embedder': (
        make_bert,
        [
            ('encode', TEXTS, {}),
            ('pooler_states', TEXTS[:2], {}),
            ('token_vectors', TEXTS[:2], {'layer': 1}),
            ('cut_tokens', [' '.join(TEXTS * 9)], {}),
        ],
    ),
    'classifier': (classifier, [('probabilities', TEXTS, {'seconds': TEXTS[::-1]})]),
    'regressor': (
        lambda folder: classifier(folder, num_labels=1),
        [('numbers', TEXTS, {})],
    ),
    'masked_lm': (
        lambda folder: make_roberta(folder, transformers.RobertaForMaskedLM),
        [('masked_logprobs', TEXTS[:2], MASKED)],
    ),
    'token_classifier': (
        lambda folder: make_roberta(
            folder, transformers.RobertaForTokenClassification, num_labels=2
        ),
        [('word_labels', TEXTS[:2], {'contexts': TEXTS[2:4], 'most_tokens': 20})],
    ),
    'pair_encoder': (
        make_bert,
        [('features', PAIR, {'most_tokens': 20})],
    ),
    'chat': (
        lambda folder: make_model(folder, 'llama', template=CHAT),
        [('replies', TEXTS[:2], {}), ('rating_replies', TEXTS[:1], {'logprobs': True})],
    ),
    'word_vectors': (vectors_file, [('known_vectors', ['rain', 'x', 'tea'], {})]),
}
CHAT = (
    "{% for one in messages %}{{ '<|' + one['role'] + '|> ' + one['content'] }}"
    '{% endfor %}'
)
FACTS = ('signature', 'num_parameters', 'labels', 'positions', 'limit')


@pytest.mark.parametrize('case', CASES)
def test_an_answer_is_that_of_this_process(case, tmp_path):
    make, calls = CASES[case]
    kind, name = case.partition(' ')[0], str(make(tmp_path))
    here = load_here(kind, name)
    apart = getattr(ModelHandle(CPU), kind)(name)
    assert isinstance(apart, DistantModel)
    for fact in FACTS:
        assert getattr(apart, fact, '') == getattr(here, fact, '')
    for method, first, more in calls:
        expected = to_plain(getattr(here, method)(first, **more))
        assert to_plain(getattr(apart, method)(first, **more)) == expected


class Store(Kept):
    """
    The same, and how often one was found.
    """

    found = 0

    def get(self, key):
        self.found += key in self
        return super().get(key)


@pytest.fixture(scope='module')
def judge(module_folder):
    name = make_model(module_folder / 'it', 'gpt2')
    return ModelHandle(replace(CPU, batchsize=1)).likelihood(name)


def test_what_it_has_finished_is_told_and_kept(judge):
    told, store = [], Store()
    judge.watch = Watch(lambda n, of: told.append((n, of)), store)
    answers = judge.answer(ASKED[:1])
    assert sum(n for n, _ in told) == told[0][1] and store and not store.found
    n_kept = len(store)
    assert judge.answer(ASKED[:1]) == answers
    assert store.found == n_kept == len(store)
    judge.watch = NO_WATCH
    assert judge.answer(ASKED[:1]) == answers and store.found == n_kept


def test_a_disk_that_is_full_in_the_midst_of_an_answer_ends_it(tmp_path):
    class Full(Store):
        def put(self, key, results):
            raise OSError(28, 'No space left on device')

    judge = ModelHandle(CPU).likelihood(make_model(tmp_path / 'it', 'gpt2'))
    judge.watch = Watch(kept=Full())
    with pytest.raises(OSError, match='No space'):
        judge.answer(ASKED[:1])
    with user_error('its process was interrupted'):
        judge.answer(ASKED[:1])


def test_a_process_that_ends_is_one_line(tmp_path):
    before = set(workers())
    judge = ModelHandle(CPU).likelihood(make_model(tmp_path / 'it', 'gpt2'))
    for worker in set(workers()) - before:
        os.kill(int(worker), signal.SIGKILL)
    with user_error('its process was ended by SIGKILL'):
        judge.answer(ASKED)


def workers():
    """
    Yield the processes that supervisors of this process's servers have started.
    """
    for server in children(os.getpid()):
        for supervisor in children(server):
            yield from children(supervisor)


@pytest.mark.parametrize('asked', [[], 'x', ['put'], {'os:system': ['ls']}, None])
def test_an_answer_of_another_form_is_one_line(asked, judge, monkeypatch):
    told = {'problem': [None, None], 'usage': None, 'random': None, 'said': []}
    told['value'] = {'os:system': ['ls']}
    answers = iter([{'asks': asked}, told])
    monkeypatch.setattr(judge.process.worker, 'ask', lambda *_: next(answers))
    monkeypatch.setattr(judge.process.worker, 'end', lambda _: None)
    with user_error('its process gives no answer'):
        judge.answer(ASKED)


def test_a_loader_that_raises_is_one_line():
    with user_error("likelihood 'x' raised TypeError"):
        DistantModel('math:sqrt', 'likelihood', 'x', System('x', {}), CPU)


def test_a_file_that_is_no_model_is_one_line(tmp_path):
    file = tmp_path / 'plain.txt'
    file.write_text('hello')
    with user_error(f'model: not given; {file}.opt names none'):
        ModelHandle(CPU).likelihood(str(file))


def test_what_raises_there_is_one_line(judge):
    with user_error(r"likelihood '.*' raised TypeError"):
        judge.answer(7)
    with pytest.raises(AttributeError, match='no_such_thing'):
        judge.no_such_thing  # noqa: B018


numbers = st.floats() | st.integers()
plain = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda parts: (
        st.lists(parts) | st.tuples(parts) | st.dictionaries(st.text(), parts)
    ),
)


@settings(max_examples=40)
@given(plain)
def test_what_crosses_comes_out_as_it_went_in(value):
    through = from_plain(json.loads(json.dumps(to_plain(value))))
    assert repr(through) == repr(value)


def test_arrays_cross_to_the_last_bit():
    rows = np.array([[0.1, -0.0], [math.inf, math.nan]], np.float32)
    vectors = TokenVectors(rows, np.array([True, False]))
    through = from_plain(json.loads(json.dumps(to_plain(vectors))))
    assert through.rows.tobytes() == rows.tobytes() and through.rows.flags.writeable
    assert through.of_text.tolist() == [True, False]


@pytest.mark.parametrize('value', [object(), len, {1, 2}, np.array([object()])])
def test_nothing_else_crosses(value):
    with pytest.raises(TypeError):
        to_plain([value])
