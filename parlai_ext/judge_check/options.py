"""
Options of the judge check, which commands share.
"""

from dataclasses import dataclass

from parlai_ext.core.errors import UserError
from parlai_ext.core.options import option
from parlai_ext.judge_check.record import DimensionCheck

SAMPLE = 200


@dataclass(frozen=True)
class CheckOptions:
    """
    How large the sample of the judge check is.
    """

    check_sample: int = option(
        SAMPLE,
        low=0,
        help='responses of the judge check at most (0: no check); it shrinks in small '
        'runs, to 40 at least',
    )


@dataclass(frozen=True)
class RequireCheck:
    """
    Whether a judge must pass its check.
    """

    require_judge_check: bool = option(
        False,
        help='exit code 3 if the judge that ranks was not checked or failed its check',
    )


class JudgeCheckFailed(UserError):
    """
    The judge that ranks failed its check, or has none: exit code 3.
    """

    exit_code = 3


def require_passed(check: DimensionCheck | None) -> None:
    """
    Refuse a ranking whose judge failed its check or was not checked.

    :raises JudgeCheckFailed: with the first reason.
    """
    if check is None:
        raise JudgeCheckFailed(
            '--require-judge-check: this judge was not checked; score the run again '
            'with --check-sample above 0'
        )
    if check.failed:
        raise JudgeCheckFailed(
            f'--require-judge-check: the judge failed its check on {check.dimension}: '
            f'{check.reasons[0]}'
        )
