"""
Every family of the papers' systems takes a seat: it is read from its file, holds a
dialogue of 12 utterances on either side, and a batch says what each row says alone.
"""

import json
import socket
from functools import cache
from types import SimpleNamespace

import pytest

from parlai_ext.collect.lockstep import BatchRow, play
from parlai_ext.core.nouns import Opener, Pairing, System
from parlai_ext.systems.parlai_agents import load_system
from tests.support.families import FAMILIES
from tests.support.tiny_models import in_float64, sentences

DECODING = {
    'greedy': {'inference': 'greedy'},
    'beam': {'inference': 'beam', 'beam_size': 3, 'beam_min_length': 3},
    'topk': {'inference': 'topk', 'topk': 3},
    'own': {},  # a ranker has one way to speak
}
GENERATORS = [name for name in FAMILIES if name != 'polyencoder']
SPEAKERS = [(name, how) for name in GENERATORS for how in ('greedy', 'beam')]
SPEAKERS.append(('polyencoder', 'own'))
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
}


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """
    Make a look at the hub, or a download, fail.
    """

    def refuse(*args):
        raise OSError(f'a connection was tried: {args[1:]}')

    monkeypatch.setattr(socket.socket, 'connect', refuse)


@pytest.fixture(scope='module')
def stage(tmp_path_factory):
    """
    Return what makes a family's opt, a player of it, and the dialogues it held.
    """

    @cache
    def opt_of(name):
        return FAMILIES[name](tmp_path_factory.mktemp(name))

    def player_of(name, how):
        player = load_system(System(name, {**opt_of(name), **DECODING[how]}))
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
        BatchRow(pairing, Opener.of(pair, 'test'))
        for pairing, two in zip(pairings, (pairs[:2], pairs[2:]), strict=True)
        for pair in two
    ]


@pytest.mark.parametrize('name', FAMILIES)
def test_the_model_is_of_the_true_class(stage, name):
    agent = stage.player_of(name, 'own').agent
    assert type(agent).__name__ == CLASSES[name]


@pytest.mark.parametrize('name', FAMILIES)
def test_its_options_can_stand_in_a_roster_file(stage, name):
    opt = stage.opt_of(name)
    assert json.loads(json.dumps(opt)) == opt


@pytest.mark.parametrize('name, how', SPEAKERS)
def test_it_holds_dialogues_on_either_side(stage, name, how):
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
def test_what_it_says_depends_on_what_it_heard(stage, name, how):
    replies = [said(dialogue, name) for dialogue in stage.held(name, how)]
    assert len({first for first, *_ in replies}) > 1
    # a system that is deaf says the same five or so things in every dialogue
    assert len({text for texts in replies for text in texts}) > 8


@pytest.mark.parametrize('name', GENERATORS)
def test_it_samples(stage, name):
    player = stage.player_of(name, 'topk')
    found = play(rows_of(name), {name: player, 'p': stage.partner()}, 6)
    assert [len(d.utterances) for d in found] == [6] * 4


def said(dialogue, name):
    return [u.text for u in dialogue.utterances if u.speaker == name and not u.given]
