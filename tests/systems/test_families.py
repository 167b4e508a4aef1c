"""
Every family of the papers' systems takes a seat: it is read from its file, holds a
dialogue of 12 utterances on either side, and a batch says what each row says alone, in
every variant that a published model's options may choose. What FiD and RAG say depends
on the passages that they find.
"""

import shutil
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from parlai.agents.rag import retrievers
from parlai.core.build_data import mark_done

from parlai_ext.compat.faults import index_files
from parlai_ext.core import System
from parlai_ext.systems.identity import candidates_hash, identity
from parlai_ext.systems.parlai_agents import why_unfit
from parlai_ext.systems.safe.read import same_bits
from tests.support import family_fid, family_hf
from tests.support.families import FAMILIES
from tests.support.family_fid import (
    N_PASSAGES,
    RERANKER,
    build_fid,
    query_encoder,
    write_passages,
)
from tests.support.lockstep_play import DECODING, play, row
from tests.support.malicious_pickles import gadget, in_zip
from tests.support.store_samples import files_under
from tests.support.talk import answers, loaded
from tests.support.tiny_models import in_float64, make_ranker, sentences
from tests.support.user_error import error_line, user_error

WAYS = {**DECODING, 'own': {}}  # a ranker has one way to speak


GENERATORS = [name for name in FAMILIES if name != 'polyencoder']


WITH_PASSAGES = family_fid.KINDS


# of Hugging Face's library
HF = family_hf.FAMILIES


# a look at the hub, or a download, fails
pytestmark = pytest.mark.usefixtures('no_network')

ALL = {**FAMILIES, **WITH_PASSAGES, **HF, 'causal_lm': family_hf.causal_lm}


SPEAKERS = [
    *((name, 'beam') for name in GENERATORS),
    *((name, 'beam') for name in ('causal_lm', 'fid', 'sequence', 'rag', 'poly')),
    # ParlAI's greedy search is the same for all; what is in the cells of a batch is not
    *((name, 'greedy') for name in ('generator', 'seq2seq_lstm', 'rag')),
    ('polyencoder', 'own'),
    ('generator', 'blocking'),
    ('sequence', 'blocking'),
    ('turn', 'blocking'),
]


@pytest.fixture(scope='module', autouse=True)
def small_rerankers():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retrievers, 'TRANSFORMER_RANKER_BASE_OPT', RERANKER)
        yield


@pytest.fixture(scope='module')
def stage(tmp_path_factory):
    """
    Return what makes a family's opt, a player of it, and the dialogues it held.
    """

    @cache
    def opt_of(name):
        return ALL[name](tmp_path_factory.mktemp(name))

    def player_of(name, how, **more):
        player = loaded(name, **{**opt_of(name), **WAYS[how], **more})
        in_float64(player.agent)
        return player

    @cache
    def held(name, how):
        return played(name, player_of(name, how))

    return SimpleNamespace(opt_of=opt_of, player_of=player_of, held=held)


def played(name, player, rows=None, num_turns=12):
    """
    Return the dialogues of a system with a partner whose words depend on what it hears.
    """
    partner = loaded('p', model='tests.support.trial_agents:Talker')
    return play(rows or rows_of(name), {name: player, 'p': partner}, num_turns)


def rows_of(name):
    """
    Return two rows in which the system speaks first and two in which it is second.

    Openers are of very different lengths: rows of a batch get much padding.
    """
    texts = sentences(8, seed=7)
    long = ' '.join(texts)
    first = [row(name, 'p', pair) for pair in (('tea', texts[0]), (texts[1], long))]
    second = [row('p', name, pair) for pair in ((long, 'rain'), texts[2:4])]
    return first + second


@pytest.mark.parametrize('name, how', [*SPEAKERS, *((name, 'beam') for name in HF)])
def test_a_system_holds_dialogues_on_either_side(stage, name, how):
    held = stage.held(name, how)
    for dialogue in held:
        assert (dialogue.ended_by, dialogue.reason) == (None, None)
        assert len(dialogue.utterances) == 12
        assert {u.speaker for u in dialogue.utterances if not u.given} == {name, 'p'}
        if name == 'polyencoder':  # it never repeats a line of its own dialogue
            assert len({*said(dialogue, name)}) == len(said(dialogue, name))
    replies = [said(dialogue, name) for dialogue in held]
    assert len({first for first, *_ in replies}) > 1
    # a system that is deaf says the same five or so things in every dialogue
    assert len({text for texts in replies for text in texts}) > 8


# for the models of `ext:hf`, tests/agents/test_agent_hf.py says so
@pytest.mark.parametrize('name, how', SPEAKERS)
def test_a_batch_says_what_each_row_says_alone(stage, name, how):
    # read from its file once more, so what was loaded before plays no part either
    player = stage.player_of(name, how)
    # the shortest opener and the longest, whose rows have most and least padding
    for place in (0, 2):
        [alone] = played(name, player, rows_of(name)[place : place + 1], 8)
        assert alone.utterances == stage.held(name, how)[place].utterances[:8]


@pytest.mark.parametrize('name', WITH_PASSAGES)
def test_other_passages_give_other_replies(stage, name, tmp_path):
    # the index finds the same numbers, but other texts have them
    before = Path(stage.opt_of(name)['path_to_dpr_passages']).read_text('utf-8')
    how = 'blocking' if name == 'turn' else 'beam'
    texts = [row.split('\t')[1] for row in before.split('\n')[1:-1]]
    moved = write_passages(tmp_path / 'moved.tsv', [*texts[1:], texts[0]])
    other = stage.player_of(name, how, path_to_dpr_passages=str(moved))
    replies = [
        [text for dialogue in dialogues for text in said(dialogue, name)[:2]]
        for dialogues in (played(name, other, num_turns=6), stage.held(name, how))
    ]
    assert sum(a != b for a, b in zip(*replies, strict=True)) > len(replies[0]) / 2


def said(dialogue, name):
    return [u.text for u in dialogue.utterances if u.speaker == name and not u.given]


def test_a_ranker_with_too_few_candidates_says_so(tmp_path):
    path = make_ranker(tmp_path, candidates=['you like tea', 'we saw rain'])
    assert {d.reason for d in played('x', loaded('x', model_file=path))} == {
        'raised LookupError: every candidate has been said; the file needs more'
    }


def test_candidates_that_only_the_models_options_name_are_part_of_what_it_is(tmp_path):
    path = make_ranker(tmp_path, candidates=['you like tea', 'we saw rain'])
    system = System('x', {'model_file': path})
    before = identity(system), candidates_hash(system)
    [candidates] = tmp_path.glob('*.candidates.txt')
    candidates.write_text('you like tea\nwe saw nobody\n')
    after = identity(system), candidates_hash(system)
    assert None not in before + after
    assert before[0] != after[0] and before[1] != after[1]


CHANGED = {
    'bart as lstm': ('bart', {'model': 'seq2seq'}),
    'wider': ('generator', {'embedding_size': 32}),
}


@pytest.fixture(scope='module')
def built(module_folder):
    names = dict.fromkeys(name for name, _ in CHANGED.values())
    return {name: FAMILIES[name](module_folder) for name in names}


def misfit_line(opt):
    """
    Return what is said of a system that cannot be loaded.
    """
    with user_error() as caught:
        loaded('x', **opt)
    return why_unfit(caught.value.__cause__, opt)


@pytest.mark.parametrize('case', CHANGED)
def test_a_model_file_that_does_not_fit_is_one_short_line(built, case):
    name, change = CHANGED[case]
    opt = {**built[name], **change}
    line = misfit_line(opt)
    start = f'model_file: {opt["model_file"]} is no {opt["model"]}'
    assert line.startswith(start)
    rest = line.removeprefix(start)
    assert ': its weights do not fit (' in rest
    assert '\n' not in rest and len(rest) < 200
    # its own options say otherwise
    assert rest.endswith("; its own options say 'bart'") == ('model' in change)


@pytest.mark.parametrize(
    'name, text, start, rest',
    [
        # 30 words and ParlAI's four are in the tiny models' dictionary
        ('generator.dict', 'a\t1\nb\t1\n', '{} makes 6 words', '{} are for 34'),
        ('gone.dict', None, 'there is no file {}', '34 words'),
    ],
)
def test_a_dictionary_that_does_not_fit_is_named(
    built, tmp_path, name, text, start, rest
):
    opt, words = built['generator'], tmp_path / name
    for path in Path(opt['model_file']).parent.glob('generator*'):
        shutil.copy(path, tmp_path / path.name)
    (tmp_path / 'generator.dict').unlink()
    if text is not None:
        words.write_text(text)
    model = str(tmp_path / 'generator')
    line = misfit_line({**opt, 'model_file': model, 'dict_file': str(words)})
    assert line.startswith(f'dict_file: {start.format(words)}')
    assert rest.format(model) in line


# ---- The files of a system that looks passages up: what is read, what it is, and the
# one line that says what is missing.

QUERY = 'retriever.query_encoder.'
WORD_VECTORS = 'embeddings.word_embeddings.weight'
NAME = 'with passages'


@pytest.fixture(scope='module')
def built_fid(module_folder):
    return build_fid(module_folder)


@pytest.fixture
def opt(built_fid, tmp_path):
    """
    Return the options of a copy, in which files may be changed.
    """
    home = Path(built_fid['model_file']).parent
    shutil.copytree(home, tmp_path / 'fid')
    moved = {
        k: str(v).replace(str(home), str(tmp_path / 'fid'))
        for k, v in built_fid.items()
    }
    return {**moved, 'datapath': str(tmp_path / 'data')}


def load(opt, **more):
    return loaded(NAME, **{**opt, **more}).agent


def line(opt, **more):
    start = f'system {NAME!r}: '
    found = error_line(load, opt, **more)
    assert found.startswith(start)
    return found.removeprefix(start)


def test_nothing_is_asked_of_the_network_printed_or_written(opt, capfd):
    home = Path(opt['path_to_index']).parent
    before = files_under(home)
    answers(load(opt), ['tea'])
    assert capfd.readouterr() == ('', '')
    assert files_under(home) == before


def test_words_may_lie_in_the_data_folder(opt):
    home = Path(opt['model_file']).parent / 'bert_base_uncased'
    shutil.move(home, Path(opt['datapath'], 'bert_base_uncased'))
    assert load(opt).model.tokenize_query('tea') == [2, 9, 3]


def test_words_and_query_encoder_are_those_of_the_model_file(opt):
    assert 'dpr_model_file' not in opt
    agent = load(opt)
    # five special tokens, then the words; 'tea' is the fifth of them, 'rain' the sixth
    assert agent.model.tokenize_query('Tea rain nowhere') == [2, 9, 10, 1, 3]
    states = torch.load(opt['model_file'])['model']
    saved = {k.removeprefix(QUERY): v for k, v in states.items() if QUERY in k}
    assert len(saved) > 30
    assert same_bits(saved, agent.model.retriever.query_encoder.state_dict())


def encodes_queries_by(agent, checkpoint):
    """
    True if the word vectors of an agent's query encoder are those of a checkpoint.
    """
    words = torch.load(checkpoint)['model_dict'][f'question_model.{WORD_VECTORS}']
    return torch.equal(agent.model.retriever.query_encoder.embeddings.weight, words)


def test_a_checkpoint_that_is_named_wins_over_it(opt, tmp_path):
    checkpoint = query_encoder(tmp_path, 77)
    agent = load(opt, dpr_model_file=str(checkpoint))
    assert encodes_queries_by(agent, checkpoint)


def test_a_plain_bart_gets_the_query_encoder_of_the_zoo(opt):
    home = Path(opt['datapath'], 'models', 'hallucination', 'multiset_dpr')
    home.mkdir(parents=True)
    checkpoint = query_encoder(Path(opt['datapath']), 78)
    shutil.move(checkpoint, home / 'hf_bert_base.cp')
    mark_done(str(home), 'v1.0')
    bart = Path(opt['model_file']).with_name('fid_bart')
    more = {'generation_model': 'bart', 'retriever_embedding_size': 16}
    agent = load(opt, model_file=str(bart), **more)
    assert encodes_queries_by(agent, home / 'hf_bert_base.cp')


@pytest.mark.parametrize('form', ['file', 'beginning', 'folder'])
def test_an_index_is_a_file_a_folder_or_how_names_begin(opt, form, tmp_path):
    index, *numbers = index_files(opt['path_to_index'])
    home = tmp_path / 'index'
    home.mkdir()
    name = 'index' if form == 'folder' else 'exact.index'
    shutil.copy(index, home / name)
    torch.save(torch.load(numbers[0]), home / f'{name}_meta')
    path = {'file': home / name, 'beginning': home / 'exact', 'folder': home}[form]
    agent = load(opt, path_to_index=str(path))
    assert len(agent.model.retriever.indexer.index_id_to_db_id) == N_PASSAGES


def test_missing_faiss_is_one_line(opt, monkeypatch):
    monkeypatch.setattr('parlai_ext.systems.families.find_spec', lambda name: None)
    assert line(opt) == "path_to_index: needs faiss: pip install 'parlai_ext[rag]'"


@pytest.mark.parametrize(
    'lost, key, start',
    [
        ('fid.tsv', 'path_to_dpr_passages', '{path}; it is tab-separated: id, text'),
        ('passages.index', 'path_to_index', '{path};'),
        ('ids_0', 'path_to_index', '{path}_'),
    ],
)
def test_a_missing_file_is_named_with_its_option(opt, lost, key, start):
    [file] = Path(opt['model_file']).parent.rglob(lost)
    file.unlink()
    expected = f'{key}: there is no file {start.format(path=opt[key])}'
    assert line(opt).startswith(expected)


def test_the_numbers_of_another_index_are_refused(opt):
    torch.save(['1', '2'], Path(opt['path_to_index']).with_name('ids_0'))
    message = line(opt)
    assert message.startswith(f'path_to_index: {opt["path_to_index"]} has 30 passages,')
    assert ' 2 are numbered in ' in message


@pytest.mark.parametrize(
    'more, start',
    [
        ({'path_to_dpr_passages': 'psgs_w100.tsv.gz'}, 'path_to_dpr_passages: psgs_w1'),
        ({'n_docs': N_PASSAGES + 1}, 'n_docs: 31 passages are wanted, but the index'),
        (
            {
                'rag_retriever_type': 'dpr_then_poly',
                'dpr_num_docs': 8,
                'polyencoder_init_model': 'nowhere',
            },
            'polyencoder_init_model: ',
        ),
        ({'model': 'rag', 'rag_model_type': 'turn'}, 'rag_turn_marginalize: ParlAI'),
    ],
)
def test_an_option_that_cannot_be_met_is_one_line(opt, more, start):
    assert line(opt, **more).startswith(start)


def test_the_passages_of_another_index_are_refused(opt):
    write_passages(Path(opt['path_to_dpr_passages']), sentences(N_PASSAGES - 2))
    found = line(opt)
    assert found.startswith('path_to_dpr_passages: passage 29 of the index is not in ')


def test_a_missing_tokenizer_is_one_line(opt, monkeypatch):
    import huggingface_hub

    def offline(*args, **kwargs):
        raise ConnectionError

    monkeypatch.setattr(huggingface_hub, 'hf_hub_download', offline)
    monkeypatch.setattr(huggingface_hub, 'try_to_load_from_cache', lambda *_: None)
    shutil.rmtree(Path(opt['model_file']).parent / 'bert_base_uncased')
    message = line(opt)
    assert message.startswith('query_model: ')
    assert 'config.json and vocab.txt' in message
    assert message.endswith(f'{opt["datapath"]}/bert_base_uncased')


@pytest.mark.parametrize('change', ['index', 'ids_0', 'tsv', 'vocab.txt'])
def test_every_file_that_it_reads_is_part_of_the_identity(built_fid, opt, change):
    before = identity(System(NAME, opt))
    assert before == identity(System(NAME, {**built_fid, 'datapath': opt['datapath']}))
    home = Path(opt['model_file']).parent
    [file] = [p for p in home.rglob('*') if p.is_file() and p.name.endswith(change)]
    file.write_bytes(file.read_bytes() + b' ')
    assert identity(System(NAME, opt)) != before


def test_an_index_reaches_no_file_elsewhere(opt, tmp_path):
    import faiss

    path = opt['path_to_index']
    exact = faiss.read_index(path)
    vectors = exact.reconstruct_n(0, exact.ntotal)
    split = faiss.IndexIVFFlat(faiss.IndexFlatIP(exact.d), exact.d, 1)
    split.train(vectors)
    lists = tmp_path / 'elsewhere' / 'lists'
    lists.parent.mkdir()
    on_disk = faiss.OnDiskInvertedLists(1, split.code_size, str(lists))
    split.replace_invlists(on_disk)
    split.add(vectors)
    faiss.write_index(split, path)
    assert faiss.read_index(path).ntotal == exact.ntotal  # faiss itself goes there
    assert 'lists' in line(opt)
    shutil.move(lists, Path(path).parent)
    load(opt)


def test_the_file_of_passage_numbers_runs_no_code(opt, tmp_path):
    marker = tmp_path / 'marker'
    numbers = Path(opt['path_to_index']).parent / 'ids_0'
    numbers.write_bytes(in_zip(gadget('exec', marker)))
    assert 'refused: it wants to run builtins.exec' in line(opt)
    assert not marker.exists()
