"""
Training examples of the mini models, drawn afresh for every update.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from parlai.core.message import Message

from parlai_ext.mini.smalltalk import (
    TRAIN,
    Example,
    make_dialogue,
    make_reaction_example,
)

# kinds that can be seen in the turn itself; the judge learns these first
EASY = {
    kind: TRAIN[kind]
    for kind in ('stutter', 'loop', 'drop_words', 'random_words', 'no_detail')
}

HELD_OUT = 1024  # examples of the valid fold
POOL = 16  # batches sorted by length together, so that little is padded


def chat_example(fold: str, seed: int, index: int) -> Example:
    """
    Return a turn of plain small talk with all turns before it.
    """
    turns = [turn.text for turn in make_dialogue(fold, seed, index)]
    rng = random.Random(f'chat/{fold}/{seed}/{index}')
    at = 1 + int(rng.random() * (len(turns) - 1))
    return Example(tuple(turns[:at]), turns[at])


SOURCES: dict[str, Callable[[str, int, int], Example]] = {
    'chat': chat_example,
    # turns of a dialogue, and the reaction (or an ordinary turn) that follows them
    'judge': make_reaction_example,
    # the corruption can be seen in the turn itself
    'judge-easy': partial(make_reaction_example, kinds=EASY),
}


def vectorize(agent: Any, example: Example, labels: str = 'labels') -> Message:
    """
    Return the example as ``agent`` observes it.

    :param labels: ``eval_labels`` for an example that is not learned from.
    """
    agent.history.reset()
    message = Message(text='\n'.join(example.context), episode_done=False)
    message[labels] = [example.reply]
    agent.history.update_history(message)
    return agent.vectorize(
        message,
        agent.history,
        text_truncate=agent.text_truncate,
        label_truncate=agent.label_truncate,
    )


def batches(
    agent: Any, source: str, fold: str, seed: int, size: int, count: int
) -> Iterator[list[Message]]:
    """
    Yield ``count`` batches of vectorized examples of similar length.
    """
    rng = random.Random(f'batches/{source}/{fold}/{seed}')
    n_made = 0
    while n_made < count:
        start = n_made * size
        pool = [
            vectorize(agent, SOURCES[source](fold, seed, start + i))
            for i in range(POOL * size)
        ]
        pool.sort(key=lambda x: (len(x['text_vec']), len(x.get('labels_vec', ()))))
        cut = [pool[i : i + size] for i in range(0, len(pool), size)]
        order = sorted(range(len(cut)), key=lambda _: rng.random())
        for i in order[: count - n_made]:
            yield cut[i]
        n_made += POOL


def held_out_loss(agent: Any, source: str, seed: int) -> float:
    """
    Return the mean loss per token (generators) or example (rankers) on the valid fold.
    """
    agent.reset_metrics()
    acts: list[Any] = []
    for start in range(0, HELD_OUT, 32):
        acts += agent.batch_act(
            [
                vectorize(agent, SOURCES[source]('valid', seed, i), 'eval_labels')
                for i in range(start, start + 32)
            ]
        )
    return mean_loss(acts)


def mean_loss(acts: Sequence[Any]) -> float:
    """
    Return the loss of acts: per token (generators) or per example (rankers).
    """
    metrics = [act['metrics'] for act in acts]
    losses = [loss.get('loss', loss.get('mean_loss')) for loss in metrics]
    return float(sum(x._numer for x in losses) / sum(x._denom for x in losses))


def all_utterances(fold: str, seed: int, count: int) -> list[str]:
    """
    Return every utterance of ``count`` dialogues once, in alphabetical order.
    """
    return sorted(
        {
            turn.text
            for index in range(count)
            for turn in make_dialogue(fold, seed, index)
        }
    )


def tokenizer_texts(seed: int, count: int) -> Sequence[str]:
    """
    Return the texts that the byte-pair encoding is learned from.
    """
    return [
        text
        for index in range(count)
        for text in (
            *(turn.text for turn in make_dialogue('train', seed, index)),
            make_reaction_example('train', seed, index).reply,
        )
    ]
