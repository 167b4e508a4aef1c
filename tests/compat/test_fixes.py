"""
Things that ParlAI 1.7.2 does, each on a tiny real model: each works with our fix, and
without it fails with the complaint that is told.
"""

import os
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from parlai.core.dict import DictionaryAgent
from parlai.core.torch_generator_agent import DelayedNucleusBeamSearch, GreedySearch

from parlai_ext import compat
from tests.support.tiny_models import stock_agent

WITHOUT_FIXES = 'PARLAI_EXT_TEST_WITHOUT_FIXES'
LINES = ['hello there how are you', 'i am fine thank you', 'what do you like to eat']
COMPLAINTS = {}  # without the fix, by the name of the test


def without_the_fix(complaint):
    def note(test):
        COMPLAINTS[test.__name__] = complaint
        return test

    return note


@pytest.fixture(autouse=True)
def fixes():
    if WITHOUT_FIXES not in os.environ:
        compat.apply()


@pytest.mark.slow  # one of these tests passing means that a fix can go
def test_parlai_needs_the_fixes(tmp_path):
    # in a new process: one that was mended once stays so
    report = tmp_path / 'report.xml'
    command = [sys.executable, '-m', 'pytest', '-p', 'no:cacheprovider', __file__]
    env = {**os.environ, WITHOUT_FIXES: 'yes'}
    subprocess.run([*command, f'--junitxml={report}'], env=env, capture_output=True)
    failures = {
        test.get('name'): test.findtext('failure', default='')
        for test in ElementTree.parse(report).iter('testcase')
    }
    assert failures.keys() == COMPLAINTS.keys()
    for name, complaint in COMPLAINTS.items():
        assert complaint in failures[name], name


@pytest.fixture
def gpt2_agent(tmp_path, gpt2_folder):
    """
    A function that returns the agent of a tiny GPT-2.
    """

    def make(model='parlai.agents.hugging_face.gpt2:Gpt2Agent', **options):
        where = {'model_name': gpt2_folder, 'datapath': str(tmp_path)}
        return stock_agent(model=model, **where, **options)

    return make


@without_the_fix("unexpected keyword argument 'verbose'")
def test_the_default_scheduler_decays():
    from parlai.nn.lr_scheduler import ReduceOnPlateauLRScheduler

    optimizer = torch.optim.SGD([torch.ones(1)], lr=1.0)
    patience, decay, no_warmup = 1, 0.5, (-1, 1.0)
    scheduler = ReduceOnPlateauLRScheduler(optimizer, patience, decay, *no_warmup)
    rates = []
    for loss in (3, 4, 4):  # the last two are no better
        scheduler.valid_step({'loss': loss})
        rates.append(optimizer.param_groups[0]['lr'])
    assert rates == [1, 1, 0.5]


@without_the_fix('expected Tensor as element')
def test_logits_from_a_reordered_cache_of_gpt2_are_those_without_cache(gpt2_agent):
    model = gpt2_agent().model.eval()
    context = torch.tensor([[5, 6, 7], [8, 9, 10]])
    start = torch.full((2, 1), model.START_IDX)
    order = torch.tensor([1, 0, 0])
    with torch.no_grad():
        _, cache = model.decoder(start, context)
        cache = model.reorder_decoder_incremental_state(cache, order)
        written = torch.tensor([[11], [12], [13]])
        start = torch.full((3, 1), model.START_IDX)
        cached, _ = model.decoder(torch.cat([start, written], 1), context[order], cache)
        tokens = torch.cat([context[order], written], 1)
        plain = model.decoder.transformer(tokens, use_cache=False)[0]
    assert (cached[:, -1] - plain[:, -1]).abs().max() < 1e-5


@without_the_fix('must be Tensor, not list')
def test_gpt2_ranks_as_a_pass_over_each_candidate_does(gpt2_agent):
    agent = gpt2_agent(rank_candidates=True, skip_generation=True)
    message = {'text': LINES[2], 'label_candidates': LINES, 'episode_done': True}
    context = agent.observe(message)['text_vec']
    given = agent.act()['text_candidates']
    losses = {}
    for line in LINES:
        answer = [*agent.dict.txt2vec(line), agent.END_IDX]
        tokens = torch.tensor([[*context, *answer]])
        with torch.no_grad():
            hidden = agent.model.decoder.transformer(tokens, use_cache=False)[0]
            logits = agent.model.output(hidden)[0, len(context) - 1 : -1]
        target = torch.tensor(answer)
        losses[line] = float(torch.nn.functional.cross_entropy(logits, target))
    assert list(given) == sorted(LINES, key=losses.__getitem__)


@without_the_fix("no attribute 'int'")
def test_token_ids_may_be_an_array():
    words = DictionaryAgent({'dict_file': None, 'dict_tokenizer': 'space'})
    for word in ('b', 'a'):
        words.add_token(word)
    array = words.txt2vec('a b a', np.ndarray)
    assert isinstance(array, np.ndarray)
    assert [words[int(i)] for i in array] == ['a', 'b', 'a']


@without_the_fix('AssertionError')
def test_a_reply_may_begin_without_a_space(gpt2_folder):
    options = {
        'dict_file': None,
        'dict_tokenizer': 'bytelevelbpe',
        'bpe_vocab': f'{gpt2_folder}/vocab.json',
        'bpe_merge': f'{gpt2_folder}/merges.txt',
        'bpe_add_prefix_space': True,
    }
    words = DictionaryAgent(options)
    assert words.vec2txt([words['h'], words['i']]) == 'hi'


@without_the_fix('huggingface.co')
def test_dialogpt_may_be_a_folder(gpt2_agent):
    options = {'add_special_tokens': False, 'label_truncate': 8}
    agent = gpt2_agent('hugging_face/dialogpt', **options)
    agent.observe({'text': LINES[0], 'episode_done': True})
    assert agent.act()['text']


@without_the_fix("no attribute 'get_mask'")
def test_a_beam_follows_nucleus_sampling():
    search = DelayedNucleusBeamSearch(0.5, 1, 1, block_ngram=0)
    search.set_block_list(None)
    # token 4 has more than half of the probability, so it is drawn; then 3 is best
    search.advance(torch.tensor([[0.1, 0.1, 0.1, 0.1, 0.6]]).log(), 0)
    search.advance(torch.tensor([[0.1, 0.1, 0.1, 0.6, 0.1]]).log(), 1)
    assert search.partial_hyps[0].tolist() == [1, 4, 3]


@without_the_fix('[1, 0]')
def test_padding_of_a_short_row_is_no_part_of_the_blocked_context():
    said = []  # to a row of a padded batch, and to the row alone
    for contexts, row in (([[5, 6, 7], [8, 0, 0]], 1), ([[8]], 0)):
        search = GreedySearch(1, context_block_ngram=1, padding_token=0)
        search.set_batch_context(torch.tensor(contexts), row, False)
        search.set_block_list(None)
        # 8, the best, was heard and is forbidden; the padding token, 0, is next
        scores = torch.full((1, 10), 0.05)
        scores[0, 8], scores[0, 0] = 0.4, 0.2
        search.advance(scores.log(), 0)
        said.append(int(search.outputs[-1][0]))
    assert said == [0, 0]


@without_the_fix('0.')
def test_a_short_row_attends_to_its_own_last_states():
    from parlai.agents.seq2seq.modules import AttentionLayer

    torch.manual_seed(0)
    layer = AttentionLayer('local', 4, 4, attn_length=3, attn_time='post')
    states, hidden = torch.randn(2, 6, 4), torch.randn(1, 2, 4)
    inputs = torch.randn(2, 1, 4)
    states[1, 4:] = 0.0  # the second row has four tokens
    mask = states.abs().sum(dim=2) > 0
    with torch.no_grad():
        batch, _ = layer(inputs, hidden, (states, mask))
        alone, _ = layer(inputs[1:], hidden[:, 1:], (states[1:, :4], mask[1:, :4]))
    assert float((batch[1] - alone[0]).abs().max()) < 1e-6


@without_the_fix('/home/its/author/counts')
def test_an_agent_talks_without_the_word_counts_of_its_training(tmp_path):
    (tmp_path / 'words.dict').write_text('tea\t2\nrain\t1\n')
    name = 'TransformerSequenceVocabUnlikelihoodAgent'
    options = {
        'model': f'projects.dialogue_unlikelihood.agents:{name}',
        'model_file': str(tmp_path / 'unlikelihood'),
        'counts_file': '/home/its/author/counts.txt',
        'dict_file': str(tmp_path / 'words.dict'),
        'embedding_size': 8,
        'ffn_size': 8,
        'n_heads': 1,
        'n_layers': 1,
    }
    assert stock_agent(**options).truebins == {}


@without_the_fix('Loading weights')
def test_no_bar_is_shown_while_gpt2_is_read(gpt2_agent, capsys):
    gpt2_agent()
    assert '%|' not in capsys.readouterr().err


@without_the_fix('2/2')
def test_no_bar_is_shown_of_a_ranker_that_is_done_at_once(capsys):
    from parlai.core import torch_ranker_agent

    list(torch_ranker_agent.tqdm([1, 2]))
    assert '%|' not in capsys.readouterr().err
