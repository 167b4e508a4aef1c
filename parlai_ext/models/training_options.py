"""
How a model is trained on dialogues. Apart from `adaptation`, since a command's help
must not pay for torch.
"""

from __future__ import annotations

from dataclasses import dataclass

from parlai_ext.core.options import option


@dataclass(frozen=True)
class TrainingOptions:
    """
    How a model is trained. The defaults are those of the baseline's program (Hugging
    Face's run_language_modeling.py), but for `tokens`, there 512, and `head_steps`,
    there none.
    """

    epochs: float = option(3.0, above=0, help='how often each dialogue is read')
    steps: int | None = option(None, low=1, help='updates, instead of --epochs')
    batchsize: int = option(4, low=1, help='dialogues an update')
    tokens: int = option(256, low=8, help='of a dialogue; a longer one is divided')
    learning_rate: float = option(
        5e-5, above=0, help='of the first update; it falls to 0 in a straight line'
    )
    head_steps: int = option(
        50,
        low=0,
        help='mlm: updates before these, of a newly drawn head alone',
    )
    masked: float = option(
        0.15, above=0, high=1, help='mlm: the share of tokens to be guessed'
    )
    turns: str = option(
        'joined',
        help='lm: turns are parted by a blank, as amfm reads them (joined), or each '
        'ends with the end token, as other scorers read them (turns)',
        choices=('joined', 'turns'),
    )
    held_out: int = option(
        50, low=1, help='dialogues that are not trained on, for the loss'
    )
    seed: int = option(0, low=0, help='of order, masks, head and dropout')
