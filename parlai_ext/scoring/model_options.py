"""
The options that scorers have in common: the models inside them, and how much of a
context is read.
"""

from typing import Any

from parlai_ext.core.options import option

JUDGE = 'smollm2-135m-q4'
ENCODER = 'minilm'
FROM = 'a folder, or hf:REPOSITORY[@REVISION]'


def model_option(default: str | None, kind: str, what: str, **info: Any) -> Any:
    """
    Return the option that names a model of one kind inside a scorer.

    :param what: which models would do, for the help text.
    """
    return option(default, help=what, metavar='MODEL', model=kind, path=True, **info)


def judge_option(
    default: str = JUDGE, what: str = 'the model inside the scorer'
) -> Any:
    """
    Return the option that names the language model inside a scorer.

    :param what: which models would do, for the help text.
    """
    return model_option(
        default,
        'likelihood',
        f'{what}: a catalogue name, a model file, zoo:…, or hf:REPOSITORY[@REVISION]',
        flag='--judge-model-file',
    )


def encoder_option(default: str = ENCODER) -> Any:
    """
    Return the option that names the sentence encoder inside a scorer.
    """
    return model_option(
        default, 'embedder', f'the sentence encoder: a catalogue name, {FROM}'
    )


def context_turns_option(default: int = 0, low: int = 0) -> Any:
    """
    Return the option that says how many utterances before a response are read.
    """
    meaning = '; 0: all' if low == 0 else ''
    return option(
        default,
        low=low,
        help=f'utterances before the response that the judge reads{meaning}',
    )
