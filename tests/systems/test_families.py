"""
Every family of the papers' systems takes a seat: it is read from its file, holds a
dialogue of 12 utterances on either side, and a batch says what each row says alone.
What FiD and RAG say depends on the passages that they find.
"""

import socket
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from parlai.agents.rag import retrievers

from parlai_ext.core.nouns import Opener, Pairing, System
from parlai_ext.systems.parlai_agents import load_system
from parlai_ext.worlds.lockstep import BatchRow
from tests.support import family_fid
from tests.support.families import FAMILIES
from tests.support.family_fid import RERANKER, write_passages
from tests.support.lockstep_play import play
from tests.support.tiny_models import in_float64, sentences

DECODING = {
    'greedy': {'inference': 'greedy'},
    'beam': {'inference': 'beam', 'beam_size': 3, 'beam_min_length': 3},
    'topk': {'inference': 'topk', 'topk': 3},
    'blocking': {
        'inference': 'beam',
        'beam_size': 2,
        'beam_context_block_ngram': 2,
        'beam_block_full_context': True,
    },
    'own': {},  # a ranker has one way to speak
}
GENERATORS = [name for name in FAMILIES if name != 'polyencoder']
WITH_PASSAGES = family_fid.KINDS
ALL = {**FAMILIES, **WITH_PASSAGES}
SPEAKERS = [(name, 'beam') for name in (*GENERATORS, 'fid', 'rag', 'sequence')]
# ParlAI's greedy search is the same for all; what is in the cells of a batch is not
SPEAKERS += [(name, 'greedy') for name in ('generator', 'seq2seq_lstm', 'rag')]
SPEAKERS += [
    pytest.param(name, 'greedy', marks=pytest.mark.slow)
    for name in (*GENERATORS, 'fid', 'sequence')
    if name not in ('generator', 'seq2seq_lstm')
]
SPEAKERS += [('polyencoder', 'own'), ('poly', 'beam')]
SPEAKERS += [('sequence', 'blocking'), ('turn', 'blocking')]
CLASSES = {
    'generator': 'TransformerGeneratorAgent',
    'style_gen': 'StyleGenAgent',
    'long_context': 'LongContextAgent',
    'image_seq2seq': 'ImageSeq2seqAgent',
    'bart': 'BartAgent',
    'r2c2': 'BartAgent',
    'polyencoder': 'PolyencoderAgent',
    'dialogpt': 'DialogptAgent',
    'unlikelihood_vocab': 'TransformerSequenceVocabUnlikelihoodAgent',
    'unlikelihood_repetition': 'RepetitionUnlikelihoodAgent',
    'seq2seq_lstm': 'Seq2seqAgent',
    'fid': 'FidAgent',
    'rag': 'RagAgent',
    'sequence': 'RagAgent',
    'turn': 'RagAgent',
    'poly': 'FidAgent',
}


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """
    Make a look at the hub, or a download, fail.
    """

    def refuse(*args):
        raise OSError(f'a connection was tried: {args[1:]}')

    monkeypatch.setattr(socket.socket, 'connect', refuse)


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
        opt = {**opt_of(name), **DECODING[how], **more}
        player = load_system(System(name, opt))
        in_float64(player.agent)
        return player

    @cache
    def partner():
        return player_of('generator', 'greedy')

    @cache
    def held(name, how):
        return play(rows_of(name), {name: player_of(name, how), 'p': partner()}, 12)

    return SimpleNamespace(
        opt_of=opt_of, player_of=player_of, partner=partner, held=held
    )


def rows_of(name):
    """
    Return two rows in which the system speaks first and two in which it is second.

    Openers are of very different lengths: rows of a batch get much padding.
    """
    texts = sentences(8, seed=7)
    long = ' '.join(texts)
    pairs = [('tea', texts[0]), (texts[1], long), (long, 'rain'), texts[2:4]]
    sides = [(name, 'p'), ('p', name)]
    pairings = [Pairing(f'{a}-{b}', a, b, 'bipartite') for a, b in sides]
    return [
        BatchRow(pairing, Opener.from_utterances(pair, 'test'))
        for pairing, two in zip(pairings, (pairs[:2], pairs[2:]), strict=True)
        for pair in two
    ]


@pytest.mark.parametrize('name', ALL)
def test_the_model_is_of_the_true_class(stage, name):
    agent = stage.player_of(name, 'own').agent
    assert type(agent).__name__ == CLASSES[name]


@pytest.mark.parametrize('name, how', SPEAKERS)
def test_a_system_holds_dialogues_on_either_side(stage, name, how):
    for dialogue in stage.held(name, how):
        assert (dialogue.ended_by, dialogue.reason) == (None, None)
        assert len(dialogue.utterances) == 12
        speakers = {u.speaker for u in dialogue.utterances if not u.given}
        assert speakers == {name, 'p'}


@pytest.mark.parametrize('name, how', SPEAKERS)
def test_a_batch_says_what_each_row_says_alone(stage, name, how):
    # read from its file once more, so what was loaded before plays no part either
    players = {name: stage.player_of(name, how), 'p': stage.partner()}
    alone = [play([row], players, 12)[0] for row in rows_of(name)]
    assert alone == stage.held(name, how)


@pytest.mark.parametrize('name, how', SPEAKERS)
def test_a_reply_depends_on_the_context(stage, name, how):
    replies = [said(dialogue, name) for dialogue in stage.held(name, how)]
    assert len({first for first, *_ in replies}) > 1
    # a system that is deaf says the same five or so things in every dialogue
    assert len({text for texts in replies for text in texts}) > 8


@pytest.mark.parametrize('name', GENERATORS)
def test_a_generator_can_sample(stage, name):
    player = stage.player_of(name, 'topk')
    found = play(rows_of(name), {name: player, 'p': stage.partner()}, 6)
    assert [len(d.utterances) for d in found] == [6] * 4


@pytest.mark.parametrize('name', WITH_PASSAGES)
def test_many_passages_are_found(stage, name):
    agent = stage.player_of(name, 'beam').agent
    passages = set()
    for text in sentences(30, seed=8):
        passages.update(reply(agent, text)['top_docs'])
    assert len(passages) > 6


@pytest.mark.parametrize('name', WITH_PASSAGES)
def test_other_passages_give_other_replies(stage, name, tmp_path):
    # the index finds the same numbers, but other texts have them
    before = Path(stage.opt_of(name)['path_to_dpr_passages']).read_text('utf-8')
    how = 'blocking' if name == 'turn' else 'beam'
    texts = [row.split('\t')[1] for row in before.split('\n')[1:-1]]
    moved = write_passages(tmp_path / 'moved.tsv', [*texts[1:], texts[0]])
    other = stage.player_of(name, how, path_to_dpr_passages=str(moved))
    found = play(rows_of(name), {name: other, 'p': stage.partner()}, 12)
    replies = [
        [text for dialogue in dialogues for text in said(dialogue, name)]
        for dialogues in (found, stage.held(name, how))
    ]
    changed = sum(a != b for a, b in zip(*replies, strict=True))
    assert changed > len(replies[0]) / 2


@pytest.mark.parametrize('name', family_fid.FAMILIES)
def test_other_passages_for_a_context_change_the_reply(stage, name):
    # what the retriever finds for one dialogue, given to another
    agent = stage.player_of(name, 'beam').agent
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


def said(dialogue, name):
    return [u.text for u in dialogue.utterances if u.speaker == name and not u.given]
