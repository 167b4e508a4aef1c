"""
Variants within the families: what a published model's options may choose is batched
rightly, too.
"""

import pytest

from parlai_ext.core.nouns import Opener, Pairing, System
from parlai_ext.systems.identity import candidates_hash, identity
from parlai_ext.systems.parlai_agents import load_system
from parlai_ext.worlds.lockstep import BatchRow
from tests.support.families import FAMILIES, SPEECH
from tests.support.lockstep_play import play
from tests.support.tiny_models import WORDS, in_float64, make_model, make_ranker

LENGTHS = [(1, 2), (30, 4), (3, 60), (1, 1)]
BEAM = {'inference': 'beam', 'beam_size': 3, 'beam_min_length': 3}
RECURRENT = {'hiddensize': 16, 'embeddingsize': 16, 'numlayers': 2, 'truncate': 128}


def dialogues(opt):
    """
    Return what a system says to itself over openers of many lengths: in one batch,
    and dialogue by dialogue.
    """
    player = load_system(System('a', opt))
    in_float64(player.agent)
    pairing = Pairing('p', 'a', 'a', 'self_play')
    rows = []
    for n in LENGTHS:
        texts = [' '.join((WORDS * 3)[k : 2 * k]) for k in n]
        rows.append(BatchRow(pairing, Opener.from_utterances(texts, 'test')))
    together = play(rows, {'a': player}, 8)
    return together, [play([row], {'a': player}, 8)[0] for row in rows]


@pytest.mark.parametrize('n', [1, 2, 3])
@pytest.mark.parametrize('full', [True, False])
@pytest.mark.parametrize('name', ['generator', 'bart', 'dialogpt', 'image_seq2seq'])
@pytest.mark.slow
def test_blocking_ngrams_of_the_context_is_batched_rightly(tmp_path, name, full, n):
    block = {'beam_context_block_ngram': n, 'beam_block_full_context': full}
    together, alone = dialogues({**FAMILIES[name](tmp_path), **BEAM, **block})
    assert together == alone


@pytest.mark.parametrize('time', ['pre', 'post'])
@pytest.mark.parametrize('kind', ['none', 'concat', 'general', 'dot', 'local'])
@pytest.mark.parametrize('bidirectional', [True, False])
@pytest.mark.slow
def test_every_attention_of_the_lstm_is_batched_rightly(
    tmp_path, time, kind, bidirectional
):
    attention = {'attention': kind, 'attention_time': time, 'attention_length': 20}
    opt = {**RECURRENT, **SPEECH, **attention, 'bidirectional': bidirectional}
    path = make_model(tmp_path, 'lstm', 5, {'model': 'seq2seq', **opt})
    together, alone = dialogues({'model_file': path})
    assert together == alone


@pytest.mark.parametrize('kind', ['codes', 'n_first'])
@pytest.mark.parametrize('attention', ['basic', 'sqrt', 'multihead'])
@pytest.mark.parametrize('codes', ['basic', 'sqrt', 'multihead'])
@pytest.mark.slow
def test_every_attention_of_the_polyencoder_is_batched_rightly(
    tmp_path, kind, attention, codes
):
    path = make_ranker(
        tmp_path,
        polyencoder_type=kind,
        poly_attention_type=attention,
        codes_attention_type=codes,
    )
    together, alone = dialogues({'model_file': path})
    assert together == alone


@pytest.mark.parametrize('name', ['generator', 'bart', 'dialogpt', 'seq2seq_lstm'])
@pytest.mark.slow
def test_contexts_that_are_cut_are_batched_rightly(tmp_path, name):
    opt = FAMILIES[name](tmp_path)
    together, alone = dialogues({**opt, 'truncate': 12, 'text_truncate': 12})
    assert together == alone


@pytest.mark.parametrize('special', [True, False])
@pytest.mark.slow
def test_a_fine_tuned_dialogpt_has_a_model_file(tmp_path, special):
    opt = {**FAMILIES['dialogpt'](tmp_path), 'add_special_tokens': special}
    path = make_model(tmp_path, 'tuned', 6, opt, words=False)
    # which folder of tokenizers is read is for the roster to say
    whence = {'model_name': opt['model_name']}
    together, alone = dialogues({'model_file': path, **whence, **BEAM})
    assert together == alone
    assert [d.reason for d in together] == [None] * 4


def test_a_ranker_with_too_few_candidates_says_so(tmp_path):
    path = make_ranker(tmp_path, candidates=['you like tea', 'we saw rain'])
    together, alone = dialogues({'model_file': path})
    assert {d.reason for d in together} == {
        'raised LookupError: every candidate has been said; the file needs more'
    }
    assert together == alone


def test_candidates_that_only_the_models_options_name_are_part_of_what_it_is(tmp_path):
    path = make_ranker(tmp_path, candidates=['you like tea', 'we saw rain'])
    system = System('x', {'model_file': path})
    before = identity(system), candidates_hash(system)
    [candidates] = tmp_path.glob('*.candidates.txt')
    candidates.write_text('you like tea\nwe saw nobody\n')
    after = identity(system), candidates_hash(system)
    assert None not in before + after
    assert before[0] != after[0] and before[1] != after[1]
