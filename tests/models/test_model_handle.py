"""
The models that scorers ask for, on tiny ones: numbers, batches, names, identities.

Judges of ParlAI and of Hugging Face: named and loaded; they read as their agents do. A
model of others answers from its own process what it would answer in this one.
"""

import json
import math
import os
import shutil
import signal
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from parlai.core.agents import create_agent_from_model_file
from transformers import AutoModel, AutoTokenizer

from parlai_ext.core import Question, System
from parlai_ext.engines import Machine
from parlai_ext.models import handle
from parlai_ext.models.encoders import TokenVectors
from parlai_ext.models.handle import ModelHandle, check_model, judge_system
from parlai_ext.models.hf_likelihood import SeparateTurns
from parlai_ext.models.judge_process import DistantModel, from_plain, to_plain
from parlai_ext.models.parlai_models import AgentVectorizer
from parlai_ext.models.watch import NO_WATCH, Watch
from tests.support.causal_models import Kept, record_shapes
from tests.support.families import FAMILIES
from tests.support.family_hf import make_model
from tests.support.on_cpu import CPU, load_here, load_judge, models_on_cpu
from tests.support.talk import loaded
from tests.support.tiny_models import make_generator, sentences
from tests.support.tiny_trained import make_bert, make_encoder, make_roberta, make_t5
from tests.support.user_error import user_error
from tests.support.waiting import children
from tests.support.written import changed_json, written

ENCODED_TEXTS = sentences(12)


@pytest.fixture(scope='module')
def embedder(encoder_folder):
    return load_here('embedder', encoder_folder)


def test_an_embedding_is_the_mean_of_the_last_states(encoder_folder, embedder):
    tokenizer = AutoTokenizer.from_pretrained(encoder_folder)
    model = AutoModel.from_pretrained(encoder_folder).eval()
    rows = embedder.encode(['', *ENCODED_TEXTS])  # an empty text has a row, too
    assert rows.dtype == np.float32
    for text, row in zip(
        ENCODED_TEXTS, rows[1:], strict=True
    ):  # whatever stands beside it
        ids = tokenizer(text, return_tensors='pt')
        with torch.no_grad():
            expected = model(**ids).last_hidden_state.mean(1)[0].numpy()
        assert row == pytest.approx(expected, abs=1e-5)
    assert embedder.encode([]).shape == (0, 16)


def test_a_long_text_does_not_pad_many_short_ones(embedder):
    shapes = record_shapes(embedder.model)
    # each word is a token: 100 texts of 4, and one of 20
    words = [f'{a} {b} {c} d' for a in 'abcde' for b in 'abcd' for c in 'abcde']
    embedder.encode([*words, 'a ' * 20])
    assert shapes == [(100, 4), (1, 20)]


def test_tokens_beyond_the_positions_are_counted(embedder):
    # each word is a token, and the model has 24 positions
    assert embedder.cut_tokens(['a ' * 24, 'a ' * 30]) == [0, 6]
    assert np.isfinite(embedder.encode(['a ' * 30])).all()


def test_equal_names_are_one_model_and_equal_files_one_identity(
    tmp_path, encoder_folder
):
    name = 'zoo:mini/judge/model'
    assert models_on_cpu().likelihood(name) is models_on_cpu().likelihood(name)
    others = make_encoder(tmp_path / 'copy'), make_encoder(tmp_path / 'three', 3)
    same, other = (load_here('embedder', one).signature for one in others)
    assert same == load_here('embedder', encoder_folder).signature != other


@pytest.mark.parametrize('kind', ['embedder', 'classifier', 'chat'])
def test_a_name_that_means_nothing_is_one_line(kind):
    for ask in (getattr(models_on_cpu(), kind), lambda n: check_model(kind, n)):
        with user_error(f"no {kind} 'minilmm'"):
            ask('minilmm')


def test_an_option_that_an_encoder_lacks_is_refused(encoder_folder):
    with user_error('hf_dtype'):
        models_on_cpu().embedder(f'hf:{encoder_folder},hf_dtype=float16')


def test_a_folder_is_available_as_long_as_its_weights_are_there(tmp_path):
    folder = make_encoder(tmp_path / 'encoder')
    check_model('embedder', folder)
    for weights in Path(folder).glob('*.safetensors'):
        weights.unlink()
    with user_error(str(folder)):
        check_model('embedder', folder)


def test_a_chat_model_replies_to_prompts_and_to_conversations(tmp_path):
    folder = make_model(tmp_path, 'gpt2')
    chat = load_here('chat', f'hf:{folder},reply_max_tokens=4')
    first, second, again = chat.replies(['one', ('one', 'two', 'one'), 'one'])
    assert first == again and first.reason is None and isinstance(second.text, str)
    assert chat.signature.startswith('system=')


def kinds_here(_):
    return [kind for kind, _, _ in handle._LOADED]


def test_a_fork_does_not_talk_over_the_connections_of_its_parent(monkeypatch):
    loaded = {(kind, 'a', Machine()): kind for kind in ('chat', 'embedder')}
    monkeypatch.setattr(handle, '_LOADED', loaded)
    with get_context('fork').Pool(1) as pool:
        assert pool.map(kinds_here, [0]) == [['embedder']]
    assert len(loaded) == 2


# === Judges ===========================================================================

TEXTS = sentences(40, seed=4)
CONTEXT = tuple(TEXTS[:3])
FOLLOWUPS = tuple(TEXTS[30:34])


@pytest.fixture(scope='module')
def folder(hf_folder):
    return hf_folder('gpt2')


@pytest.fixture(scope='module')
def dialogpt(module_folder):
    return FAMILIES['dialogpt'](module_folder)


def test_texts_are_turns_closed_by_the_end_token(tmp_path):
    judge = load_judge(f'hf:{make_model(tmp_path, "llama")}')
    tokenizer = judge.vectorizer.tokenizer

    def ids(text):
        own = tokenizer.encode(text, add_special_tokens=False)
        return (*own, tokenizer.eos_token_id)

    context = sum((ids(text) for text in CONTEXT), ())
    as_ids = Question(context, tuple(map(ids, FOLLOWUPS)))
    assert judge.answer([Question(CONTEXT, FOLLOWUPS)]) == judge.answer([as_ids])


@pytest.mark.parametrize(
    'name, opt',
    [
        ('hf:a/b@v1', {'model': 'ext:hf', 'hf_model': 'a/b', 'hf_revision': 'v1'}),
        (
            'hf:a/b,hf_dtype=bfloat16,hf_context_tokens=99',
            {'model': 'ext:hf', 'hf_model': 'a/b', 'hf_dtype': 'bfloat16'}
            | {'hf_context_tokens': 99},
        ),
        (
            'agent:hugging_face/dialogpt,gpt2_size=large',
            {'model': 'hugging_face/dialogpt', 'gpt2_size': 'large'},
        ),
        ('zoo:mini/judge/model', {'model_file': 'zoo:mini/judge/model'}),
        ('/a,b/model', {'model_file': '/a,b/model'}),
    ],
)
def test_a_judges_name_means_these_options(name, opt):
    assert judge_system(name).opt == opt


def test_a_judge_may_be_a_folder_or_a_file_that_describes_it(folder, tmp_path):
    opt = {'model': 'ext:hf', 'hf_model': folder}
    assert judge_system(folder).opt == opt
    path = written(tmp_path, 'judge.yaml', {'name': 'mine', 'opt': opt})
    assert judge_system(str(path)).opt == opt


def test_dialogpt_reads_what_its_agent_reads(dialogpt):
    spec = f'agent:hugging_face/dialogpt,model_name={dialogpt["model_name"]}'
    judge = load_judge(f'{spec},text_truncate=96')
    agent = loaded(**dialogpt).agent.clone()
    for n, text in enumerate(TEXTS[:20]):
        seen = agent.observe({'text': text, 'episode_done': False})
        ids, cut = judge.vectorizer.context(tuple(TEXTS[: n + 1]))
        assert ids == seen['text_vec'].tolist()
        assert cut == seen['context_original_length'] - len(ids)
    assert cut > 0


def test_dialogpt_is_cut_as_its_agent_says_unless_told_otherwise(dialogpt):
    spec = f'agent:hugging_face/dialogpt,model_name={dialogpt["model_name"]}'
    # 768 of ParlAI, but the tiny model has 128 positions, a quarter of them kept free
    whole = load_judge(spec).vectorizer
    assert (whole.separator, whole.whole_turns, whole.limit) == (None, False, 96)
    assert load_judge(f'{spec},text_truncate=50').vectorizer.limit == 50
    # an end token that is typed ends nothing
    end = whole.tokenizer
    ids = whole.continuation(f'tea {end.eos_token} rain')
    assert ids.count(end.eos_token_id) == 1


def reader(folder, **form):
    return SeparateTurns(AutoTokenizer.from_pretrained(folder), **form)


def test_long_contexts_are_cut_at_their_beginning(folder):
    turns = tuple(TEXTS[:6])
    everything = reader(folder)
    ids, _ = everything.context(turns)
    sizes = [len(everything.continuation(text)) for text in turns]
    kept = sum(sizes[3:])
    cut_turns = reader(folder, limit=kept + sizes[2] - 1).context(turns)
    assert cut_turns == (ids[-kept:], len(ids) - kept)
    cut_tokens = reader(folder, limit=9, whole_turns=False).context(turns)
    assert cut_tokens == (ids[-9:], len(ids) - 9)
    # of one turn that is too long the end is kept
    ids, _ = everything.context((' '.join(TEXTS),))
    found = reader(folder, limit=9).context((' '.join(TEXTS),))
    assert found == (ids[-9:], len(ids) - 9)


def test_a_turn_of_its_own_separator(folder):
    with_separator = reader(folder, separator=' tea')
    tokenizer = with_separator.tokenizer
    expected = tokenizer.encode('rain tea', add_special_tokens=False)
    assert with_separator.continuation('rain') == tuple(expected)
    assert with_separator.context(('rain', 'rain'))[0] == expected * 2


def test_the_signature_is_of_weights_and_options_and_not_of_the_folder(
    folder, tmp_path
):
    moved = shutil.copytree(folder, tmp_path / 'elsewhere')
    other = make_model(tmp_path / 'other', 'gpt2', seed=7)
    changes = ('hf_context_tokens=40', 'hf_dtype=float64', 'hf_turn_separator=tea')
    specs = [folder, moved, other, *(f'{folder},{change}' for change in changes)]
    first, *others = (load_judge(f'hf:{spec}').signature for spec in specs)
    assert others[0] == first and len({*others}) == 5


@pytest.mark.parametrize(
    'options, line',
    [
        ('hf_dtype=int4', "hf_dtype: 'int4'"),
        ('hf_quantisation=3bit', "hf_quantisation: '3bit'"),
        ('hf_quantisation=4bit', 'hf_quantisation: 4bit needs a GPU'),
        ('hf_format=chat', 'hf_format: chat: a judge reads turns'),
        ('hf_format=x', "hf_format: 'x'; known: auto, plain"),
        ('hf_dtyp=float32', 'hf_dtyp: there is no such option; .*hf_dtype'),
        ('hf_trust_code=true', 'hf_trust_code: a judge that brings code'),
    ],
)
def test_a_wrong_option_is_one_line(folder, options, line):
    with user_error(f'^judge {folder}: .*{line}'):
        load_judge(f'hf:{folder},{options}')


@pytest.mark.parametrize('kind', ['gpt2', 't5'])
def test_a_kernel_of_the_hub_is_not_run(tmp_path, kind):
    judge = make_model(tmp_path / kind, kind)
    changed_json(f'{judge}/config.json', attn_implementation='a/kernel')
    line = "asks for the kernel 'a/kernel', code from the hub; for a system"
    with user_error(line):
        load_judge(f'hf:{judge}')


@pytest.mark.parametrize(
    'name, line',
    [
        ('hf:a/b,x', '^judge hf:a/b,x: key=value is expected'),
        ('hf:/no/such/folder', 'there is no folder'),
        ('agent:hugging_face/gpt2,model_name=x', 'ext:hf would do'),
        ('nowhere/model', 'there is no file .*nowhere/model'),
        ('zoo:blender/blender_9B/model', r'cannot be downloaded: \S+BST9B'),
        *((start + 'x' * 5000, '') for start in ('', 'zoo:', 'hf:')),  # no file's name
    ],
    ids=lambda text: text[:20],
)
@pytest.mark.usefixtures('data_in_tmp_path', 'addresses_asked')
def test_a_judge_that_cannot_be_had_is_one_line(name, line):
    with user_error(line):
        load_judge(name)


HEARD = tuple(sentences(12, seed=3))
HISTORIES = {
    'two spaces': {'delimiter': '  '},
    'person tokens': {'person_tokens': True},
    'end token': {'history_add_global_end_token': 'end'},
    'last two': {'history_size': 2},
    'split lines': {'split_lines': True},
    'reversed and truncated': {'history_reversed': True, 'text_truncate': 9},
}


def load(model_file):
    return create_agent_from_model_file(
        model_file, {'datatype': 'valid', 'no_cuda': True}
    )


def listened(model_file, context):
    """
    The token ids that a fresh agent holds after it has observed these turns.
    """
    agent = load(model_file)
    for text in context:
        seen = agent.observe({'text': text, 'episode_done': False})
    return seen['text_vec'].tolist(), seen['context_truncated_length']


@pytest.mark.parametrize('name', HISTORIES)
def test_context_is_what_the_agent_would_have_heard(tmp_path, name):
    model_file = make_generator(tmp_path, **HISTORIES[name])
    vectorizer = AgentVectorizer(load(model_file))
    texts = (*HEARD[:3], f'{HEARD[3]}\n{HEARD[4]}', *HEARD[5:])
    # growing, repeated, another dialogue, back again, shorter
    asked = [texts[:1], texts[:4], texts[:4], texts[5:7], texts, texts[:2]]
    found = [vectorizer.context(context) for context in asked]
    assert found == [listened(model_file, context) for context in asked]


def test_a_continuation_is_cut_or_ended_as_the_agents_label(tmp_path):
    agent = load(make_generator(tmp_path, label_truncate=4))
    vectorizer = AgentVectorizer(agent)
    ids = agent.dict.txt2vec('you saw rain today again')
    assert vectorizer.continuation('you saw rain today again') == tuple(ids[:4])
    assert vectorizer.continuation('you saw rain') == (*ids[:3], agent.END_IDX)


def test_an_empty_context_does_not_depend_on_its_company(tmp_path):
    judge = load_judge(make_generator(tmp_path), double=True)
    empty = Question(('',), ('you saw rain',))
    [alone] = judge.answer([empty])
    [_, beside] = judge.answer([Question(HEARD, ('i',)), empty])
    assert beside.continuations[0] == pytest.approx(alone.continuations[0], abs=1e-12)


def test_signature_tells_judges_apart(tmp_path):
    changes = [{}, {'seed': 1}, {'delimiter': '  '}, {'text_truncate': 9}]
    changes.append({'label_truncate': 4})
    files = [make_generator(tmp_path, str(i), **c) for i, c in enumerate(changes)]
    shutil.copytree(tmp_path, tmp_path / 'there')
    files.append(str(tmp_path / 'there' / '0'))  # of content, not of place
    assert len({load_judge(file).signature for file in files}) == len(changes)


def described(tmp_path, **opt):
    opt = {'model_file': make_generator(tmp_path), **opt}
    return str(written(tmp_path, 'judge.yaml', {'name': 'judge', 'opt': opt}))


def test_a_file_may_say_the_precision(tmp_path):
    judge = load_judge(described(tmp_path, judge_dtype='bfloat16'))
    assert {w.dtype for w in judge.model.parameters()} == {torch.bfloat16}
    assert 'dtype:bfloat16' in judge.signature


@pytest.mark.parametrize('dtype', ['8bit', 16])
def test_fewer_bits_are_refused_in_one_line(tmp_path, dtype):
    with user_error('judge_dtype: .* is none of float32'):
        load_judge(described(tmp_path, judge_dtype=dtype))


def test_a_model_for_several_gpus_judges_without_any(tmp_path):
    one = load_judge(described(tmp_path, model_parallel=True))
    other = load_judge(str(tmp_path / 'tiny'))
    asked = [Question(HEARD[:3], HEARD[3:6])]
    assert one.answer(asked) == other.answer(asked)


# === Models in a process of their own =================================================

SIX_TEXTS = sentences(6, seed=2)
ASKED = [
    Question(tuple(SIX_TEXTS[:2]), tuple(SIX_TEXTS[2:4])),
    Question((), (SIX_TEXTS[4], '')),
    Question((5, 6), ((7, 8),)),
]
MASKED = {'texts': SIX_TEXTS[2:4], 'most_tokens': 50, 'with_before': True}
PAIR = [((SIX_TEXTS[0], SIX_TEXTS[1]), SIX_TEXTS[2]), ((), SIX_TEXTS[3])]


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
            ('encode', SIX_TEXTS, {}),
            ('pooler_states', SIX_TEXTS[:2], {}),
            ('token_vectors', SIX_TEXTS[:2], {'layer': 1}),
            ('cut_tokens', [' '.join(SIX_TEXTS * 9)], {}),
        ],
    ),
    'classifier': (
        classifier,
        [('probabilities', SIX_TEXTS, {'seconds': SIX_TEXTS[::-1]})],
    ),
    'regressor': (
        lambda folder: classifier(folder, num_labels=1),
        [('numbers', SIX_TEXTS, {})],
    ),
    'masked_lm': (
        lambda folder: make_roberta(folder, transformers.RobertaForMaskedLM),
        [('masked_logprobs', SIX_TEXTS[:2], MASKED)],
    ),
    'token_classifier': (
        lambda folder: make_roberta(
            folder, transformers.RobertaForTokenClassification, num_labels=2
        ),
        [
            (
                'word_labels',
                SIX_TEXTS[:2],
                {'contexts': SIX_TEXTS[2:4], 'most_tokens': 20},
            )
        ],
    ),
    'pair_encoder': (
        make_bert,
        [('features', PAIR, {'most_tokens': 20})],
    ),
    'chat': (
        lambda folder: make_model(folder, 'llama', template=CHAT),
        [
            ('replies', SIX_TEXTS[:2], {}),
            ('rating_replies', SIX_TEXTS[:1], {'logprobs': True}),
        ],
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
