"""
FiD and RAG take a seat: a batch says what each row says alone, and what they say
depends on the passages that they find.
"""

import json
from functools import cache
from pathlib import Path

import pytest
from parlai.agents.rag import retrievers

from parlai_ext.collect.lockstep import BatchRow, play
from parlai_ext.core.nouns import Opener, Pairing, System
from parlai_ext.systems.parlai_agents import load_system
from tests.support.family_fid import FAMILIES, build, write_passages
from tests.support.tiny_models import SIZES, in_float64, make_ranker, sentences

CLASSES = {'fid': 'FidAgent', 'rag': 'RagAgent', 'sequence': 'RagAgent'}
DECODING = {
    'greedy': {'inference': 'greedy'},
    'beam': {'inference': 'beam', 'beam_size': 3, 'beam_min_length': 3},
    'blocking': {
        'inference': 'beam',
        'beam_size': 2,
        'beam_context_block_ngram': 2,
        'beam_block_full_context': True,
    },
}
# ParlAI gives every re-ranker the size of the zoo's (rag/args.py:40)
RERANKER = {
    **retrievers.TRANSFORMER_RANKER_BASE_OPT,
    **SIZES,
    'text_truncate': 64,
    'dict_tokenizer': 'space',
}
CODES = {
    'max_doc_token_length': 64,
    'rag_query_truncate': 64,
    'poly_n_codes': 4,
    'poly_attention_num_heads': 2,
    'codes_attention_num_heads': 2,
}


def build_sequence(folder):
    """
    RAG-Sequence: a row of its own for every passage.
    """
    return build(folder, 'sequence', 'rag', 23, rag_model_type='sequence')


def build_turn(folder):
    """
    RAG-Turn: passages for each of the last turns.
    """
    kind = {'rag_model_type': 'turn', 'rag_turn_marginalize': 'doc_only'}
    return build(folder, 'turn', 'rag', 25, **kind)


def build_poly(folder):
    """
    FiD whose passages a poly-encoder ranks again, as in `bart_fid_rag_dpr_poly`.
    """
    where = {'polyencoder_init_model': make_ranker(folder, 'ranker', 24, **RERANKER)}
    kind = {'rag_retriever_type': 'dpr_then_poly', 'dpr_num_docs': 8, **CODES}
    return {**build(folder, 'poly', 'fid', 24, **kind, **where), **where}


KINDS = {
    **FAMILIES,
    'sequence': build_sequence,
    'turn': build_turn,
    'poly': build_poly,
}
SPEAKERS = [
    *((kind, how) for kind in ('fid', 'rag', 'sequence') for how in ('greedy', 'beam')),
    ('sequence', 'blocking'),
    ('turn', 'blocking'),
    ('poly', 'beam'),
]


@pytest.fixture(scope='module', autouse=True)
def small_rerankers():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retrievers, 'TRANSFORMER_RANKER_BASE_OPT', RERANKER)
        yield


@pytest.fixture(scope='module')
def opt_of(tmp_path_factory):
    @cache
    def opt_of(kind):
        return KINDS[kind](tmp_path_factory.mktemp(kind))

    return opt_of


@pytest.fixture(scope='module')
def player_of(opt_of):
    @cache
    def player_of(kind, how):
        return loaded({**opt_of(kind), **DECODING[how]})

    return player_of


@pytest.fixture(scope='module')
def held(player_of):
    @cache
    def held(kind, how):
        return talk(player_of(kind, how), rows_of())

    return held


def loaded(opt):
    player = load_system(System('x', opt))
    in_float64(player.agent)
    return player


def talk(player, rows):
    return play(rows, {'x': player}, 12)


def rows_of():
    """
    Return rows whose openers are of very different lengths: a batch has much padding.
    """
    texts = sentences(8, seed=7)
    long = ' '.join(texts * 2)
    pairs = [('tea', texts[0]), (texts[1], long), (long, 'rain'), texts[2:4]]
    pairing = Pairing('x-x', 'x', 'x', 'self')
    return [BatchRow(pairing, Opener.of(pair, 'test')) for pair in pairs]


def said(dialogues):
    return [u.text for d in dialogues for u in d.utterances if not u.given]


@pytest.mark.parametrize('kind', CLASSES)
def test_the_model_is_of_the_true_class(player_of, kind):
    assert type(player_of(kind, 'greedy').agent).__name__ == CLASSES[kind]


@pytest.mark.parametrize('kind', FAMILIES)
def test_its_options_can_stand_in_a_roster_file(opt_of, kind):
    assert json.loads(json.dumps(opt_of(kind))) == opt_of(kind)


@pytest.mark.parametrize('kind, how', SPEAKERS)
def test_it_holds_dialogues_on_both_sides(held, kind, how):
    for dialogue in held(kind, how):
        assert (dialogue.ended_by, dialogue.reason) == (None, None)
        assert len(dialogue.utterances) == 12


@pytest.mark.parametrize('kind, how', SPEAKERS)
def test_a_batch_says_what_each_row_says_alone(opt_of, held, kind, how):
    # read from its file once more, so what was loaded before plays no part either
    player = loaded({**opt_of(kind), **DECODING[how]})
    alone = [talk(player, [row])[0] for row in rows_of()]
    assert alone == held(kind, how)


@pytest.mark.parametrize('kind', KINDS)
def test_many_passages_are_found(player_of, kind):
    agent = player_of(kind, 'beam').agent
    found = set()
    for text in sentences(30, seed=8):
        clone = agent.clone()
        clone.observe({'text': text, 'episode_done': False})
        found.update(clone.act()['top_docs'])
    assert len(found) > 6


@pytest.mark.parametrize('kind', KINDS)
def test_other_passages_give_other_replies(opt_of, held, kind, tmp_path):
    # the index finds the same numbers, but other texts have them
    opt = opt_of(kind)
    before = Path(opt['path_to_dpr_passages']).read_text(encoding='utf-8')
    texts = [row.split('\t')[1] for row in before.split('\n')[1:-1]]
    moved = write_passages(tmp_path / 'moved.tsv', [*texts[1:], texts[0]])
    other = loaded({**opt, 'path_to_dpr_passages': str(moved), **DECODING['beam']})
    now, then = said(talk(other, rows_of())), said(held(kind, 'beam'))
    assert sum(a != b for a, b in zip(now, then, strict=True)) > len(then) / 2


@pytest.mark.parametrize('kind', FAMILIES)
def test_without_passages_for_a_context_it_says_something_else(player_of, kind):
    # what the retriever finds for one dialogue, given to another
    agent = player_of(kind, 'beam').agent
    one, other = (reply(agent, text) for text in ('tea', 'you like rain again'))
    assert one['top_docs'] != other['top_docs']
    retriever = agent.model.retriever
    find = retriever.retrieve_and_score
    question = agent.clone().observe({'text': 'tea', 'episode_done': False})
    docs = find(agent.batchify([question]).query_vec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retriever, 'retrieve_and_score', lambda query: docs)
        moved = reply(agent, 'you like rain again')
    assert moved['top_docs'] == one['top_docs']
    assert moved['text'] != other['text']


def reply(agent, text):
    clone = agent.clone()
    clone.observe({'text': text, 'episode_done': False})
    return clone.act()
