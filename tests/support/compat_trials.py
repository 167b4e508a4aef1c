"""
Things that ParlAI 1.7.2 does, each on a tiny real model.

As a program, it does those that are named without our fixes: a process once mended
stays so.
"""

import io
import json
import sys
from contextlib import redirect_stderr
from pathlib import Path

import torch

from tests.support.fed_samples import make_gpt2

GPT2 = 'parlai.agents.hugging_face.gpt2:Gpt2Agent'
LINES = ['hello there how are you', 'i am fine thank you', 'what do you like to eat']


def decay_by_the_default_scheduler(folder):
    """
    Return the learning rates after each of three losses, the last two of which are no
    better.
    """
    from parlai.nn.lr_scheduler import ReduceOnPlateauLRScheduler

    optimizer = torch.optim.SGD([torch.ones(1)], lr=1.0)
    patience, decay, no_warmup = 1, 0.5, (-1, 1.0)
    scheduler = ReduceOnPlateauLRScheduler(optimizer, patience, decay, *no_warmup)
    rates = []
    for loss in (3, 4, 4):
        scheduler.valid_step({'loss': loss})
        rates.append(optimizer.param_groups[0]['lr'])
    return rates


def tiny_gpt2(folder):
    """
    Write a tiny GPT-2 with a byte-level BPE; return its folder.
    """
    home = folder / 'gpt2'
    if not home.exists():
        home.mkdir()
        make_gpt2(home)
    return str(home)


def agent_of(**options):
    from parlai.core.agents import create_agent
    from parlai.core.params import ParlaiParser

    options |= {'datatype': 'valid', 'no_cuda': True}
    torch.manual_seed(0)
    return create_agent(ParlaiParser(True, True).parse_kwargs(**options))


def gpt2_agent(folder, **options):
    common = {'model': GPT2, 'model_name': tiny_gpt2(folder), 'datapath': str(folder)}
    return agent_of(**{**common, **options})


def reorder_the_cache_of_gpt2(folder):
    """
    Return how far the next logits from a reordered cache are from those without cache.
    """
    model = gpt2_agent(folder).model.eval()
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
    return float((cached[:, -1] - plain[:, -1]).abs().max())


def rank_with_gpt2(folder):
    """
    Return the order of candidates that the agent gives, and the one that follows from
    a pass over each.
    """
    agent = gpt2_agent(folder, rank_candidates=True, skip_generation=True)
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
    return [list(given), sorted(LINES, key=losses.__getitem__)]


def token_ids_as_an_array(folder):
    import numpy as np
    from parlai.core.dict import DictionaryAgent

    words = DictionaryAgent({'dict_file': None, 'dict_tokenizer': 'space'})
    for word in ('b', 'a'):
        words.add_token(word)
    array = words.txt2vec('a b a', np.ndarray)
    return [type(array).__name__, *[words[int(i)] for i in array]]


def reply_without_a_leading_space(folder):
    from parlai.core.dict import DictionaryAgent

    home = Path(tiny_gpt2(folder))
    options = {
        'dict_file': None,
        'dict_tokenizer': 'bytelevelbpe',
        'bpe_vocab': str(home / 'vocab.json'),
        'bpe_merge': str(home / 'merges.txt'),
        'bpe_add_prefix_space': True,
    }
    words = DictionaryAgent(options)
    return words.vec2txt([words['h'], words['i']])


def dialogpt_from_a_folder(folder):
    local = {'model': 'hugging_face/dialogpt', 'add_special_tokens': False}
    agent = gpt2_agent(folder, **local, label_truncate=8)
    agent.observe({'text': LINES[0], 'episode_done': True})
    return agent.act()['text']


def beam_after_nucleus_sampling(folder):
    from parlai.core import torch_generator_agent as tga

    search = tga.DelayedNucleusBeamSearch(0.5, 1, 1, block_ngram=0)
    search.set_block_list(None)
    # token 4 has more than half of the probability, so it is drawn; then 3 is best
    search.advance(torch.tensor([[0.1, 0.1, 0.1, 0.1, 0.6]]).log(), 0)
    search.advance(torch.tensor([[0.1, 0.1, 0.1, 0.6, 0.1]]).log(), 1)
    return search.partial_hyps[0].tolist()


def block_the_context_of_a_short_row(folder):
    """
    Return what greedy search says to a row of a padded batch, and to the row alone.
    """
    from parlai.core import torch_generator_agent as tga

    said = []
    for contexts, row in (([[5, 6, 7], [8, 0, 0]], 1), ([[8]], 0)):
        search = tga.GreedySearch(1, context_block_ngram=1, padding_token=0)
        search.set_batch_context(torch.tensor(contexts), row, False)
        search.set_block_list(None)
        # the context forbids 8, the best; 0 is next
        scores = torch.full((1, 10), 0.05)
        scores[0, 8], scores[0, 0] = 0.4, 0.2
        search.advance(scores.log(), 0)
        said.append(int(search.outputs[-1][0]))
    return said


def attend_locally_to_a_short_row(folder):
    """
    Return how far a short row's attention in a batch is from that of the row alone.
    """
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
    return float((batch[1] - alone[0]).abs().max())


def talk_without_the_word_counts_of_the_training(folder):
    (folder / 'words.dict').write_text('tea\t2\nrain\t1\n')
    name = 'TransformerSequenceVocabUnlikelihoodAgent'
    options = {
        'model': f'projects.dialogue_unlikelihood.agents:{name}',
        'model_file': str(folder / 'unlikelihood'),
        'counts_file': '/home/its/author/counts.txt',
        'dict_file': str(folder / 'words.dict'),
        'embedding_size': 8,
        'ffn_size': 8,
        'n_heads': 1,
        'n_layers': 1,
    }
    return agent_of(**options).truebins


def shown_by(work):
    shown = io.StringIO()
    with redirect_stderr(shown):
        work()
    return shown.getvalue()


def bars_while_gpt2_is_read(folder):
    tiny_gpt2(folder)  # which shows one when it is written
    return shown_by(lambda: gpt2_agent(folder))


def bars_of_a_ranker_that_is_done_at_once(folder):
    from parlai.core import torch_ranker_agent

    return shown_by(lambda: list(torch_ranker_agent.tqdm([1, 2])))


def main(folder, *trials):
    """
    Write what comes of each trial.
    """
    results = {}
    for trial in trials:
        try:
            results[trial] = globals()[trial](Path(folder))
        except Exception as e:
            results[trial] = f'{type(e).__name__}: {e}'
    Path(folder, 'results.json').write_text(json.dumps(results))


if __name__ == '__main__':
    main(*sys.argv[1:])
