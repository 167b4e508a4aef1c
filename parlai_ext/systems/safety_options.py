"""
The options of a safety layer: which system is inside, what is checked by which
detector, and what is said instead.
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Mapping
from dataclasses import dataclass

from parlai_ext import zoo_configs
from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import System
from parlai_ext.core.options import json_object, option
from parlai_ext.files.roster_file import parse_target
from parlai_ext.files.text_file import read_utf8
from parlai_ext.files.yaml_file import read_file
from parlai_ext.isolation.names import Options

PREFIX = 'safety'  # of the options' names
SAFETY_SYSTEM = 'safety_system'
FIRED = PROMPT, ANSWER = 'prompt', 'answer'  # which check fired
CHECKS = ('both', *FIRED)
DEFLECTIONS = zoo_configs.HOME / 'moderation' / 'deflections.yaml'


@dataclass(frozen=True, kw_only=True)
class SafetyOptions:
    """
    What a safety layer checks, and what it says where a check fires.
    """

    system: str | None = option(
        None,
        help='the system inside: the name of a shipped one, a YAML file, '
        'NAME=MODEL_FILE[,key=value…] as --add-target takes it, or (in a roster) a '
        'mapping of its options',
    )
    detector: str = option(
        'toxic-comments',
        help='what tells toxic texts, as compare_detectors names it; '
        'NAME,threshold=0.8 sets the threshold',
    )
    checks: str = option(
        'both',
        choices=CHECKS,
        help="prompt = what the other says, answer = the system's reply",
    )
    deflections: str | None = option(
        None,
        path=True,
        metavar='FILE',
        help='sentences to say instead, one a line (shipped ones)',
    )


def system_inside(opt: Options) -> System:
    """
    Return the system that a safety layer holds.

    :raises UserError: ``safety_system: what is wrong``.
    """
    value = opt.get(SAFETY_SYSTEM)
    if not value:
        raise UserError(f'{SAFETY_SYSTEM}: not given; a system is expected')
    try:
        if isinstance(value, str) and value.lstrip().startswith('{'):
            value = json_object(value)
        if isinstance(value, Mapping):
            return System('inside', dict(value))
        return parse_target(str(value))[0]
    except (UserError, ArgumentTypeError) as error:
        raise UserError(f'{SAFETY_SYSTEM}: {error}') from None


def read_deflections(opt: Options) -> tuple[str, ...]:
    """
    Return the sentences that are said instead of a flagged answer.

    :raises UserError: when the file cannot be read, or has none.
    """
    path = opt.get('safety_deflections')
    if not path:
        return tuple(read_file(DEFLECTIONS).data['sentences'])
    lines = read_utf8(str(path), 'safety_deflections: ').split('\n')
    sentences = tuple(line.strip() for line in lines if line.strip())
    if not sentences:
        raise UserError(f'safety_deflections: {path} has no sentence')
    return sentences
