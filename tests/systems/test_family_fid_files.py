"""
The files of a system that looks passages up: what is read, what it is, and the one
line that says what is missing.
"""

import shutil
from pathlib import Path

import pytest
import torch
from parlai.core.build_data import mark_done

from parlai_ext.compat.faults import index_files
from parlai_ext.core import System
from parlai_ext.systems import families
from parlai_ext.systems.identity import identity
from parlai_ext.systems.safe.read import same_bits
from tests.support.family_fid import (
    N_PASSAGES,
    build_fid,
    query_encoder,
    write_passages,
)
from tests.support.malicious_pickles import gadget, in_zip
from tests.support.store_samples import files_under
from tests.support.talk import answers, loaded
from tests.support.tiny_models import sentences
from tests.support.user_error import error_line

QUERY = 'retriever.query_encoder.'
WORD_VECTORS = 'embeddings.word_embeddings.weight'
NAME = 'with passages'


@pytest.fixture(scope='module')
def built(module_folder):
    return build_fid(module_folder)


@pytest.fixture
def opt(built, tmp_path):
    """
    Return the options of a copy, in which files may be changed.
    """
    home = Path(built['model_file']).parent
    shutil.copytree(home, tmp_path / 'fid')
    moved = {
        k: str(v).replace(str(home), str(tmp_path / 'fid')) for k, v in built.items()
    }
    return {**moved, 'datapath': str(tmp_path / 'data')}


def load(opt, **more):
    return loaded(NAME, **{**opt, **more}).agent


def line(opt, **more):
    start = f'system {NAME!r}: '
    found = error_line(load, opt, **more)
    assert found.startswith(start)
    return found.removeprefix(start)


@pytest.mark.usefixtures('no_network')
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
    monkeypatch.setattr(families, 'find_spec', lambda name: None)
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
def test_every_file_that_it_reads_is_part_of_the_identity(built, opt, change):
    before = identity(System(NAME, opt))
    assert before == identity(System(NAME, {**built, 'datapath': opt['datapath']}))
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
