"""
The options of an audit.
"""

from parlai_ext.core import frozen, one_value, option, optional

PLAY = 'what is played anew'
SIX = 'the sets of Table 6 (default: all that families allow)'


@frozen
class AuditOptions:
    """
    What is audited, and how much is played anew for it.
    """

    scores: str | None = optional(
        metavar='NAME',
        help='hash of the scores to audit, or the name of their scorer (default: those '
        'of the protocol’s scorer); a scorer from outside the package, '
        'my_module:MyScorer, is imported only if it is named so',
    )
    dimension: str | None = optional(
        metavar='NAME', help='the dimension to audit (default: the first one)'
    )
    set_size: int | None = optional(
        low=2, help='systems of a small target set (4, as in the paper, or all but one)'
    )
    unfavored: str | None = optional(
        metavar='NAME', group=SIX, help='the system that is to be made worse'
    )
    similar: tuple[str, ...] = option(
        (), nargs='+', metavar='NAME', group=SIX, help='systems that resemble it'
    )
    fair_set: str | None = optional(
        metavar='FILE',
        group=SIX,
        help='the systems of the fair set, one a line (default: all but the similar)',
    )
    opener_blocks: int = option(
        10, low=2, help='blocks of openers that are left out in turn (10)'
    )
    tables_only: bool = option(
        False, help='play nothing: no canaries and no clones', group=PLAY
    )
    audit_openers: int = option(
        20,
        low=3,
        group=PLAY,
        help='openers, of the run’s, over which canaries and clones play (20)',
    )
    clone: tuple[str, ...] = option(
        (),
        read=one_value,
        metavar='TARGET',
        group=PLAY,
        help='a target to clone; may be given several times (default: the first two '
        'that are no floors)',
    )
