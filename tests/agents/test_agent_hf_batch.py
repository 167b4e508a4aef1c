"""
`ext:hf` in batches: in float64 a conversation gets the reply that it gets alone, be the
model causal or sequence-to-sequence, be its attention full or sliding.
"""

import json
import shutil

import pytest
import torch
from transformers import GenerationConfig

from parlai_ext.core.nouns import System
from parlai_ext.systems.hf.generate import padded_rows, penalty_processors
from parlai_ext.systems.parlai_agents import load_system
from tests.support.family_hf import CONFIGS, OPT, TEMPLATE, make_model
from tests.support.tiny_models import sentences

# of different lengths, so that a batch needs padding
TURNS = [sentences(1 + 3 * (n % 4), seed=n) for n in range(8)]
WAYS = {
    'greedy': {'inference': 'greedy'},
    'beam': {'inference': 'beam', 'beam_size': 3},
    'penalty': {'inference': 'greedy', 'repetition_penalty': 4.0},
    'stop': {'inference': 'greedy', 'stop': ['song', 'old']},
    'beam_stop': {'inference': 'beam', 'beam_size': 3, 'stop': ['song', 'old']},
}


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    home = tmp_path_factory.mktemp('hf')
    for kind in CONFIGS:
        make_model(home, kind, template=TEMPLATE if kind == 'llama' else None)
    return home


def player(folder, kind, **opt):
    found = {**OPT, 'hf_model': str(folder / kind), 'hf_dtype': 'float64', **opt}
    return load_system(System(kind, found))


def replies(player, dialogues):
    participants = [player.join() for _ in dialogues]
    for participant, turns in zip(participants, dialogues, strict=True):
        for i, text in enumerate(turns):
            if (len(turns) - i) % 2:
                participant.hear(text, 'other')
            else:
                participant.take_as_own(text)
    return [reply.text for reply in player.respond(participants)]


# how replies are searched is the same for all kinds; what attends to what is not
SEARCHED = [(kind, 'beam_stop') for kind in CONFIGS if kind not in ('gpt2', 'bart')]
SEARCHED += [(kind, way) for kind in ('gpt2', 'bart') for way in WAYS]


@pytest.mark.parametrize('kind, way', SEARCHED)
def test_a_batch_changes_no_reply(kind, way, folder):
    model = player(folder, kind, **WAYS[way])
    alone = [replies(model, [turns])[0] for turns in TURNS]
    assert replies(model, TURNS) == alone
    assert len(set(alone)) > 1


@pytest.mark.parametrize('kind', CONFIGS)
def test_a_reply_depends_on_the_first_turn(kind, folder):
    model = player(folder, kind)
    dialogues = [[first, *sentences(2)] for first in sentences(8, seed=9)]
    assert len(set(replies(model, dialogues))) > 1


def test_a_row_that_is_over_leaves_the_others_alone(folder):
    free = replies(player(folder, 'gpt2'), TURNS)
    word = free[0].split()[1]
    stopped = replies(player(folder, 'gpt2', stop=[f' {word}']), TURNS)
    assert stopped == [text.split(f' {word}')[0] for text in free]
    assert stopped[0] != free[0] and any(
        a == b for a, b in zip(free, stopped, strict=True)
    )


def test_padding_with_the_end_token_is_no_word(folder, tmp_path):
    # GPT-2 has no padding token and is padded with the end token: a batch must not make
    # the end of a reply less likely
    shutil.copytree(folder / 'gpt2', tmp_path / 'gpt2')
    for name in ('config.json', 'generation_config.json', 'tokenizer_config.json'):
        path = tmp_path / 'gpt2' / name
        settings = json.loads(path.read_text(encoding='utf-8'))
        kept = {k: v for k, v in settings.items() if not k.startswith('pad_token')}
        path.write_text(json.dumps(kept), encoding='utf-8')
    more = {'repetition_penalty': 1.5, 'hf_turn_separator': 'tea'}
    model = player(tmp_path, 'gpt2', **more)
    assert model.agent.generator.config.pad_token_id == 2
    alone = [replies(model, [turns])[0] for turns in TURNS]
    assert any(len(text.split()) < 8 for text in alone)
    assert replies(model, TURNS) == alone


def test_only_words_that_were_there_get_less_likely():
    # words 0…3, padding 3; the row says 1, the second row 0 and 1
    mask = torch.tensor([[0, 1], [1, 1]])
    [penalty] = penalty_processors(GenerationConfig(repetition_penalty=2.0), mask)
    seen = torch.tensor([[3, 1, 2], [0, 1, 1]])
    assert penalty(seen, torch.full((2, 4), 8.0)).tolist() == [
        [8, 4, 4, 8],
        [4, 4, 8, 8],
    ]


def test_only_words_of_the_reply_are_blocked():
    # the prompt says 1 2, the reply so far 2 0
    config = GenerationConfig(no_repeat_ngram_size=1)
    [block] = penalty_processors(config, torch.tensor([[1, 1]]))
    scores = block(torch.tensor([[1, 2, 2, 0]]), torch.zeros(1, 4))
    assert scores[0].isinf().tolist() == [True, False, True, False]


@pytest.mark.parametrize(
    'right, ids, mask',
    [
        (False, [[0, 7], [8, 9]], [[0, 1], [1, 1]]),
        (True, [[7, 0], [8, 9]], [[1, 0], [1, 1]]),
    ],
)
def test_padded_rows_have_a_mask_of_their_tokens(right, ids, mask):
    found = padded_rows([[7], [8, 9]], 0, right)
    assert (found[0].tolist(), found[1].tolist()) == (ids, mask)
