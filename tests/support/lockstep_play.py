"""
Dialogues that are played side by side, without a run.
"""

from parlai_ext.core import Opener, Pairing
from parlai_ext.worlds.lockstep import BatchRow, play_on

# what a player may add to a tiny model
DECODING = {
    'greedy': {'inference': 'greedy'},
    'beam': {'inference': 'beam', 'beam_size': 3, 'beam_min_length': 3},
    'blocking': {
        'inference': 'beam',
        'beam_size': 2,
        'beam_context_block_ngram': 2,
        'beam_block_full_context': True,
    },
}


def play(rows, players, num_turns, batchsize=None):
    """
    Play one dialogue for each row, side by side; return them in the rows' order.

    :param players: by system name.
    :param num_turns: utterances in a dialogue, given ones included.
    :param batchsize: most dialogues that go through a model together (`None`: all).
    :raises SystemFailed: when a system cannot go on.
    """
    played, failed = play_on(rows, players, num_turns, batchsize)
    for error in failed.values():
        raise error
    return [dialogue for dialogue in played if dialogue is not None]


def row(first, second, texts):
    """
    Return a dialogue to be played that two systems begin with these texts.
    """
    pairing = Pairing(f'{first}-{second}', first, second, 'bipartite')
    return BatchRow(pairing, Opener.from_utterances(texts, 'test'))
