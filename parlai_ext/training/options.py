"""
How models are trained. Apart from the trainings, since a command's help must not pay
for torch.
"""

from parlai_ext.core import frozen, option, optional
from parlai_ext.scoring.llm_judges import FORMATS, LABEL_TURNS


@frozen
class JudgeTrainingOptions:
    """
    How a judge is trained. Epochs, rate and batch are PairEval's (Park et al. 2024,
    section 4.1.3); the schedule, the tokens and the turns are ours.
    """

    method: str = option(
        'paireval',
        choices=('paireval', 'directeval'),
        help='paireval: which of two responses is better; directeval: is it good',
    )
    judge_format: str = option(
        'plain', choices=FORMATS, help='how the judge is asked, here and as a scorer'
    )
    prompt: str | None = optional(
        metavar='FILE',
        signed='if changed',
        help='paireval: a file with the prompt, as for the scorer',
    )
    epochs: int = option(1, low=1, help='how often each pair is used')
    learning_rate: float = option(1e-4, above=0, help='of AdamW at the first step')
    schedule: str = option(
        'linear',
        choices=('linear', 'constant'),
        help='how the learning rate goes on: linearly to 0, or as it begins',
    )
    warmup_steps: int = option(0, low=0, help='steps in which the rate rises from 0')
    train_batchsize: int = option(16, low=1, help='examples in a step')
    lora_r: int = option(16, low=1, help='rank of the LoRA matrices')
    lora_alpha: int = option(8, low=1, help='their scale, times 1 / rank')
    lora_dropout: float = option(0.0, low=0, high=1, help='dropout before them')
    lora_modules: str = option(
        'auto',
        help='auto: what peft chooses for the architecture; all-linear; or names of '
        'modules, joined by commas',
    )
    lora_layers: int = option(
        0, low=0, help='only the last so many layers learn, which is faster; 0: all'
    )
    context_turns: int = option(
        LABEL_TURNS, low=0, help='utterances before a response that are read; 0: all'
    )
    max_tokens: int = option(
        512, low=16, help='longer prompts are left out, and counted'
    )
    tokens_per_pass: int = option(
        600,
        low=1,
        help='tokens in one forward pass; a step is divided into such passes',
        signed=False,
    )
    dtype: str = option(
        'float32',
        choices=('float32', 'bfloat16', 'float16'),
        help='of the frozen weights while it is trained',
    )
    save_steps: int = option(
        20, low=1, help='steps after which the state is saved', signed=False
    )
    max_steps: int = option(
        0,
        low=0,
        help='end after so many steps, and write the judge as it then is; 0: all',
        signed=False,
    )
    seed: int = option(0, low=0, help='of the order of examples and of new weights')


@frozen
class TrainingOptions:
    """
    How a model is trained. The defaults are those of the baseline's program (Hugging
    Face's run_language_modeling.py), but for `tokens`, there 512, and `head_steps`,
    there none.
    """

    title = 'training'
    epochs: float = option(3.0, above=0, help='how often each dialogue is read')
    steps: int | None = optional(low=1, help='updates, instead of --epochs')
    batchsize: int = option(4, low=1, help='dialogues an update')
    tokens: int = option(256, low=8, help='of a dialogue; a longer one is divided')
    learning_rate: float = option(
        5e-5, above=0, help='of the first update; it falls to 0 in a straight line'
    )
    head_steps: int = option(
        50, low=0, help='mlm: updates before these, of a newly drawn head alone'
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
