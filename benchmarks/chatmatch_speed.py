"""
Time ChatMatch's model-free dimensions on the authors' games and on longer ones.

    python -m benchmarks.chatmatch_speed [--games FOLDER]

`--games` holds `original/` and `lemma_original/`.
"""

import argparse
import json
import os
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault('OMP_NUM_THREADS', '1')

from benchmarks.support.measures import cpu_seconds, start
from parlai_ext.core.nouns import Dialogue, Utterance
from parlai_ext.scoring.chatmatch.concepts import all_but_function_words
from parlai_ext.scoring.chatmatch.game import game_values
from parlai_ext.scoring.chatmatch.rules import chatmatch_options
from parlai_ext.scoring.chatmatch.turns import Material
from parlai_ext.scoring.chatmatch.words import distinct, stem, stems, words

HERE = Path(__file__).parents[1]
GAMES = HERE.parent / 'shared' / 'data' / 'chatmatch'
LENGTHS = (50, 100, 200, 400, 800)
RULES = chatmatch_options('released')


def seconds(job: Callable[[], Any]) -> float:
    """
    Return the CPU seconds of one run that begins with empty caches.
    """
    for cached in (words, stem, stems, distinct):
        cached.cache_clear()
    return cpu_seconds(job)


def read(path: Path) -> Dialogue:
    """
    Return the dialogue in a file of `BOT: text` lines.
    """
    lines = path.read_text(encoding='utf-8').split('\n')
    turns = tuple(Utterance(*line.split(': ', 1)) for line in lines if line)
    return Dialogue(path.stem, '', '', turns)


def list_games(games: Path) -> list[tuple[Path, Path]]:
    """
    Return the files of every game of the authors and of its concepts.
    """
    files = []
    for path in sorted((games / 'original').glob('*.txt')):
        name = '_'.join(u.speaker for u in read(path).utterances[:2])
        files.append((path, games / 'lemma_original' / f'{name}.jsonl'))
    return files


def score_files(pairs: list[tuple[Path, Path]]) -> None:
    """
    Read and score games, files included.
    """
    for path, concepts in pairs:
        concept_of = json.loads(concepts.read_text(encoding='utf-8'))
        game_values(read(path), RULES, Material(concept_of))


def random_game(length: int, seed: int) -> Dialogue:
    """
    Return a game with word frequencies like real text; every tenth turn is a repeat.
    """
    rng = random.Random(seed)
    vocabulary = [f'w{i}' for i in range(3000)]
    weights = [1 / (i + 1) for i in range(3000)]
    texts: list[str] = []
    for _ in range(length):
        text = ' '.join(rng.choices(vocabulary, weights, k=rng.randint(3, 18)))
        texts.append(rng.choice(texts) if texts and rng.random() < 0.1 else text + ' ?')
    return Dialogue(
        '', '', '', tuple(Utterance('ab'[i % 2], t) for i, t in enumerate(texts))
    )


def main(args: argparse.Namespace) -> None:
    """
    Print medians of games by length, and of the authors' games.
    """
    for length in LENGTHS:
        runs = []
        for seed in range(args.times):
            game = random_game(length, seed)
            material = Material(all_but_function_words(game))
            runs.append(seconds(partial(game_values, game, RULES, material)))
        cost = median(runs)
        each = 1e6 * cost / length
        print(f'{length:4d} turns {1e3 * cost:8.2f} ms {each:8.1f} µs/turn')
    pairs = list_games(args.games)
    for count in (len(pairs) // 4, len(pairs) // 2, len(pairs)) if pairs else ():
        job = partial(score_files, pairs[:count])
        whole = median(seconds(job) for _ in range(args.times))
        print(f'{count:4d} games {whole:8.3f} s {1e3 * whole / count:8.2f} ms/game')


if __name__ == '__main__':
    start(main, __doc__, games=GAMES, times=5)
