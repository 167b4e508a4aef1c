"""
How much of a pack is made again when it is checked.

The help of commands imports this module, so it imports little.
"""

from dataclasses import dataclass

from parlai_ext.core.options import option


@dataclass(frozen=True)
class RegenerateOptions:
    """
    How much of a pack is made again, and how near it must come.
    """

    sample: int = option(0, low=0, help='utterances that are scored again (0)')
    regenerate: int = option(
        0,
        low=0,
        metavar='M',
        help='dialogues that are played again, of as many targets as there are (0)',
    )
    judge_check: bool = option(
        False,
        help='make the judge check again, about a quarter of the scorings of the run',
    )
    tolerance: float = option(
        0.001,
        low=0,
        help='by so much a score may differ from the one made again (0.001)',
    )
    max_different: float = option(
        0.0,
        low=0,
        high=1,
        metavar='SHARE',
        help='share of the dialogues played again, or of the pairs of a judge check, '
        'that may differ, as near ties may flip on another machine (0)',
    )
    draw: int | None = option(
        None,
        metavar='SEED',
        help='draws what is made again (default: drawn afresh and printed, so that '
        'nobody knows beforehand what will be checked)',
    )

    @property
    def any(self) -> bool:
        """
        True if something is made again.
        """
        return bool(self.sample or self.regenerate or self.judge_check)
