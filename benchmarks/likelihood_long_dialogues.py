"""
Time the likelihood engine on dialogues of few and of many turns.

    python -m benchmarks.likelihood_long_dialogues [--turns 4 8 10 21 39 60]

Every turn of a dialogue is asked for the same 13 follow-ups, the complaints of the
default set. Three sides take turns in one process:

* `cache`: a key-value cache that all turns share, filled turn by turn; each turn is one
  pass, together with its follow-ups as a tree, which are dropped from the cache;
* `one pass`: the engine without a cache, the whole dialogue as one tree in one pass;
* `engine`: the engine as it is, which chooses the number of passes by cost.

The model has the shape of SmolLM2-135M and random weights (``--model``: a folder with
real ones), turns are random tokens. ``--divide 5`` gives it a fifth of its layers and
of its vocabulary: all sides take a fifth of the time, ratios stay. The clock is the CPU
time of the process; times are medians, with the least of all repeats behind them. A
table in Markdown ends the run.
"""

import argparse
import json
import os
import random
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers import AutoModelForCausalLM, DynamicCache, LlamaConfig

from benchmarks.likelihood_causal import Ids, tokens_of
from benchmarks.support.measures import (
    CLOCKS,
    print_head,
    print_row,
    start,
    times_in_turn,
)
from parlai_ext.core.nouns import Question
from parlai_ext.models.likelihood.budget import TOKENS
from parlai_ext.models.likelihood.causal import Causal
from parlai_ext.models.likelihood.prefix_packs import TokenQuestion, pack_questions
from parlai_ext.models.likelihood.prefix_tree import PrefixTree, TreePass, tree_mask
from parlai_ext.scoring.followups import load_followups

SMOLLM2 = {
    'vocab_size': 49152,
    'hidden_size': 576,
    'intermediate_size': 1536,
    'num_hidden_layers': 30,
    'num_attention_heads': 9,
    'num_key_value_heads': 3,
    'max_position_embeddings': 8192,
    'tie_word_embeddings': True,
}
END = 2
Logprobs = list[tuple[float, ...]]


def build(opt: argparse.Namespace) -> Any:
    """
    Return SmolLM2-135M's shape with random weights, or the model in a folder.
    """
    torch.manual_seed(0)
    fewer = {
        name: SMOLLM2[name] // opt.divide
        for name in ('num_hidden_layers', 'vocab_size')
    }
    if opt.model:
        model = AutoModelForCausalLM.from_pretrained(opt.model)
    else:
        model = AutoModelForCausalLM.from_config(LlamaConfig(**{**SMOLLM2, **fewer}))
    dtype = getattr(torch, opt.dtype)
    return model.to(opt.device, dtype).requires_grad_(False).eval()


class SharedCache:
    """
    A dialogue turn by turn: one key-value cache, one pass a turn.
    """

    def __init__(self, model: Any):
        self.model = model

    def answer(self, turns: Sequence[Ids], followups: Sequence[Ids]) -> list[Logprobs]:
        """
        Return the log-probabilities of the follow-ups after each turn.
        """
        cache = DynamicCache()
        with torch.inference_mode():
            return [self._one_turn(turn, followups, cache) for turn in turns]

    def _one_turn(
        self, turn: Ids, followups: Sequence[Ids], cache: DynamicCache
    ) -> Logprobs:
        """
        Read a turn and its follow-ups. The turn stays in the cache.
        """
        before = cache.get_seq_length()
        tree = PrefixTree()
        last = tree.add(turn)[-1]
        paths = [[last, *tree.add(ids[:-1], last)] for ids in followups]
        order, n = tree.preorder(), len(tree)
        device = self.model.device
        ends, depths = (
            torch.tensor([row], device=device) for row in (order.ends, order.depths)
        )
        own = tree_mask(ends, depths, TreePass(0, n, []))
        mask = torch.cat([own.new_ones(1, 1, n, before), own], dim=-1)
        hidden = self.model.model(
            input_ids=torch.tensor([order.tokens], device=device),
            attention_mask=mask,
            position_ids=depths + before,
            past_key_values=cache,
            use_cache=True,
        )[0][0]
        cache.crop(len(turn) - n)
        nodes = sorted({node for path in paths for node in path})
        row_of_node = {node: row for row, node in enumerate(nodes)}
        wanted = hidden[[order.places[node] for node in nodes]]
        logprobs = self.model.lm_head(wanted).log_softmax(-1, dtype=torch.float32)
        return [
            tuple(logprobs[[row_of_node[node] for node in path], list(ids)].tolist())
            for path, ids in zip(paths, followups, strict=True)
        ]


def complaints() -> tuple[Ids, ...]:
    """
    Return the default complaints, one number for each word or mark, closed by an end.
    """
    sides = load_followups('default').dimensions.values()
    texts = [text for side in sides for text in side.negative]
    return tuple((*ids[:-1], END) for ids in tokens_of(texts))


def random_turns(n_turns: int, length: int, vocabulary: int) -> list[Ids]:
    """
    Return turns of random tokens, none of them among those of the complaints.
    """
    draw = random.Random(0)
    return [
        tuple(draw.randrange(1000, vocabulary) for _ in range(length))
        for _ in range(n_turns)
    ]


def measure(n_turns: int, model: Any, opt: argparse.Namespace) -> dict[str, Any]:
    """
    Return the times of all sides for a dialogue of so many turns, and how far their
    numbers are apart.
    """
    followups = complaints()
    turns = random_turns(n_turns, opt.turn_tokens, model.config.vocab_size)
    contexts = [sum(turns[: n + 1], ()) for n in range(n_turns)]
    asked = [Question(context, followups) for context in contexts]
    shared = SharedCache(model)
    engine, one_pass = (Causal(model, None, '', tokens=opt.tokens) for _ in range(2))
    one_pass.takes_cache = False
    sides: dict[str, Callable[[], list[Logprobs]]] = {
        'cache': lambda: shared.answer(turns, followups),
        'one pass': lambda: [list(a.continuations) for a in one_pass.answer(asked)],
        'engine': lambda: [list(a.continuations) for a in engine.answer(asked)],
    }
    results = {name: flat(work()) for name, work in sides.items()}
    times = times_in_turn(sides, opt)
    n_tokens, n_passes = plan(contexts, followups, engine)
    return {
        'turns': n_turns,
        'context': len(contexts[-1]),
        'tree': n_tokens,
        'passes': n_passes,
        'times': times,
        'difference': max(
            abs(a - b)
            for numbers in results.values()
            for a, b in zip(numbers, results['cache'], strict=True)
        ),
    }


def plan(
    contexts: Sequence[Ids], followups: tuple[Ids, ...], engine: Causal
) -> tuple[int, int]:
    """
    Return how many tokens the engine reads for a dialogue, and in how many passes.
    """
    costs = engine.costs(engine.budget.tokens)
    asked = [TokenQuestion(context, followups) for context in contexts]
    sizes = [pack.tree.size for pack in pack_questions(asked, costs, False)]
    return sum(size.n_nodes for size in sizes), sum(map(costs.num_passes, sizes))


def flat(answers: Sequence[Logprobs]) -> list[float]:
    """
    Return all numbers in a row.
    """
    return [number for rows in answers for row in rows for number in row]


def row(measured: dict[str, Any]) -> list[str]:
    """
    Return the cells of a dialogue's row: times, their ratios to the cache's, and the
    engine's time for a turn.
    """
    times = measured['times']
    middle = {name: statistics.median(some) for name, some in times.items()}
    least = {name: min(some) for name, some in times.items()}
    ratios = [
        f'{middle[name] / middle["cache"]:.2f} ({least[name] / least["cache"]:.2f})'
        for name in ('one pass', 'engine')
    ]
    return [
        *(str(measured[name]) for name in ('turns', 'context', 'tree', 'passes')),
        *(f'{middle[name]:.2f} ({least[name]:.2f})' for name in times),
        *ratios,
        f'{middle["engine"] / measured["turns"]:.3f}',
    ]


COLUMNS = (
    'turns',
    'context, tokens',
    'tree, tokens',
    'passes',
    'cache, s',
    'one pass, s',
    'engine, s',
    'one pass ÷ cache',
    'engine ÷ cache',
    'engine, s a turn',
)


def main(opt: argparse.Namespace) -> None:
    """
    Print one row for each number of turns.
    """
    torch.set_num_threads(opt.threads)
    print(json.dumps(vars(opt)))
    model = build(opt)
    rows = []
    for n_turns in opt.turns:
        measured = measure(n_turns, model, opt)
        print(json.dumps({**measured, 'load': os.getloadavg()[0]}), flush=True)
        rows.append(row(measured))
    print('\nmedian (least of all repeats)\n')
    print_head(*COLUMNS)
    for cells in rows:
        print_row(*cells)


if __name__ == '__main__':
    start(
        main,
        __doc__,
        {'clock': CLOCKS},
        turns=[4, 8, 10, 21, 39, 60],
        turn_tokens=32,
        repeats=5,
        threads=1,
        tokens=TOKENS,
        model=str,
        divide=1,
        device='cpu',
        dtype='float32',
        clock='cpu',
    )
