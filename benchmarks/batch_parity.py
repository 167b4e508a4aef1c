"""
Count the replies that differ between a batch and one dialogue at a time.

    python -m benchmarks.batch_parity [MODEL_FILE ...]

Every model talks with itself, in float32 and in float64, once in one batch and once
dialogue by dialogue. Rounding differs with the shape of a batch and may flip a
near-tie; from then on the two dialogues differ. So the rate is: first differences per
utterance that had the same history. Without model files, models of the mini zoo are
used.
"""

from collections.abc import Sequence

import torch

from benchmarks.support.measures import benchmark_parser
from parlai_ext.commands.command import one_line_errors
from parlai_ext.core.nouns import Dialogue, Opener, Pairing, System
from parlai_ext.systems.openers import load_openers
from parlai_ext.systems.parlai_agents import load_system
from parlai_ext.systems.players import Player
from parlai_ext.worlds.lockstep import BatchRow, play_on
from parlai_ext.worlds.schedule import sample_openers
from tests.support.tiny_models import in_float64

NUM_TURNS = 12
MODELS = [f'zoo:mini/{name}/model' for name in ('step-150', 'step-4050', 'retrieval')]


def compare(player: Player, openers: Sequence[Opener]) -> tuple[int, int]:
    """
    Return how many utterances had the same history, and how many of them differ.
    """
    pairing = Pairing('parity', player.name, player.name, 'self_play')
    rows = [BatchRow(pairing, opener) for opener in openers]
    players = {player.name: player}
    together, _ = play_on(rows, players, NUM_TURNS)
    alone = [play_on([row], players, NUM_TURNS)[0][0] for row in rows]
    pairs = [first_difference(*two) for two in zip(together, alone, strict=True)]
    return sum(same for same, _ in pairs), sum(differ for _, differ in pairs)


def first_difference(one: Dialogue, other: Dialogue) -> tuple[int, int]:
    """
    Return the number of utterances with the same history, and 1 if the last differs.
    """
    made = [[u.text for u in d.utterances if not u.given] for d in (one, other)]
    for i, (a, b) in enumerate(zip(*made, strict=False), 1):
        if a != b:
            return i, 1
    return len(made[0]), int(len(made[0]) != len(made[1]))


def main() -> None:
    """
    Print one line for each model and precision.
    """
    parser = benchmark_parser(__doc__)
    parser.add_argument('model_files', nargs='*', default=MODELS)
    parser.add_argument('--num-dialogues', type=int, default=64)
    opt = parser.parse_args()
    torch.set_num_threads(1)
    openers = sample_openers(load_openers('ext:smalltalk'), opt.num_dialogues, 0)
    print(f'{"model":40} {"precision":9} {"utterances":>10} {"differ":>6} {"rate":>8}')
    for path in opt.model_files:  # decoded as their `.opt` says
        player = load_system(System(path, {'model_file': path}))
        for precision in ('float32', 'float64'):
            if precision == 'float64':
                in_float64(player.agent)
            n, differ = compare(player, openers)
            rate = f'{differ / n:8.4%}' if n else '       -'
            print(f'{path[-40:]:40} {precision:9} {n:10} {differ:6} {rate}')


if __name__ == '__main__':
    with one_line_errors():
        main()
