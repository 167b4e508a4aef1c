"""
Every encoder-decoder of the papers can judge: its numbers are those of ParlAI's own
ranking of candidates.
"""

import json
from pathlib import Path

import pytest
from parlai.core.message import Message

from parlai_ext.core.machine import data_in
from parlai_ext.core.nouns import Question, System
from parlai_ext.models.parlai_likelihood import AgentVectorizer, load_judge
from parlai_ext.systems.parlai_agents import load_system
from tests.support.families import FAMILIES, JUDGES
from tests.support.user_error import user_error

CONTEXTS = [('i like tea',), ('you saw the rain', 'we want bread today', 'again')]
REPLIES = ('we like the warm rain', 'today', 'i lost a book there')


def ranked(opt, context):
    """
    Return ParlAI's mean negative log-probability of a token, by reply.
    """
    more = {'rank_candidates': True, 'skip_generation': True, 'interactive_mode': False}
    agent = load_system(System('stock', {**opt, **more}), no_cuda=True).agent
    agent.model.double()
    for text in context[:-1]:
        agent.observe(Message(text=text, episode_done=False))
    last = {'text': context[-1], 'label_candidates': list(REPLIES)}
    agent.observe(Message({**last, 'episode_done': True}))
    act = agent.act()
    return dict(zip(act['text_candidates'], act['cand_scores'], strict=True))


@pytest.mark.parametrize('name', JUDGES)
def test_a_judges_numbers_are_those_of_parlais_ranking(tmp_path, name):
    opt = FAMILIES[name](tmp_path)
    with data_in(opt.get('datapath')):
        judge = load_judge(opt['model_file'], no_cuda=True, dtype='float64')
    answers = judge.answer([Question(context, REPLIES) for context in CONTEXTS])
    for context, answer in zip(CONTEXTS, answers, strict=True):
        means = [sum(tokens) / len(tokens) for tokens in answer.continuations]
        expected = ranked(opt, context)
        assert means == pytest.approx([-expected[reply] for reply in REPLIES], abs=1e-9)


def test_the_number_of_pretrained_positions_is_in_the_signature(tmp_path):
    path = FAMILIES['long_context'](tmp_path)['model_file']
    options_file = Path(f'{path}.opt')
    signatures = []
    for n_pretrained in (16, 8):
        opt = {**json.loads(options_file.read_text()), 'n_positions_init': n_pretrained}
        options_file.write_text(json.dumps(opt))
        signatures.append(load_judge(path, no_cuda=True).signature)
    assert signatures[0] != signatures[1]


@pytest.mark.parametrize('name', ['polyencoder', 'seq2seq_lstm'])
def test_a_model_that_cannot_judge_is_refused_by_its_class(tmp_path, name):
    opt = FAMILIES[name](tmp_path)
    with user_error('^judge .* is no (generator|encoder-decoder)'):
        load_judge(opt['model_file'], no_cuda=True)


@pytest.mark.parametrize('name', JUDGES)
def test_a_judge_reads_the_context_that_its_agent_would_read(tmp_path, name):
    opt = {**FAMILIES[name](tmp_path), 'text_truncate': 6}
    agent = load_system(System('stock', opt), no_cuda=True).agent
    reader = AgentVectorizer(agent.clone())
    long = CONTEXTS[1]
    for text in long:
        seen = agent.observe(Message(text=text, episode_done=False))
    kept, cut = reader.context(long)
    assert kept == seen['text_vec'].tolist()
    # BART and R2C2 put a token at either end; of the six, four are of the context
    read = 4 if name in ('bart', 'r2c2') else 6
    ids = [agent.dict.txt2vec(text) for text in (*long, *['\n'] * (len(long) - 1))]
    assert cut == sum(map(len, ids)) - read
